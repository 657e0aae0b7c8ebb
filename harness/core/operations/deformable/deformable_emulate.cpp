// Honest deformable attention in any declared arithmetic, on a few rows: it rounds exactly where
// the declaration says.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/operations/deformable/deformable.hpp"
#include "core/operations/deformable/sampling.hpp"
#include "core/operations/numerics/rounding.hpp"

namespace attest::core {
namespace {

using deformable::Level, deformable::Params;

class DeformableEmulator {
 public:
  DeformableEmulator(const Problem& problem, const Tensors& tensors,
                     const DeformableArithmetic& arithmetic, int kernel)
      : p_(problem.as<Params>()),
        levels_(deformable::levels_of(p_)),
        a_(arithmetic),
        kernel_(kernel),
        tensors_(tensors),
        pixels_(problem, tensors),
        width_(size_t(p_.head_dim_v)) {
    for (std::vector<double>& pixel : pixel_) pixel.resize(width_);
  }

  /// o [head_dim_v] of query i of head h in sequence b.
  std::vector<double> row(int64_t b, int64_t h, int64_t i) {
    addends_.clear();
    for (int64_t level = 0; level < p_.num_levels; ++level)
      for (int64_t point = 0; point < p_.num_points; ++point) add_point(b, h, i, level, point);
    std::vector<double> o = sum(0, int64_t(addends_.size()), part_length());
    for (double& x : o) x = rounded(x, a_.output);
    return o;
  }

 private:
  enum Kernel { kSumsSamples, kWeighsFirst, kSubtracts, kCount };
  static_assert(int{kCount} == kDeformableKernels);

  double kept(double x, DType dtype) const {
    const double y = rounded(narrowed(x, dtype), dtype);
    return a_.has(ATTEST_FLUSHES_SUBNORMALS) && std::fabs(y) < smallest_normal(dtype) ? 0 : y;
  }

  double coordinate(double stored, int64_t size) const {
    const auto at = [this](double x) { return kept(x, a_.location); };
    const double location = at(stored);
    if (a_.has(ATTEST_LOCATES_ON_GRID)) {
      const double from_edge = at(at(2 * location - 1) + 1);
      return p_.align_corners ? at(from_edge / 2 * double(size - 1))
                              : at(at(from_edge * double(size)) - 1) / 2;
    }
    return p_.align_corners ? at(location * double(size - 1))
                            : at(at(location * double(size)) - 0.5);
  }

  // How many addends are summed one after another before these sums are: 1 for a tree of pairs. No
  // chain of additions is longer than declared.
  int64_t part_length() const {
    const auto count = int64_t(addends_.size()), half = (a_.sum_chain + 1) / 2;
    if (a_.sum_chain <= 0 || a_.sum_chain >= count) return std::max<int64_t>(count, 1);
    return half * (a_.sum_chain - half) >= count ? half : 1;
  }

  // The sum of addends begin .. end - 1.
  std::vector<double> sum(int64_t begin, int64_t end, int64_t length) const {
    std::vector<double> total(width_);
    const auto add = [&](const std::vector<double>& x) {
      for (size_t c = 0; c < x.size(); ++c) total[c] = kept(total[c] + x[c], a_.accumulator);
    };
    if (length == 1 && end - begin > 1) {
      const int64_t middle = (begin + end) / 2;
      add(sum(begin, middle, length));
      add(sum(middle, end, length));
    } else if (end - begin <= length) {
      for (int64_t n = begin; n < end; ++n) add(addends_[size_t(n)]);
    } else {
      for (int64_t n = begin; n < end; n += length) add(sum(n, std::min(n + length, end), length));
    }
    return total;
  }

  void add_point(int64_t b, int64_t h, int64_t i, int64_t level, int64_t point) {
    const Level& size = levels_[size_t(level)];
    const double x = coordinate(tensors_[ATTEST_LOCATIONS].at({b, h, i, level, point, 0}),
                                size.width),
                 y = coordinate(tensors_[ATTEST_LOCATIONS].at({b, h, i, level, point, 1}),
                                size.height);
    if (!deformable::is_inside(x, size.width) || !deformable::is_inside(y, size.height)) return;
    const double weight = kept(tensors_[ATTEST_WEIGHTS].at({b, h, i, level, point}), a_.weight);
    const auto fraction = [this](double at) { return kept(at - std::floor(at), a_.weight); };
    const double right = fraction(x), lower = fraction(y), left = kept(1 - right, a_.weight),
                 upper = kept(1 - lower, a_.weight);
    std::vector<double> sample(width_);
    for (int k = 0; k < 4; ++k) {
      const double factor = kept((k % 2 ? right : left) * (k / 2 ? lower : upper), a_.weight),
                   both = kept(weight * factor, a_.weight);
      std::vector<double>& pixel = pixel_[size_t(k)];
      pixels_.read(b, h, size, int64_t(std::floor(y)) + k / 2, int64_t(std::floor(x)) + k % 2,
                   pixel.data());
      for (double& v : pixel) v = kept(v, a_.product);
      if (kernel_ == kWeighsFirst) {
        addends_.push_back(pixel);
        for (double& product : addends_.back()) product = kept(both * product, a_.product);
      }
      for (size_t c = 0; c < width_ && kernel_ == kSumsSamples; ++c)
        sample[c] = kept(sample[c] + kept(factor * pixel[c], a_.product), a_.product);
    }
    if (kernel_ == kWeighsFirst) return;
    for (size_t c = 0; c < width_ && kernel_ == kSubtracts; ++c)
      sample[c] = between(between(pixel_[0][c], pixel_[1][c], right),
                          between(pixel_[2][c], pixel_[3][c], right), lower);
    for (double& product : sample) product = kept(weight * product, a_.product);
    addends_.push_back(std::move(sample));
  }

  double between(double from, double to, double share) const {
    const double step = kept(share * kept(to - from, a_.product), a_.product);
    return kept(from + step, a_.product);
  }

  const Params& p_;
  const std::vector<Level> levels_;
  const DeformableArithmetic& a_;
  const int kernel_;
  const Tensors& tensors_;
  const deformable::Pixels pixels_;
  const size_t width_;                        // channels
  std::vector<double> pixel_[4];              // [width_] each
  std::vector<std::vector<double>> addends_;  // of one row, in the order of the points
};

}  // namespace

void emulate_deformable(const Problem& problem, const Tensors& tensors,
                        const DeformableArithmetic& arithmetic, int kernel,
                        std::span<const int64_t> rows, const EmulationSink& sink) {
  const auto& p = problem.as<Params>();
  DeformableEmulator emulator(problem, tensors, arithmetic, kernel);
  for (const int64_t row : rows)
    sink(ATTEST_O, row,
         emulator.row(row / p.seq_len_q / p.num_heads, row / p.seq_len_q % p.num_heads,
                      row % p.seq_len_q));
}

}  // namespace attest::core
