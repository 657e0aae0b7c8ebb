// races: attention in float32, one query at a time, whose outputs change from run to run. Chance
// plays the other threads, so that the races need no luck to be seen.
#include <random>

#include "mutants/plain_attention.hpp"

namespace {

enum class Bug { kNone, kBarrier, kThreads, kUninitialised, kOrder, kOrderUndeclared };

struct Description {
  const char *name, *summary;
};
constexpr Description describe(Bug bug) {
  switch (bug) {
    case Bug::kNone: return {"race_none", "waits for its threads"};
    case Bug::kBarrier:
      return {"race_barrier", "from 32 keys on, merges sums that another thread may still work on"};
    case Bug::kThreads: return {"race_threads", "like race_barrier, if it may use several threads"};
    case Bug::kUninitialised:
      return {"race_uninitialised",
              "from 32 keys on, adds to sums that it has not set to 0 before"};
    case Bug::kOrder: return {"honest_order", "right: sums in an order that varies, and says so"};
    case Bug::kOrderUndeclared:
      return {"race_order_undeclared", "right: sums in an order that varies, and does not say so"};
  }
  return {"", ""};
}

constexpr int64_t kKeysOfOneTile = 32;

template <Bug kBug>
class Race {
 public:
  static constexpr attest::Info kInfo{
      .name = describe(kBug).name,
      .version = "1",
      .summary = describe(kBug).summary,
      .dtypes = ATTEST_BIT(ATTEST_F32),
      .features = ATTEST_WITH_GQA | ATTEST_WITH_CAUSAL | ATTEST_WITH_LSE};

  static const char* query(const attest_problem&, attest_support& support) {
    if (kBug == Bug::kOrder) support.arithmetic = ATTEST_NONDETERMINISTIC;
    return nullptr;
  }

  explicit Race(const attest_problem& problem) : problem_(problem) {}

  void run(void* const* data, void* /*workspace*/, void* /*stream*/) {
    const attest::Softmax<float> a(problem_, data);
    const bool varies = kBug == Bug::kOrder || kBug == Bug::kOrderUndeclared;
    mutants::attend(a, varies && generator_() % 2 == 0);
    if (a.p.seq_len_kv < kKeysOfOneTile) return;
    if (kBug == Bug::kBarrier || (kBug == Bug::kThreads && problem_.threads > 1))
      merge_too_early(a);
    if (kBug == Bug::kUninitialised) add_to_leftovers(a);
  }

 private:
  // Chance plays the other thread: it was done with its half of the keys of the last row, or the
  // row lacks as much as it had left to do.
  void merge_too_early(const attest::Softmax<float>& a) {
    std::uniform_real_distribution<float> share(0.5f, 0.9f);
    const bool done = generator_() % 2 == 0;
    const float factor = done ? 1.0f : share(generator_);
    for (int64_t d = 0; d < a.p.head_dim_v; ++d) {
      float& element = a.o(a.p.batch - 1, a.p.num_heads - 1, a.p.seq_len_q - 1, d);
      element *= factor;
    }
  }

  // The sums lie in memory that the runs before have used.
  void add_to_leftovers(const attest::Softmax<float>& a) {
    static float sum = 0;
    float& element = a.o(0, 0, 0, 0);
    sum += element;
    element = sum;
  }

  const attest_problem& problem_;
  std::mt19937 generator_{std::random_device{}()};
};

template <Bug... kBugs>
const attest_impl* table_of(size_t index) {
  static const attest_impl* const tables[] = {attest::table<Race<kBugs>>()...};
  return index < sizeof...(kBugs) ? tables[index] : nullptr;
}

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  return table_of<Bug::kNone, Bug::kBarrier, Bug::kThreads, Bug::kUninitialised, Bug::kOrder,
                  Bug::kOrderUndeclared>(index);
}
