// Attention to two parts of the keys, merged.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/relations/relations.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

// The part of `problem` that sees keys begin .. end - 1, with LSE.
Problem part(const Problem& problem, int64_t begin, int64_t end) {
  return resized(problem, [&](Problem& other) {
    Params& p = other.as<Params>();
    if (has_band(p) || present(problem.tensor[ATTEST_ALIBI_SLOPES])) {
      if (p.diagonal == ATTEST_BOTTOM_RIGHT) p.diagonal_offset += p.seq_len_kv - p.seq_len_q;
      p.diagonal = ATTEST_TOP_LEFT;
      p.diagonal_offset -= begin;
    }
    p.seq_len_kv = end - begin;
    other.tensor[ATTEST_LSE] =
        dense_tensor(ATTEST_F32, ATTEST_WRITE, problem.operation->dims(problem, ATTEST_LSE));
  });
}

// Of one row of one part.
struct PartRow {
  std::vector<double> o, sigma;
  double lse = 0, lse_sigma = 0;

  void read(const RelationRun& run, int64_t row, int64_t width) {
    o.resize(size_t(width));
    sigma.resize(size_t(width));
    read_elements(run.outputs[ATTEST_O], row * width, width, o.data());
    read_elements(run.outputs[ATTEST_LSE], row, 1, &lse);
    std::copy_n(run.sigmas->at(ATTEST_O, row * width), width, sigma.data());
    lse_sigma = *run.sigmas->at(ATTEST_LSE, row);
  }
};

class SplitMerge final : public Relation {
 public:
  SplitMerge(const Problem& problem, const Tensors& inputs, int64_t cut)
      : cut_(cut),
        inputs_(inputs),
        problems_{part(problem, 0, cut), part(problem, cut, problem.as<Params>().seq_len_kv)} {}
  std::string_view name() const override { return "split-merge"; }
  const std::vector<Problem>& problems() const override { return problems_; }
  bool own_sigmas() const override { return true; }

  void fill(size_t run, const Tensors& to) const override {
    for (const Role& role : problems_[0].operation->roles()) {
      const Tensor &from = inputs_[size_t(role.index)], &into = to[size_t(role.index)];
      if (!into) continue;
      // Keys count along dim 2 of K and V, dim 3 of BIAS and MASK; what has the same size there is
      // broadcast or has no keys.
      const int axis = role.index == ATTEST_K || role.index == ATTEST_V ? 2 : into.spec.rank - 1;
      const bool cut_here = (axis == 2 || role.index == ATTEST_BIAS || role.index == ATTEST_MASK) &&
                            from.spec.dim[axis] > 1;
      Tensor piece = from;
      std::copy_n(into.spec.dim, into.spec.rank, piece.spec.dim);
      if (cut_here && run == 1)
        piece.data = static_cast<char*>(from.data) +
                     cut_ * from.spec.stride[axis] * int64_t(dtype_bytes(from.spec.dtype));
      copy_elements(piece, into);
    }
  }

  void compare(const RelationRun& base, std::span<const RelationRun> runs,
               const Sink& sink) const override {
    const int64_t width = base.problem.as<Params>().head_dim_v;
    PartRow parts[2];
    std::vector<double> first(static_cast<size_t>(width)), merged(first), sigma(first);
    for (int64_t row = 0; row < row_count(base.problem.tensor[ATTEST_O], 3); ++row) {
      for (size_t n = 0; n < 2; ++n) parts[n].read(runs[n], row, width);
      const double lse = log_sum(parts[0].lse, parts[1].lse);
      const double weight[2] = {share(parts[0].lse, lse), share(parts[1].lse, lse)};
      // Only a part that counts says how far off it may be.
      const double lse_sigma =
          std::hypot(error(weight[0], parts[0].lse_sigma), error(weight[1], parts[1].lse_sigma));
      const double of_weights =
          weight[0] * weight[1] > 0 ? std::hypot(parts[0].lse_sigma, parts[1].lse_sigma) : 0;
      read_elements(base.outputs[ATTEST_O], row * width, width, first.data());
      for (size_t e = 0; e < size_t(width); ++e) {
        merged[e] = error(weight[0], parts[0].o[e]) + error(weight[1], parts[1].o[e]);
        const double apart = weight[0] * weight[1] * (parts[0].o[e] - parts[1].o[e]) * of_weights;
        sigma[e] = base.sigmas->at(ATTEST_O, row * width)[e] +
                   std::hypot(error(weight[0], parts[0].sigma[e]),
                              error(weight[1], parts[1].sigma[e]), apart);
      }
      sink({ATTEST_O, 3, row, first, merged, sigma});
      if (!present(base.problem.tensor[ATTEST_LSE])) continue;
      double base_lse = 0;
      read_elements(base.outputs[ATTEST_LSE], row, 1, &base_lse);
      const double both = *base.sigmas->at(ATTEST_LSE, row) + lse_sigma;
      sink({ATTEST_LSE, 3, row, {&base_lse, 1}, {&lse, 1}, {&both, 1}});
    }
  }

 private:
  static double log_sum(double a, double b) {
    const double top = std::max(a, b);
    return std::isinf(top) && top < 0 ? top : top + std::log(std::exp(a - top) + std::exp(b - top));
  }
  static double share(double part, double whole) {
    return std::isinf(whole) && whole < 0 ? 0 : std::exp(part - whole);
  }
  static double error(double weight, double value) { return weight == 0 ? 0 : weight * value; }

  int64_t cut_;
  Tensors inputs_;
  std::vector<Problem> problems_;
};

}  // namespace

std::unique_ptr<Relation> split_merge(const Problem& problem, const Tensors& inputs) {
  constexpr uint64_t kWhole = ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS | ATTEST_WITH_PAGES |
                              ATTEST_WITH_ORDER | ATTEST_WITH_PATCHES | ATTEST_WITH_GRID |
                              ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL | ATTEST_WITH_TOP_K;
  const int64_t keys = problem.as<Params>().seq_len_kv;
  if (problem.features & kWhole || keys < 2) return nullptr;
  return std::make_unique<SplitMerge>(problem, inputs,
                                      std::clamp<int64_t>((keys * 3 / 8) | 1, 1, keys - 1));
}

}  // namespace attest::core
