// cheats: right where they are judged, and fast where they are timed, by not doing the work. attest
// has to notice every one of them while it times.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unordered_map>

#include "mutants/plain_attention.hpp"

namespace {

enum class Cheat {
  kNone,
  kPointer,
  kShape,
  kCreate,
  kStale,
  kAlternate,
  kThread,
  kSomeInputs,
  kKnownInputs,
  kAllInputs,
  kSlow,
  kHiccup,
  kMortal
};

struct Description {
  const char *name, *summary;
};
constexpr Description describe(Cheat cheat) {
  switch (cheat) {
    case Cheat::kNone: return {"cheat_none", "does the work"};
    case Cheat::kPointer: return {"cheat_pointer", "keeps its result for the same addresses"};
    case Cheat::kShape: return {"cheat_shape", "keeps the first result of a plan"};
    case Cheat::kCreate:
      return {"cheat_create", "computes in create, from inputs that an earlier run kept"};
    case Cheat::kStale: return {"cheat_stale", "does nothing where the outputs look done"};
    case Cheat::kAlternate: return {"cheat_alternate", "works at every second run"};
    case Cheat::kThread:
      return {"cheat_thread", "returns from its second run on while a thread goes on"};
    case Cheat::kSomeInputs:
      return {"cheat_some_inputs", "keeps its results by a hash of a few inputs"};
    case Cheat::kKnownInputs:
      return {"cheat_known_inputs", "keeps its results by all inputs, and skips unknown ones"};
    case Cheat::kAllInputs:
      return {"cheat_all_inputs",
              "keeps its results by all inputs; aborts where that answers most runs"};
    case Cheat::kSlow: return {"cheat_slow", "takes 1.1 s for a first run and nothing for others"};
    case Cheat::kHiccup: return {"cheat_hiccup", "does the work, and sleeps 0.2 s in its 6th run"};
    case Cheat::kMortal:
      return {"cheat_mortal", "does the work, and aborts in the 25th run of a plan"};
  }
  return {"", ""};
}

using Values = std::vector<float>;

size_t elements(const attest_problem& problem, int32_t role) {
  size_t count = 1;
  for (int32_t i = 0; i < problem.tensor[role].rank; ++i)
    count *= static_cast<size_t>(problem.tensor[role].dim[i]);
  return count;
}

Values copy_of(const attest_problem& problem, void* const* data, int32_t role) {
  const auto* begin = static_cast<const float*>(data[role]);
  return {begin, begin + elements(problem, role)};
}

/// FNV-1a of up to `most` floats of Q, K and V each.
uint64_t hash_inputs(const attest_problem& problem, void* const* data, size_t most) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V}) {
    const Values values = copy_of(problem, data, role);
    for (size_t i = 0; i < std::min(most, values.size()); ++i)
      hash = (hash ^ attest::bits_of(values[i])) * 0x100000001b3u;
  }
  return hash;
}

/// What outlives a plan.
struct Memory {
  std::unordered_map<uint64_t, Values> results;  // by a hash of the inputs
  Values q, k, v;                                // of the last run that was computed
};

template <Cheat kCheat>
class Cheater {
 public:
  static constexpr attest::Info kInfo{.name = describe(kCheat).name,
                                      .version = "1",
                                      .summary = describe(kCheat).summary,
                                      .dtypes = ATTEST_BIT(ATTEST_F32)};

  explicit Cheater(const attest_problem& given) : problem(given) {
    if (kCheat != Cheat::kCreate || memory().q.size() != elements(problem, ATTEST_Q)) return;
    result_.resize(memory().q.size());
    void* data[ATTEST_ROLES]{};
    data[ATTEST_Q] = memory().q.data();
    data[ATTEST_K] = memory().k.data();
    data[ATTEST_V] = memory().v.data();
    data[ATTEST_O] = result_.data();
    compute(data);
  }
  Cheater(const Cheater&) = delete;
  ~Cheater() {
    if (thread_.joinable()) thread_.join();
    if (kCheat == Cheat::kAllInputs && runs_ > 20 && hits_ * 2 > runs_) std::abort();
  }

  const attest_problem& problem;

  template <class T>
  void run(void* const* data, void* /*workspace*/, void* /*stream*/) {
    ++runs_;
    auto* o = static_cast<float*>(data[ATTEST_O]);
    switch (kCheat) {
      case Cheat::kNone: return compute(data);
      case Cheat::kPointer: return kept(runs_ > 1 && o == pointer_, data);
      case Cheat::kShape: return kept(runs_ > 1, data);
      case Cheat::kCreate: return from_create(data);
      case Cheat::kStale:
        if (std::isnan(o[0]) || runs_ == 1) compute(data);
        return;
      case Cheat::kAlternate:
        if (runs_ % 2 == 1) compute(data);
        return;
      case Cheat::kThread: return start(data);
      case Cheat::kSomeInputs: return by_hash(hash_inputs(problem, data, 8), data);
      case Cheat::kKnownInputs: return by_hash(hash_inputs(problem, data, SIZE_MAX), data);
      case Cheat::kAllInputs: return by_hash(hash_inputs(problem, data, SIZE_MAX), data);
      case Cheat::kSlow:
        if (runs_ == 1) compute(data), std::this_thread::sleep_for(std::chrono::milliseconds(1100));
        return;
      case Cheat::kHiccup:
        if (runs_ == 6) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        return compute(data);
      case Cheat::kMortal:
        if (runs_ == 25) std::abort();
        return compute(data);
    }
  }

 private:
  static Memory& memory() {
    static Memory all;
    return all;
  }

  void compute(void* const* data) const { mutants::attend(attest::Softmax<float>(problem, data)); }

  static void copy(const Values& from, void* const* data) {
    std::memcpy(data[ATTEST_O], from.data(), from.size() * sizeof(float));
  }

  void kept(bool have, void* const* data) {
    if (have) return copy(result_, data);
    compute(data);
    result_ = copy_of(problem, data, ATTEST_O);
    pointer_ = static_cast<float*>(data[ATTEST_O]);
  }

  void from_create(void* const* data) {
    const auto* q = static_cast<const float*>(data[ATTEST_Q]);
    if (!result_.empty() && std::equal(q, q + 8, memory().q.begin())) return copy(result_, data);
    compute(data);
    // Kept once a plan: the first inputs are those that are timed.
    if (runs_ == 1 && memory().q.empty()) {
      memory().q = copy_of(problem, data, ATTEST_Q);
      memory().k = copy_of(problem, data, ATTEST_K);
      memory().v = copy_of(problem, data, ATTEST_V);
    }
  }

  void start(void* const* data) {
    if (runs_ == 1) return compute(data);  // where it is judged
    if (thread_.joinable()) thread_.join();
    std::copy_n(data, int{ATTEST_ROLES}, copied_);
    thread_ = std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      compute(copied_);
    });
  }

  void by_hash(uint64_t hash, void* const* data) {
    auto& results = memory().results;
    const auto known = results.find(hash);
    if (known != results.end()) {
      ++hits_;
      return copy(known->second, data);
    }
    if (kCheat == Cheat::kKnownInputs && runs_ > 1) return;
    compute(data);
    if (results.size() < 10000) results[hash] = copy_of(problem, data, ATTEST_O);
  }

  int64_t runs_ = 0, hits_ = 0;
  Values result_;
  const float* pointer_ = nullptr;
  std::thread thread_;
  void* copied_[ATTEST_ROLES]{};
};

}  // namespace

ATTEST_PLUGIN(attest::table<Cheater<Cheat::kNone>>(), attest::table<Cheater<Cheat::kPointer>>(),
              attest::table<Cheater<Cheat::kShape>>(), attest::table<Cheater<Cheat::kCreate>>(),
              attest::table<Cheater<Cheat::kStale>>(), attest::table<Cheater<Cheat::kAlternate>>(),
              attest::table<Cheater<Cheat::kThread>>(),
              attest::table<Cheater<Cheat::kSomeInputs>>(),
              attest::table<Cheater<Cheat::kKnownInputs>>(),
              attest::table<Cheater<Cheat::kAllInputs>>(), attest::table<Cheater<Cheat::kSlow>>(),
              attest::table<Cheater<Cheat::kHiccup>>(), attest::table<Cheater<Cheat::kMortal>>())
