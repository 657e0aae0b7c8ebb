// Which pairs MASK and BIAS hide, each by itself.
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "core/operations/softmax/events/shape.hpp"
#include "core/operations/softmax/golden/row_plan.hpp"

namespace attest::core::events {

struct PairRow {
  int64_t b, h, i;
  Interval keys;
  int64_t origin;  // tiles count from this position
};

class PairTensors {
 public:
  enum class Which { kMask, kBias };
  static const char* name(Which which) { return which == Which::kMask ? "mask" : "bias"; }

  PairTensors(const Problem& problem, const Tensors& tensors, const Geometry& geometry)
      : mask_(tensors[ATTEST_MASK]),
        bias_(tensors[ATTEST_BIAS]),
        others_hide_((problem.features & (ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL)) != 0),
        geometry_(geometry) {
    if (mask_) present_.push_back(Which::kMask);
    if (bias_) present_.push_back(Which::kBias);
  }
  const std::vector<Which>& present() const { return present_; }
  /// Whether the hidden keys depend on dim `axis`: 0 the sequence, 1 the head, 2 the row.
  bool depends_on(int axis) const {
    return mask_.spec.stride[axis] != 0 || bias_.spec.stride[axis] != 0 || others_hide_;
  }
  bool hides(Which which, int64_t b, int64_t h, int64_t i, int64_t j) const {
    const Tensor& tensor = which == Which::kMask ? mask_ : bias_;
    const TensorSpec& spec = tensor.spec;
    const int64_t at = b * spec.stride[0] + h * spec.stride[1] +
                       geometry_.token(i) * spec.stride[2] + geometry_.token(j) * spec.stride[3];
    const double value = load(tensor.data, spec.dtype, at);
    return which == Which::kMask ? value == 0 : value == -std::numeric_limits<double>::infinity();
  }
  bool sees(const PairRow& row, int64_t j) const {
    for (const Which which : present_)
      if (hides(which, row.b, row.h, row.i, j)) return false;
    return !others_hide_ || geometry_.visible(row.b, row.h, row.i, j);
  }
  bool sees_any(const PairRow& row) const {
    for (int64_t j = row.keys.begin; j < row.keys.end; ++j)
      if (sees(row, j)) return true;
    return false;
  }

 private:
  Tensor mask_, bias_;
  bool others_hide_;  // BLOCK_MASK, or the band beside global tokens
  const Geometry& geometry_;
  std::vector<Which> present_;
};

/// Calls `body` with judged rows: a sample of at most `most` rows of each head, which `seed` draws.
/// If no tensor depends on the row, of neighbouring rows with the same keys only the first one is
/// taken.
template <class Body>
void each_sampled_row(const Problem& problem, const Geometry& geometry,
                      const std::vector<bool>& judged, const PairTensors& pairs, int64_t most,
                      uint64_t seed, const Body& body) {
  const auto& p = problem.as<attest_softmax_params>();
  for (int64_t b = 0; b < geometry.batch(); ++b)
    for (int64_t h = 0; h < (pairs.depends_on(1) ? p.num_heads : 1); ++h) {
      Interval last{};
      for (const int64_t i : sample_places(geometry.length_q(b), most, 0, seed)) {
        const PairRow row{b, h, i, geometry.keys(b, i),
                          tile_origin(p, i, geometry.length_q(b), geometry.length_kv(b))};
        if (!judged[size_t(geometry.output_row(b, h, i))]) continue;
        if (!pairs.depends_on(2) && row.keys.begin == last.begin && row.keys.end == last.end)
          continue;
        last = row.keys;
        body(row);
      }
    }
}

}  // namespace attest::core::events
