// Linear attention in chunks of keys, right or with one mutation.
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "mutants/operations/load.hpp"
#include "mutants/operations/plan.hpp"
#include "mutants/operations/tiles.hpp"

namespace mutants {
namespace {

constexpr int64_t kChunk = 64;  // keys that are summed apart
constexpr int64_t kTail = 16;
constexpr float kMostPhi = 9, kMostValue = 24;
constexpr int64_t kSkipped = 16;  // keys of a tile that kLinearStopsAtHidden looks at

/// sum phi(k)^T v and, in the last column, sum phi(k), of one key head; the same of a chunk; rows
/// of phi, v and the result.
struct State {
  int64_t width;  // head_dim_v + 1
  float *sum, *chunk, *phi, *row;

  State(const attest_linear_params& p, Arena& arena)
      : width(p.head_dim_v + 1),
        sum(arena.take<float>(p.head_dim * width)),
        chunk(arena.take<float>(p.head_dim * width)),
        phi(arena.take<float>(p.head_dim)),
        row(arena.take<float>(width)) {}
};

template <class T>
class LinearKernel {
 public:
  LinearKernel(Mutation mutation, const attest_problem& problem, void* const* data)
      : a_(problem, data),
        mutation_(mutation),
        threads_(problem.threads),
        head_dim_(a_.p.head_dim) {
    if (is(Mutation::kLinearChannelTail) && head_dim_ >= kTail)
      head_dim_ = head_dim_ / kTail * kTail;
  }

  void run(void* workspace) const {
    const attest_linear_params& p = a_.p;
    Arena count(nullptr);
    State(p, count);
#pragma omp parallel for num_threads(threads_) schedule(dynamic, 1)
    for (int64_t pair = 0; pair < p.batch * p.num_heads; ++pair) {
      Arena arena(static_cast<char*>(workspace) +
                  static_cast<size_t>(omp_get_thread_num()) * count.bytes());
      const State x(p, arena);
      const int64_t b = pair / p.num_heads, h = pair % p.num_heads;
      sum_keys(b, is(Mutation::kLinearGqaTiled) ? h % p.num_kv_heads : a_.kv_head(h), x);
      for (int64_t i = 0; i < p.seq_len_q; ++i) answer(b, h, i, x);
    }
  }

 private:
  bool is(Mutation mutation) const { return mutation_ == mutation; }

  float phi(float channel) const {
    if (is(Mutation::kLinearNanAsZero) && std::isnan(channel)) channel = 0;
    if (is(Mutation::kLinearPhiRelu)) return std::max(channel, 0.0f) + 1;
    if (is(Mutation::kLinearPhiCut) && channel < -6) return 0;
    if (is(Mutation::kLinearPhiCut10) && channel < -10) return 0;
    if (is(Mutation::kLinearPhiCut12) && channel < -12) return 0;
    if (is(Mutation::kLinearExpOff) && channel > -5 && channel < -4)
      return 1.01f * std::exp(channel);
    if (is(Mutation::kLinearPhiOfBoth)) {
      const float positive = channel > 0 ? 1 : 0;
      return positive * (channel + 1) + (1 - positive) * std::exp(channel);
    }
    if (is(Mutation::kLinearPhiCapped)) channel = std::min(channel, kMostPhi - 1);
    return attest::Linear<T>::phi(channel) - (is(Mutation::kLinearPhiWithoutOne) ? 1 : 0);
  }

  int64_t keys_until_stop(int64_t b) const {
    const int64_t keys = a_.p.seq_len_kv;
    if (!is(Mutation::kLinearStopsAtHidden)) return keys;
    for (int64_t begin = 0; begin + kSkipped <= keys; begin += kSkipped) {
      int64_t counting = 0;
      for (int64_t j = begin; j < begin + kSkipped; ++j) counting += a_.key_counts(b, j);
      if (counting == 0) return begin;
    }
    return keys;
  }

  void sum_keys(int64_t b, int64_t h, const State& x) const {
    const int64_t keys = keys_until_stop(b), floats = head_dim_ * x.width;
    std::fill_n(x.sum, floats, 0.0f);
    for (int64_t begin = 0; begin < keys; begin += kChunk) {
      if (is(Mutation::kLinearDroppedChunk) && begin / kChunk == keys / kChunk - 1) continue;
      std::fill_n(x.chunk, floats, 0.0f);
      for (int64_t j = begin; j < std::min(begin + kChunk, keys); ++j) add_key(b, h, j, x);
      if (is(Mutation::kLinearDoubledKey) && begin == 0) add_key(b, h, 0, x);
      add_scaled(1, x.chunk, floats, x.sum);
      if (is(Mutation::kLinearSumF16))
        std::transform(x.sum, x.sum + floats, x.sum, [](float sum) { return rounded(sum, 11); });
    }
  }

  void add_key(int64_t b, int64_t h, int64_t j, const State& x) const {
    const bool counts = a_.key_counts(b, j) != is(Mutation::kLinearMaskInverted) || !a_.mask;
    if (is(Mutation::kLinearDroppedKey) && j == a_.p.seq_len_kv - 1) return;
    if (!counts && !is(Mutation::kLinearHiddenLeaks) && !is(Mutation::kLinearMaskOfValuesOnly))
      return;
    load_row(&a_.k(b, h, j, 0), a_.k.stride(3), head_dim_, x.phi);
    load_row(&a_.v(b, h, j, 0), a_.v.stride(3), x.width - 1, x.row);
    plant_in_values(j, x);
    x.row[x.width - 1] = 1;
    if (!counts && is(Mutation::kLinearMaskOfValuesOnly)) std::fill_n(x.row, x.width - 1, 0.0f);
    for (int64_t c = 0; c < head_dim_; ++c) {
      const float weight =
          phi(x.phi[c]) * (!counts && is(Mutation::kLinearHiddenLeaks) ? 0.0f : 1.0f);
      add_scaled(weight, x.row, x.width, x.chunk + c * x.width);
    }
  }

  void plant_in_values(int64_t j, const State& x) const {
    const bool last = j == a_.p.seq_len_kv - 1;
    for (int64_t d = 0; d < x.width - 1; ++d) {
      float& value = x.row[d];
      if ((is(Mutation::kLinearNanValueZero) || (is(Mutation::kLinearNanTail) && last)) &&
          std::isnan(value))
        value = 0;
      if (is(Mutation::kLinearValueCut)) value = std::min(value, kMostValue);
    }
  }

  void answer(int64_t b, int64_t h, int64_t i, const State& x) const {
    std::fill_n(x.row, x.width, 0.0f);
    if (a_.query_counts(b, i) || is(Mutation::kLinearQueryMaskIgnored)) {
      load_row(&a_.q(b, h, i, 0), a_.q.stride(3), head_dim_, x.phi);
      for (int64_t c = 0; c < head_dim_; ++c) {
        const float weight = phi(x.phi[c]);
        add_scaled(weight, x.sum + c * x.width, x.width, x.row);
        if (is(Mutation::kLinearEpsPerChannel)) x.row[x.width - 1] += weight * a_.p.eps;
      }
    }
    const bool no_eps = is(Mutation::kLinearEpsForgotten) || is(Mutation::kLinearEpsPerChannel);
    const float eps = is(Mutation::kLinearEpsFixed) ? kUsualEps : a_.p.eps,
                total = x.row[x.width - 1] + (no_eps ? 0 : eps);
    for (int64_t d = 0; d < x.width - 1; ++d) a_.o(b, h, i, d) = x.row[d] / total;
  }

  const attest::Linear<T> a_;
  const Mutation mutation_;
  const int threads_;
  int64_t head_dim_;
};

}  // namespace

const char* query_linear(const attest_problem& problem, attest_support& support) {
  const auto& p = attest::params<attest_linear_params>(problem);
  if (p.feature_map != 0) return "a feature map other than elu + 1";
  Arena arena(nullptr);
  State(p, arena);
  support.sum_chain = kChunk + (p.seq_len_kv + kChunk - 1) / kChunk;
  support.workspace_bytes = arena.bytes() * static_cast<size_t>(problem.threads);
  return nullptr;
}

std::unique_ptr<Plan> plan_linear(Mutation mutation, const attest_problem& problem) {
  return std::make_unique<TypedPlan<LinearKernel>>(mutation, problem, ATTEST_Q);
}

}  // namespace mutants
