// Linear attention as an operation: parameters, roles, shapes, cost.
#include "core/operations/linear/linear.hpp"
#include "core/operations/attention_dims.hpp"

#include <fmt/format.h>

#include "core/operations/linear/linear_events.hpp"
#include "core/operations/linear/softmax_distance.hpp"
#include "core/operations/relation.hpp"
#include "core/operations/variant.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using LinearParams = attest_linear_params;
constexpr int64_t kMostLinearHeadDim = 1024;

constexpr Field kLinearFields[] = {
    ATTEST_FIELD(LinearParams, feature_map, 0, "phi: 0 is elu + 1"),
    ATTEST_FIELD(LinearParams, batch, 1, "sequences"),
    ATTEST_FIELD(LinearParams, num_heads, 1, "query heads"),
    ATTEST_FIELD(LinearParams, num_kv_heads, -1, "key and value heads; -1: num_heads"),
    ATTEST_FIELD(LinearParams, seq_len_q, 0, "queries of a sequence"),
    ATTEST_FIELD(LinearParams, seq_len_kv, -1, "keys of a sequence; -1: seq_len_q"),
    ATTEST_FIELD(LinearParams, head_dim, 0, "channels of q and k"),
    ATTEST_FIELD(LinearParams, head_dim_v, -1, "channels of v and o; -1: head_dim"),
    ATTEST_FIELD(LinearParams, eps, 1e-6, "added to the normaliser"),
};
constexpr Role kLinearRoles[] = {
    {ATTEST_Q, "q", ATTEST_READ, true, ATTEST_NONE, Role::Content::kQueries},
    {ATTEST_K, "k", ATTEST_READ, true, ATTEST_NONE, Role::Content::kKeys},
    {ATTEST_V, "v", ATTEST_READ, true, ATTEST_NONE, Role::Content::kCentredKeys},
    {ATTEST_MASK, "mask", ATTEST_READ, false, ATTEST_BOOL},
    {ATTEST_QUERY_MASK, "query_mask", ATTEST_READ, false, ATTEST_BOOL},
    {ATTEST_O, "o", ATTEST_WRITE, true, ATTEST_NONE},
};

void check_range(const char* field, int64_t value, int64_t most) {
  if (value < 1 || value > most)
    throw Error(fmt::format("{}: {} where 1 to {} is right", field, value, most));
}

class LinearOperation final : public Operation {
 public:
  int32_t number() const override { return ATTEST_LINEAR; }
  std::string_view name() const override { return "linear"; }
  size_t params_size() const override { return sizeof(LinearParams); }
  std::span<const Field> fields() const override { return kLinearFields; }
  std::span<const Role> roles() const override { return kLinearRoles; }
  std::span<const ArithmeticStage> stages() const override { return linear_stages(); }
  std::span<const ArithmeticWay> ways() const override { return linear_ways(); }

  void complete(Problem& problem) const override {
    auto& p = problem.as<LinearParams>();
    if (p.num_kv_heads == -1) p.num_kv_heads = p.num_heads;
    if (p.seq_len_kv == -1) p.seq_len_kv = p.seq_len_q;
    if (p.head_dim_v == -1) p.head_dim_v = p.head_dim;
  }

  std::vector<int64_t> dims(const Problem& problem, int32_t role) const override {
    const auto& p = problem.as<LinearParams>();
    switch (role) {
      case ATTEST_Q: return {p.batch, p.num_heads, p.seq_len_q, p.head_dim};
      case ATTEST_K: return {p.batch, p.num_kv_heads, p.seq_len_kv, p.head_dim};
      case ATTEST_V: return {p.batch, p.num_kv_heads, p.seq_len_kv, p.head_dim_v};
      case ATTEST_O: return {p.batch, p.num_heads, p.seq_len_q, p.head_dim_v};
      case ATTEST_MASK: return {p.batch, 1, 1, p.seq_len_kv};
      case ATTEST_QUERY_MASK: return {p.batch, 1, p.seq_len_q, 1};
      default: return {};
    }
  }

  std::string dim_name(int32_t /*role*/, int axis) const override { return attention_dim(axis); }
  bool may_broadcast(int32_t role, int axis) const override {
    return axis == 0 && (role == ATTEST_MASK || role == ATTEST_QUERY_MASK);
  }

  void check(const Problem& problem) const override {
    const auto& p = problem.as<LinearParams>();
    if (p.feature_map != 0)
      throw Error(fmt::format("feature_map: {} where 0 (elu + 1) is right", p.feature_map));
    check_range("batch", p.batch, int64_t{1} << 24);
    check_range("num_heads", p.num_heads, int64_t{1} << 16);
    check_range("num_kv_heads", p.num_kv_heads, p.num_heads);
    check_range("seq_len_q", p.seq_len_q, int64_t{1} << 31);
    check_range("seq_len_kv", p.seq_len_kv, int64_t{1} << 31);
    check_range("head_dim", p.head_dim, kMostLinearHeadDim);
    check_range("head_dim_v", p.head_dim_v, kMostLinearHeadDim);
    if (p.num_heads % p.num_kv_heads != 0)
      throw Error(fmt::format("num_kv_heads: {} where a divisor of num_heads {} is right",
                              p.num_kv_heads, p.num_heads));
    // Without eps a query or a sequence that is masked away would be 0 / 0.
    if (!(p.eps > 0 && p.eps <= 1))
      throw Error(fmt::format("eps: {} where a number above 0 and up to 1 is right", p.eps));
  }

  uint64_t features(const Problem& problem) const override {
    const auto& p = problem.as<LinearParams>();
    uint64_t bits = 0;
    if (p.num_kv_heads < p.num_heads) bits |= ATTEST_WITH_GQA;
    if (p.head_dim_v != p.head_dim) bits |= ATTEST_WITH_HEAD_DIM_V;
    if (present(problem.tensor[ATTEST_MASK])) bits |= ATTEST_WITH_MASK;
    if (present(problem.tensor[ATTEST_QUERY_MASK])) bits |= ATTEST_WITH_QUERY_MASK;
    return bits;
  }

  std::string_view own_feature(int n) const override {
    return n == 0 ? "QUERY_MASK" : std::string_view();
  }

  // Both products, both normalisers and the division; what a mask hides is data, so it counts.
  double flops(const Problem& problem) const override {
    const auto& p = problem.as<LinearParams>();
    const double state = double(p.head_dim) * double(p.head_dim_v),
                 keys = double(p.batch * p.num_kv_heads) * double(p.seq_len_kv);
    const double rows = double(p.batch * p.num_heads) * double(p.seq_len_q);
    return keys * (2 * state + double(p.head_dim)) +
           rows * (2 * state + 2 * double(p.head_dim) + double(p.head_dim_v));
  }

  // A masked query has phi 0, and 0 times a state of NaN is NaN or, where the row is left out, 0.
  std::vector<std::string> fills(const Problem& problem) const override {
    std::vector<std::string> names{"random", "cancelling", "faint", "large"};
    if (!problem.has(ATTEST_QUERY_MASK)) names.emplace_back("wild");
    return names;
  }
  void fill(const Problem& problem, const Fill& fill, const Tensors& tensors,
            bool only_own) const override {
    fill_linear(problem, fill, tensors, only_own);
  }
  std::unique_ptr<Golden> golden(const Problem& problem, const Fill&,
                                 const Tensors& tensors) const override {
    return linear_golden(problem, tensors);
  }
  std::vector<std::unique_ptr<Relation>> relations(const Problem& problem,
                                                   const Tensors& inputs) const override {
    return linear_relations(problem, inputs);
  }
  std::vector<NumericEvent> events(const Problem& problem) const override {
    return linear_events(problem);
  }
  std::set<std::string> count_events(const Problem& problem, const Tensors& inputs,
                                     const std::vector<bool>& judged) const override {
    return count_linear_events(problem, inputs, judged);
  }
  std::optional<double> distance_from_softmax(const Problem& problem,
                                              const Tensors& inputs) const override {
    return core::distance_from_softmax(problem, inputs);
  }
  std::vector<Variant> variants(const Problem& problem) const override {
    return linear_variants(problem);
  }
  void emulate(const Problem& problem, const Tensors& tensors, const Arithmetic& arithmetic,
               int /*kernel*/, std::span<const int64_t> rows,
               const EmulationSink& sink) const override {
    emulate_linear(problem, tensors, LinearArithmetic::of(arithmetic), rows, sink);
  }
};

}  // namespace

const Operation& linear_operation() {
  static const LinearOperation operation;
  return operation;
}

}  // namespace attest::core
