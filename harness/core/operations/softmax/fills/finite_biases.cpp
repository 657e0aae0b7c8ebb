#include "core/operations/softmax/fills/finite_biases.hpp"

#include <algorithm>
#include <vector>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/tensor/dtype.hpp"

namespace attest::core {
namespace {

// f16 and bf16 hold both, and times log2(e), f16 still does.
constexpr double kFarBelow = -40960, kLessFarBelow = -40704;
constexpr int64_t kPeriod = 16, kPeriodOfFew = 4, kFewRows = 32;
constexpr int64_t kLongestRun = 256;  // in a bias of keys

// No less than the lowest number of float32, in which sums may be.
double lowest_of(DType dtype) {
  return -std::min(largest_finite(dtype), largest_finite(ATTEST_F32));
}

class FiniteBiases {
 public:
  FiniteBiases(const Problem& problem, const Tensors& tensors)
      : p_(problem.as<attest_softmax_params>()),
        bias_(tensors[ATTEST_BIAS]),
        geometry_(problem, tensors) {
    for (int64_t b = 0; b < geometry_.batch(); ++b) {
      rows_ = std::max(rows_, geometry_.length_q(b));
      keys_ = std::max(keys_, geometry_.length_kv(b));
    }
  }

  void write() const {
    for (int64_t b = 0; b < bias_.spec.dim[0]; ++b)
      for (int64_t h = 0; h < bias_.spec.dim[1]; ++h)
        bias_.spec.dim[2] > 1 ? write_rows(b, h) : write_keys(b, h);
  }

 private:
  using Places = std::vector<bool>;  // by key position

  void write_rows(int64_t b, int64_t h) const {
    const int64_t period = rows_ < kFewRows ? kPeriodOfFew : kPeriod;
    const bool by_key = bias_.spec.dim[3] > 1;
    for (int64_t i = 0; i < rows_; ++i) {
      const int64_t kind = i * kPeriodOfFew / period % kPeriodOfFew;
      if (i * kPeriodOfFew % period != 0 || kind == 0) continue;
      if (kind == 1 && !by_key) put(b, h, i, Places(1, true), kFarBelow);
      if (kind == 1 && by_key) {
        const int64_t turn = i / period % 2;
        put(b, h, i, every(2, turn), kLessFarBelow);
        put(b, h, i, every(2, 1 - turn), kFarBelow);
      }
      if (kind == 2 && by_key) put_lowest(b, h, i, i + 1, first_of(longest(b, i), 4, 3));
      if (kind == 3 && by_key) put_lowest(b, h, i, i + 1, every(8, 0));
    }
  }

  // Biases of keys, which all rows have.
  void write_keys(int64_t b, int64_t h) const {
    if (bias_.spec.dim[3] == 1 || keys_ == 0 || rows_ == 0) return;
    put_lowest(b, h, 0, rows_, every(16, 11)) || put_lowest(b, h, 0, rows_, every(16, keys_ / 2));
    const Interval all = longest(b, 0);
    const bool same = all.size() == longest(b, rows_ - 1).size();
    if (same)
      put_lowest(b, h, 0, rows_, first_of({0, std::min(all.size(), 2 * kLongestRun)}, 2, 1));
  }

  // The keys of a row, in the sequence that has the most.
  Interval longest(int64_t bias_b, int64_t i) const {
    Interval most{};
    for (int64_t b = 0; b < geometry_.batch(); ++b)
      if (shares(bias_b, b, 0) && i < geometry_.length_q(b))
        if (const Interval keys = geometry_.keys(b, i); keys.size() > most.size()) most = keys;
    return most;
  }
  Places first_of(Interval keys, int64_t of, int64_t parts) const {
    Places places(size_t(keys_), false);
    for (int64_t j = keys.begin; j < keys.begin + keys.size() * parts / of; ++j)
      places[size_t(j)] = true;
    return places;
  }
  Places every(int64_t step, int64_t from) const {
    Places places(size_t(keys_), false);
    for (int64_t j = from; j < keys_; j += step) places[size_t(j)] = true;
    return places;
  }

  // Whether dim `axis` of BIAS has index `of_bias` for sequence or head `at`.
  bool shares(int64_t of_bias, int64_t at, int axis) const {
    return bias_.spec.dim[axis] == 1 || of_bias == at;
  }

  // Whether all rows first .. past - 1 that have these biases and see some key see another one,
  // too, whose bias is no lower than that of "random".
  bool leaves_some(int64_t bias_b, int64_t bias_h, int64_t first, int64_t past,
                   const Places& places) const {
    for (int64_t b = 0; b < geometry_.batch(); ++b)
      for (int64_t h = 0; h < p_.num_heads; ++h) {
        if (!shares(bias_b, b, 0) || !shares(bias_h, h, 1)) continue;
        for (int64_t i = first; i < std::min(past, geometry_.length_q(b)); ++i)
          if (!sees_another(b, h, i, places)) return false;
      }
    return true;
  }
  bool sees_another(int64_t b, int64_t h, int64_t i, const Places& places) const {
    const Interval keys = geometry_.keys(b, i);
    bool sees = false;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      if (!geometry_.visible(b, h, i, j)) continue;
      sees = true;
      if (!places[size_t(j)] && read(b, h, i, j) > kFarBelow / 2) return true;
    }
    return !sees;
  }

  bool put_lowest(int64_t b, int64_t h, int64_t first, int64_t past, const Places& places) const {
    if (!leaves_some(b, h, first, past, places)) return false;
    put(b, h, first, places, lowest_of(bias_.spec.dtype));
    return true;
  }
  // Keys that -inf hides stay hidden.
  void put(int64_t b, int64_t h, int64_t i, const Places& places, double value) const {
    for (size_t j = 0; j < places.size(); ++j)
      if (places[j] && load(bias_.data, bias_.spec.dtype, at(b, h, i, int64_t(j))) != kHidden)
        store(bias_.data, bias_.spec.dtype, at(b, h, i, int64_t(j)), value);
  }
  double read(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return load(bias_.data, bias_.spec.dtype, at(b, h, i, j));
  }
  int64_t at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const auto& stride = bias_.spec.stride;
    return b * stride[0] + h * stride[1] + geometry_.token(i) * stride[2] +
           geometry_.token(j) * stride[3];
  }

  const attest_softmax_params& p_;
  const Tensor bias_;
  const Geometry geometry_;
  int64_t rows_ = 0, keys_ = 0;  // of the longest sequence
};

}  // namespace

void write_finite_biases(const Problem& problem, const Tensors& tensors) {
  FiniteBiases(problem, tensors).write();
}

}  // namespace attest::core
