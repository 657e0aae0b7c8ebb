// Deformable attention as an operation: parameters, roles, shapes, cost.
#include "core/operations/deformable/deformable.hpp"

#include <fmt/format.h>

#include "core/operations/attention_dims.hpp"
#include "core/operations/deformable/deformable_events.hpp"
#include "core/operations/deformable/sampling.hpp"
#include "core/operations/mistake.hpp"
#include "core/operations/relation.hpp"
#include "core/operations/variant.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using DeformableParams = attest_deformable_params;
constexpr int64_t kMostChannels = 1024, kMostPoints = 1024, kLargestSide = int64_t{1} << 20;

/// One entry of level_height or level_width, which is a word of its own.
constexpr Field level_field(const char* name, size_t first, size_t level, const char* help) {
  return {name, Field::Type::kI32, first + level * sizeof(int32_t), 0, help};
}
#define ATTEST_LEVEL(n)                                                          \
  level_field("level_height_" #n, offsetof(DeformableParams, level_height), n,   \
              "rows of pixels of level " #n),                                    \
      level_field("level_width_" #n, offsetof(DeformableParams, level_width), n, \
                  "columns of pixels of level " #n)
constexpr Field kDeformableFields[] = {
    ATTEST_FIELD(DeformableParams, num_levels, 0, "levels; 0: those that have a height"),
    ATTEST_FIELD(DeformableParams, batch, 1, "sequences (cameras, frames)"),
    ATTEST_FIELD(DeformableParams, num_heads, 1, "heads"),
    ATTEST_FIELD(DeformableParams, seq_len_q, 0, "queries of a sequence"),
    ATTEST_FIELD(DeformableParams, head_dim_v, 0, "channels of v and o"),
    ATTEST_FIELD(DeformableParams, num_points, 1, "points of a query in each level"),
    ATTEST_LEVEL(0),
    ATTEST_LEVEL(1),
    ATTEST_LEVEL(2),
    ATTEST_LEVEL(3),
    ATTEST_LEVEL(4),
    ATTEST_LEVEL(5),
    ATTEST_LEVEL(6),
    ATTEST_LEVEL(7),
    ATTEST_FIELD(DeformableParams, align_corners, 0,
                 "locations 0 and 1 are; 0: a level's edges; 1: the centres of its outer pixels"),
};
#undef ATTEST_LEVEL

constexpr Role kDeformableRoles[] = {
    {ATTEST_V, "v", ATTEST_READ, true, ATTEST_NONE},
    {ATTEST_LOCATIONS, "locations", ATTEST_READ, true, ATTEST_NONE},
    {ATTEST_WEIGHTS, "weights", ATTEST_READ, true, ATTEST_NONE},
    {ATTEST_O, "o", ATTEST_WRITE, true, ATTEST_NONE},
};

void check_size(const std::string& field, int64_t value, int64_t most) {
  if (value < 1 || value > most)
    throw Error(fmt::format("{}: {} where 1 to {} is right", field, value, most));
}

class DeformableOperation final : public Operation {
 public:
  int32_t number() const override { return ATTEST_DEFORMABLE; }
  std::string_view name() const override { return "deformable"; }
  size_t params_size() const override { return sizeof(DeformableParams); }
  std::span<const Field> fields() const override { return kDeformableFields; }
  std::span<const Role> roles() const override { return kDeformableRoles; }
  std::span<const ArithmeticStage> stages() const override { return deformable_stages(); }
  std::span<const ArithmeticWay> ways() const override { return deformable_ways(); }

  void complete(Problem& problem) const override {
    auto& p = problem.as<DeformableParams>();
    if (p.num_levels != 0) return;
    for (int level = 0; level < deformable::kMostLevels; ++level)
      if (p.level_height[level] != 0 || p.level_width[level] != 0) p.num_levels = level + 1;
  }

  std::vector<int64_t> dims(const Problem& problem, int32_t role) const override {
    const auto& p = problem.as<DeformableParams>();
    // Sizes that check() refuses must not overflow here.
    const int64_t tokens = has_levels(p) ? deformable::token_count(p) : 0;
    switch (role) {
      case ATTEST_V: return {p.batch, p.num_heads, tokens, p.head_dim_v};
      case ATTEST_O: return {p.batch, p.num_heads, p.seq_len_q, p.head_dim_v};
      case ATTEST_LOCATIONS:
        return {p.batch, p.num_heads, p.seq_len_q, p.num_levels, p.num_points, 2};
      case ATTEST_WEIGHTS: return {p.batch, p.num_heads, p.seq_len_q, p.num_levels, p.num_points};
      default: return {};
    }
  }
  std::string dim_name(int32_t /*role*/, int axis) const override { return attention_dim(axis); }

  void check(const Problem& problem) const override {
    const auto& p = problem.as<DeformableParams>();
    if (p.num_levels == 0)
      throw Error("num_levels: no level has a size; give level_height_0 and level_width_0");
    check_size("num_levels", p.num_levels, deformable::kMostLevels);
    check_size("batch", p.batch, int64_t{1} << 24);
    check_size("num_heads", p.num_heads, int64_t{1} << 16);
    check_size("seq_len_q", p.seq_len_q, int64_t{1} << 31);
    check_size("head_dim_v", p.head_dim_v, kMostChannels);
    check_size("num_points", p.num_points, kMostPoints);
    for (int level = 0; level < deformable::kMostLevels; ++level) check_level(p, level);
    if (p.align_corners != 0 && p.align_corners != 1)
      throw Error(fmt::format("align_corners: {} where 0 or 1 is right", p.align_corners));
  }

  uint64_t features(const Problem& problem) const override {
    return problem.as<DeformableParams>().align_corners ? ATTEST_WITH_ALIGN_CORNERS : 0;
  }
  std::string_view own_feature(int n) const override {
    return n == 0 ? "ALIGN_CORNERS" : std::string_view();
  }

  // Four products and sums for each point and channel, and the weight's; points outside are data,
  // so they count.
  double flops(const Problem& problem) const override {
    const auto& p = problem.as<DeformableParams>();
    return double(p.batch * p.num_heads) * double(p.seq_len_q) * double(p.num_levels) *
           double(p.num_points) * double(p.head_dim_v) * 10;
  }

  // Three points cancel.
  std::vector<std::string> fills(const Problem& problem) const override {
    if (problem.as<DeformableParams>().num_points < 3)
      return {"random", "borders", "alone", "far", "wild"};
    return {"random", "borders", "cancelling", "alone", "far", "wild"};
  }
  void fill(const Problem& problem, const Fill& fill, const Tensors& tensors,
            bool /*only_own*/) const override {
    fill_deformable(problem, fill, tensors);
  }
  std::unique_ptr<Golden> golden(const Problem& problem, const Fill&,
                                 const Tensors& tensors) const override {
    return deformable_golden(problem, tensors);
  }
  std::vector<std::unique_ptr<Relation>> relations(const Problem& problem,
                                                   const Tensors& inputs) const override {
    return deformable_relations(problem, inputs);
  }
  std::vector<Variant> variants(const Problem& problem) const override {
    return deformable_variants(problem);
  }
  std::vector<NumericEvent> events(const Problem& problem) const override {
    return deformable_events(problem);
  }
  std::set<std::string> count_events(const Problem& problem, const Tensors& inputs,
                                     const std::vector<bool>& judged) const override {
    return count_deformable_events(problem, inputs, judged);
  }
  std::vector<Mistake> mistakes(const Problem& problem, const Tensors& inputs) const override {
    return deformable_mistakes(problem, inputs);
  }
  int kernels(const Problem&, const Arithmetic&) const override { return kDeformableKernels; }
  void emulate(const Problem& problem, const Tensors& tensors, const Arithmetic& arithmetic,
               int kernel, std::span<const int64_t> rows,
               const EmulationSink& sink) const override {
    emulate_deformable(problem, tensors, DeformableArithmetic::of(arithmetic), kernel, rows, sink);
  }

 private:
  static bool has_levels(const DeformableParams& p) {
    if (p.num_levels < 1 || p.num_levels > deformable::kMostLevels) return false;
    for (int level = 0; level < p.num_levels; ++level)
      if (p.level_height[level] < 1 || p.level_height[level] > kLargestSide ||
          p.level_width[level] < 1 || p.level_width[level] > kLargestSide)
        return false;
    return true;
  }

  static void check_level(const DeformableParams& p, int level) {
    const auto check_side = [&](const char* side, int32_t value) {
      const std::string field = fmt::format("level_{}_{}", side, level);
      if (level >= p.num_levels && value != 0)
        throw Error(
            fmt::format("{}: {} where 0 is right: num_levels is {}", field, value, p.num_levels));
      if (level < p.num_levels && value == 0)
        throw Error(
            fmt::format("{}: 0, so level {} has no pixels; give it a size of 1 to {}, or "
                        "leave the level out",
                        field, level, kLargestSide));
      if (level < p.num_levels) check_size(field, value, kLargestSide);
    };
    check_side("height", p.level_height[level]);
    check_side("width", p.level_width[level]);
  }
};

}  // namespace

const Operation& deformable_operation() {
  static const DeformableOperation operation;
  return operation;
}

}  // namespace attest::core
