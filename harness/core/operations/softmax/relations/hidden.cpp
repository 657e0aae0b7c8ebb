// What a row does not see changes, and the row stays.
#include <algorithm>
#include <cmath>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/relations/relations.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core {
namespace {

// Of hidden keys: a maximum that takes them in leaves nothing of the others
constexpr double kGrowth = 64;
constexpr double kMostPairs = 4e6;  // that masks and biases are asked about

// Marks of cells of K and V, or of Q, by dims 0 and 2.
class Cells {
 public:
  explicit Cells(const TensorSpec& spec)
      : rows_(spec.dim[2]), marks_(size_t(spec.dim[0] * spec.dim[2]), false) {}
  std::vector<bool>::reference operator[](Cell cell) {
    return marks_[size_t(cell.outer * rows_ + cell.row)];
  }
  bool at(Cell cell) const { return marks_[size_t(cell.outer * rows_ + cell.row)]; }
  void flip() { marks_.flip(); }
  bool any() const { return std::find(marks_.begin(), marks_.end(), true) != marks_.end(); }

 private:
  int64_t rows_;
  std::vector<bool> marks_;
};

class Hidden final : public SamePlaces {
 public:
  Hidden(const Problem& problem, const Tensors& inputs, bool wild)
      : SamePlaces(problem, inputs),
        wild_(wild),
        p_(problem.as<attest_softmax_params>()),
        geometry_(problem, inputs),
        keys_(problem.tensor[ATTEST_K]),
        queries_(problem.tensor[ATTEST_Q]),
        sees_change_(size_t(row_count(problem.tensor[ATTEST_O], 3)), false) {
    mark_unused();
    for (int64_t b = 0; b < p_.batch && p_.block_kv > 0; ++b) mark_block(b);
    for (int64_t b = 0; b < p_.batch; ++b) mark_behind(b);
    mark_masked();
    for (int64_t b = 0; b < p_.batch; ++b) find_rows(b);
  }

  std::string_view name() const override { return wild_ ? "hidden-nan" : "hidden-values"; }
  bool bitwise() const override { return !wild_; }  // around a NaN a kernel may take another way
  bool says_something() const {
    return (keys_.any() || queries_.any()) &&
           std::find(sees_change_.begin(), sees_change_.end(), false) != sees_change_.end();
  }

 protected:
  int leading(const TensorSpec&) const override { return 3; }
  bool compares(int32_t, int64_t row) const override { return !sees_change_[size_t(row)]; }
  void change(const Tensors& to) const override {
    change(to[ATTEST_K], keys_);
    change(to[ATTEST_V], keys_);
    change(to[ATTEST_Q], queries_);
  }

 private:
  void change(const Tensor& tensor, const Cells& cells) const {
    const TensorSpec& spec = tensor.spec;
    // Whatever the storage is, a kernel may round operands to f16, and 0 times infinity is NaN.
    const double most = std::min(largest_finite(ATTEST_F16) / 2, largest_finite(tensor.spec.dtype));
    for (int64_t row = 0; row < row_count(spec, 3); ++row) {
      if (!cells.at({row / (spec.dim[1] * spec.dim[2]), row % spec.dim[2]})) continue;
      for (int64_t d = 0; d < spec.dim[3]; ++d) {
        const int64_t at = row_offset(spec, 3, row) + d * spec.stride[3];
        const double large = std::clamp(load(tensor.data, spec.dtype, at) * kGrowth, -most, most);
        store(tensor.data, spec.dtype, at,
              !wild_               ? large
              : (row + d) % 3 == 0 ? kInfinity
                                   : std::nan(""));
      }
    }
  }

  // Keys and queries that no sequence has.
  void mark_unused() {
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t j = 0; j < geometry_.length_kv(b); ++j) keys_[geometry_.key(b, j)] = true;
      for (int64_t i = 0; i < geometry_.length_q(b); ++i) queries_[geometry_.query(b, i)] = true;
    }
    keys_.flip();
    queries_.flip();
  }

  // Keys that the rows up to the middle one do not see, but later ones do.
  void mark_behind(int64_t b) {
    if (geometry_.length_q(b) == 0) return;
    for (int64_t j = geometry_.keys(b, (geometry_.length_q(b) - 1) / 2).end;
         j < geometry_.length_kv(b); ++j)
      keys_[geometry_.key(b, j)] = true;
  }

  // The keys of a block in the middle, which BLOCK_MASK hides from some rows.
  void mark_block(int64_t b) {
    const int64_t length = geometry_.length_kv(b), first = length / 2 / p_.block_kv * p_.block_kv;
    if (length <= p_.block_kv) return;
    for (int64_t j = first; j < std::min(first + p_.block_kv, length); ++j)
      keys_[geometry_.key(b, j)] = true;
  }

  // Where masks hide: keys that they hide from every row, and one that they hide from some.
  void mark_masked() {
    if (!geometry_.may_hide()) return;
    double pairs = 0;
    for (int64_t b = 0; b < p_.batch; ++b)
      pairs +=
          visible_pairs(p_, geometry_.length_q(b), geometry_.length_kv(b)) * double(p_.num_heads);
    if (pairs > kMostPairs) return;
    Cells seen(problem().tensor[ATTEST_K]);
    for (int64_t b = 0; b < p_.batch; ++b)
      for (int64_t i = 0; i < geometry_.length_q(b); ++i)
        for (int64_t h = 0; h < p_.num_heads; ++h)
          for (Interval keys = geometry_.keys(b, i); keys.begin < keys.end; ++keys.begin) {
            const Cell cell = geometry_.key(b, keys.begin);
            if (!seen.at(cell) && geometry_.visible(b, h, i, keys.begin)) seen[cell] = true;
          }
    for (int64_t b = 0; b < p_.batch; ++b)
      for (int64_t j = 0; j < geometry_.length_kv(b); ++j)
        if (const Cell cell = geometry_.key(b, j);
            !seen.at(cell) || j == geometry_.length_kv(b) / 2)
          keys_[cell] = true;
  }

  void find_rows(int64_t b) {
    std::vector<int64_t> changed;  // places
    for (int64_t j = 0; j < geometry_.length_kv(b); ++j)
      if (keys_.at(geometry_.key(b, j))) changed.push_back(j);
    for (int64_t i = 0; i < geometry_.length_q(b); ++i) {
      const Interval keys = geometry_.keys(b, i);
      const auto first = std::lower_bound(changed.begin(), changed.end(), keys.begin),
                 last = std::lower_bound(first, changed.end(), keys.end);
      if (first == last) continue;
      for (int64_t h = 0; h < p_.num_heads; ++h)
        if (!geometry_.may_hide() ||
            std::any_of(first, last, [&](int64_t j) { return geometry_.visible(b, h, i, j); }))
          sees_change_[size_t(geometry_.output_row(b, h, i))] = true;
    }
  }

  bool wild_;
  attest_softmax_params p_;
  Geometry geometry_;
  Cells keys_, queries_;
  std::vector<bool> sees_change_;  // rows of O and LSE
};

}  // namespace

std::unique_ptr<Relation> hidden(const Problem& problem, const Tensors& inputs, bool wild) {
  auto relation = std::make_unique<Hidden>(problem, inputs, wild);
  if (!relation->says_something()) return nullptr;
  return relation;
}

}  // namespace attest::core
