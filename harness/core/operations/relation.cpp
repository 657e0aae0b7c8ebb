#include "core/operations/relation.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
// Normal numbers end near 5: 80 is beyond what a kernel may think is the end
constexpr double kLargestValueFactor = 16;

// One row of an output and what is known of its errors.
struct Row {
  std::vector<double> value, sigma;

  void read(const RelationRun& run, int32_t role, int64_t row, int64_t width) {
    value.resize(size_t(width));
    sigma.assign(size_t(width), kUnknown);
    read_elements(run.outputs[size_t(role)], row * width, width, value.data());
    if (const double* known = run.sigmas ? run.sigmas->at(role, row * width) : nullptr)
      std::copy_n(known, width, sigma.data());
  }
};

// Copies one row of the last dim, rows counted through the dims before it; both have the same
// dtype.
void copy_row(const Tensor& from, int64_t from_row, const Tensor& to, int64_t to_row) {
  const int last = to.spec.rank - 1;
  const auto bytes = int64_t(dtype_bytes(to.spec.dtype)), count = to.spec.dim[last];
  const char* source =
      static_cast<const char*>(from.data) + row_offset(from.spec, last, from_row) * bytes;
  char* target = static_cast<char*>(to.data) + row_offset(to.spec, last, to_row) * bytes;
  const bool dense = count == 1 || (from.spec.stride[last] == 1 && to.spec.stride[last] == 1);
  const int64_t pieces = dense ? 1 : count, piece = dense ? count * bytes : bytes;
  for (int64_t e = 0; e < pieces; ++e)
    std::memcpy(target + e * to.spec.stride[last] * bytes,
                source + e * from.spec.stride[last] * bytes, size_t(piece));
}

// Calls body(role, rows, width) for each output, rows counted through all dims but the last.
template <class Body>
void each_output(const Problem& problem, const Body& body) {
  for (const Role& role : problem.operation->roles()) {
    const TensorSpec& spec = problem.tensor[size_t(role.index)];
    if (is_output(role) && present(spec))
      body(role.index, row_count(spec, spec.rank - 1), spec.dim[spec.rank - 1]);
  }
}

// Claims that row `row` of the base agrees with row `other` of the run, whose sigmas are the base's
// where it has none.
class Comparison {
 public:
  Comparison(const RelationRun& base, const RelationRun& run, const Relation::Sink& sink)
      : base_(base), run_(run), sink_(sink) {}

  void operator()(int32_t role, int64_t row, int64_t other, int64_t width, double factor = 1) {
    first_.read(base_, role, row, width);
    second_.read(run_, role, other, width);
    for (size_t e = 0; e < size_t(width); ++e) {
      second_.value[e] /= factor;
      first_.sigma[e] += run_.sigmas ? second_.sigma[e] / factor : first_.sigma[e];
    }
    const TensorSpec& spec = base_.problem.tensor[size_t(role)];
    const int leading = spec.dim[spec.rank - 1] == width ? spec.rank - 1 : spec.rank;
    sink_({role, leading, row, first_.value, second_.value, first_.sigma});
  }

 private:
  const RelationRun &base_, &run_;
  const Relation::Sink& sink_;
  Row first_, second_;
};

class Repetition final : public SamePlaces {
 public:
  using SamePlaces::SamePlaces;
  std::string_view name() const override { return "repetition"; }
  bool bitwise() const override { return true; }
};

// What stages have to hold, computed when it is asked for.
class StageRanges {
 public:
  explicit StageRanges(std::vector<StageRange> ranges)
      : ranges_(std::move(ranges)), largest_(ranges_.size(), -1) {}

  /// Whether every stage holds its numbers, and half as much again for roundings, times `factor`.
  bool hold(const Arithmetic& arithmetic, double factor) {
    for (size_t n = 0; n < ranges_.size(); ++n) {
      const double limit = largest_finite(arithmetic.stage[size_t(ranges_[n].stage)].dtype);
      if (limit > kAny) continue;
      if (largest_[n] < 0) largest_[n] = ranges_[n].largest();
      if (!(largest_[n] * factor < limit / 1.5)) return false;
    }
    return true;
  }

 private:
  static constexpr double kAny = 1e30;  // dtypes with the exponents of float32
  std::vector<StageRange> ranges_;
  std::vector<double> largest_;  // below 0: not computed yet
};

class ValueScale final : public SamePlaces {
 public:
  /// `larger`: the next factor of the same problem; 0: none is larger.
  ValueScale(const Problem& problem, const Tensors& inputs, std::shared_ptr<StageRanges> ranges,
             double factor, double larger)
      : SamePlaces(problem, inputs), ranges_(std::move(ranges)), factor_(factor), larger_(larger) {}
  std::string_view name() const override { return "value-scale"; }
  bool suits(const Arithmetic& arithmetic) const override {
    return ranges_->hold(arithmetic, factor_) &&
           !(larger_ > 0 && ranges_->hold(arithmetic, larger_));
  }

 protected:
  void change(const Tensors& to) const override {
    const TensorSpec& spec = to[ATTEST_V].spec;
    const int last = spec.rank - 1;
    std::vector<double> row(size_t(spec.dim[last]));
    for (int64_t r = 0; r < row_count(spec, last); ++r) {
      load_row(to[ATTEST_V].data, spec.dtype, row_offset(spec, last, r), spec.dim[last],
               spec.stride[last], row.data());
      for (int64_t e = 0; e < spec.dim[last]; ++e)
        store(to[ATTEST_V].data, spec.dtype, row_offset(spec, last, r) + e * spec.stride[last],
              row[size_t(e)] * factor_);
    }
  }
  double factor(int32_t role) const override { return role == ATTEST_O ? factor_ : 1; }

 private:
  std::shared_ptr<StageRanges> ranges_;
  double factor_, larger_;
};

class Repeated final : public Relation {
 public:
  Repeated(std::string_view name, const Tensors& inputs, const Problem& larger)
      : name_(name), inputs_(inputs), problems_{larger} {}
  std::string_view name() const override { return name_; }
  const std::vector<Problem>& problems() const override { return problems_; }

  void fill(size_t, const Tensors& to) const override {
    for (const Role& role : problems_[0].operation->roles()) {
      const Tensor &from = inputs_[size_t(role.index)], &into = to[size_t(role.index)];
      if (!into) continue;
      const int rank = into.spec.rank;
      if (into.spec.dim[rank - 1] == from.spec.dim[rank - 1]) {
        for (int64_t row = 0; row < row_count(into.spec, rank - 1); ++row)
          copy_row(from, folded(into.spec, from.spec, row, rank - 1), into, row);
        continue;
      }
      for (int64_t i = 0; i < row_count(into.spec, rank); ++i)
        store(into.data, into.spec.dtype, row_offset(into.spec, rank, i),
              load(from.data, from.spec.dtype,
                   row_offset(from.spec, rank, folded(into.spec, from.spec, i, rank))));
    }
  }

  void compare(const RelationRun& base, std::span<const RelationRun> runs,
               const Sink& sink) const override {
    Comparison compare_rows(base, runs[0], sink);
    each_output(problems_[0], [&](int32_t role, int64_t rows, int64_t width) {
      const TensorSpec &large = problems_[0].tensor[size_t(role)],
                       &small = base.problem.tensor[size_t(role)];
      // Where the last dim has grown too (it is no case today), rows would not match.
      if (large.dim[large.rank - 1] != small.dim[small.rank - 1]) return;
      for (int64_t row = 0; row < rows; ++row)
        compare_rows(role, folded(large, small, row, large.rank - 1), row, width);
    });
  }

 private:
  // The row of `small` that row `row` of `large` repeats: each index modulo the smaller dim.
  static int64_t folded(const TensorSpec& large, const TensorSpec& small, int64_t row,
                        int leading) {
    int64_t result = 0, unit = 1;
    for (int i = leading; i-- > 0; row /= large.dim[i]) {
      result += row % large.dim[i] % small.dim[i] * unit;
      unit *= small.dim[i];
    }
    return result;
  }

  std::string_view name_;
  Tensors inputs_;
  std::vector<Problem> problems_;
};

class Rearranged final : public Relation {
 public:
  Rearranged(std::string_view name, const Problem& problem, const Tensors& inputs,
             std::vector<Rearrangement> rearrangements)
      : name_(name),
        problems_{problem},
        inputs_(inputs),
        rearrangements_(std::move(rearrangements)) {}
  std::string_view name() const override { return name_; }
  const std::vector<Problem>& problems() const override { return problems_; }
  // Sums on the way depend on the order of the keys; queries have nothing to do with one another.
  bool own_sigmas() const override { return of(ATTEST_K) != nullptr; }

  void fill(size_t, const Tensors& to) const override {
    for (const Role& role : problems_[0].operation->roles()) {
      const Tensor &from = inputs_[size_t(role.index)], &into = to[size_t(role.index)];
      if (!into) continue;
      const Rearrangement* moved = of(role.index);
      if (!moved) {
        copy_elements(from, into);
        continue;
      }
      const TensorSpec& spec = into.spec;
      if (moved->axis < spec.rank - 1) {
        for (int64_t row = 0; row < row_count(spec, spec.rank - 1); ++row)
          copy_row(from, source(*moved, spec, row, spec.rank - 1), into, row);
        continue;
      }
      for (int64_t i = 0; i < row_count(spec, spec.rank); ++i)
        store(into.data, spec.dtype, row_offset(spec, spec.rank, i),
              load(from.data, from.spec.dtype,
                   row_offset(from.spec, spec.rank, source(*moved, spec, i, spec.rank))));
    }
  }

  // Outputs that are named move as inputs do.
  void compare(const RelationRun& base, std::span<const RelationRun> runs,
               const Sink& sink) const override {
    Comparison compare_rows(base, runs[0], sink);
    each_output(problems_[0], [&](int32_t role, int64_t rows, int64_t width) {
      const Rearrangement* moved = of(role);
      const TensorSpec& spec = problems_[0].tensor[size_t(role)];
      if (moved &&
          moved->axis == spec.rank - 1) {  // the moved dim is the last one: element by element
        return each_element(*moved, role, base, runs[0], sink);
      }
      for (int64_t row = 0; row < rows; ++row)
        compare_rows(role, moved ? source(*moved, spec, row, spec.rank - 1) : row, row, width);
    });
  }

 private:
  const Rearrangement* of(int32_t role) const {
    for (const Rearrangement& one : rearrangements_)
      if (one.role == role) return &one;
    return nullptr;
  }

  // Index, counted through `leading` dims, of the element or row that moves to `index`.
  static int64_t source(const Rearrangement& moved, const TensorSpec& spec, int64_t index,
                        int leading) {
    int64_t at[6] = {};
    for (int i = leading; i-- > 0; index /= spec.dim[i]) at[i] = index % spec.dim[i];
    const int64_t size = spec.dim[moved.axis];
    const int64_t from = moved.source[size_t(
        (moved.outer_axis < 0 ? 0 : at[moved.outer_axis] * size) + at[moved.axis])];
    at[moved.axis] = from % size;
    if (moved.outer_axis >= 0) at[moved.outer_axis] = from / size;
    int64_t result = 0;
    for (int i = 0; i < leading; ++i) result = result * spec.dim[i] + at[i];
    return result;
  }

  void each_element(const Rearrangement& moved, int32_t role, const RelationRun& base,
                    const RelationRun& run, const Sink& sink) const {
    const TensorSpec& spec = problems_[0].tensor[size_t(role)];
    auto sigma_of = [role](const RelationRun& one, int64_t at) {
      return one.sigmas ? *one.sigmas->at(role, at) : kUnknown;
    };
    for (int64_t i = 0; i < row_count(spec, spec.rank); ++i) {
      const int64_t from = source(moved, spec, i, spec.rank);
      double first = 0, second = 0;
      read_elements(base.outputs[size_t(role)], from, 1, &first);
      read_elements(run.outputs[size_t(role)], i, 1, &second);
      const double sigma =
          sigma_of(base, from) + (run.sigmas ? sigma_of(run, i) : sigma_of(base, from));
      sink({role, spec.rank, from, {&first, 1}, {&second, 1}, {&sigma, 1}});
    }
  }

  std::string_view name_;
  std::vector<Problem> problems_;
  Tensors inputs_;
  std::vector<Rearrangement> rearrangements_;
};

}  // namespace

SigmaTable::SigmaTable(const Problem& problem, const Golden& golden, const Arithmetic& arithmetic)
    : distinct_rows_(golden.distinct_rows()) {
  each_output(problem, [&](int32_t role, int64_t rows, int64_t width) {
    sigmas_[role].assign(size_t(rows * width), kUnknown);
  });
  golden.expect(arithmetic, [&](const Expected& chunk) {
    if (!chunk.value) return;
    std::vector<double>& sigmas = sigmas_.at(chunk.role);
    for (size_t r = 0; r < chunk.rows.size(); ++r)
      std::copy_n(chunk.sigma + (chunk.shared ? 0 : r * size_t(chunk.width)), chunk.width,
                  &sigmas[size_t(chunk.rows[r] * chunk.width)]);
  });
}

const double* SigmaTable::at(int32_t role, int64_t first) const {
  const auto found = sigmas_.find(role);
  return found == sigmas_.end() ? nullptr : found->second.data() + first;
}

void read_elements(const Tensor& tensor, int64_t first, int64_t count, double* values) {
  const TensorSpec& spec = tensor.spec;
  load_row(tensor.data, spec.dtype, row_offset(spec, spec.rank, first), count,
           count > 1 ? spec.stride[spec.rank - 1] : 1, values);
}

void copy_elements(const Tensor& from, const Tensor& to) {
  for (int64_t row = 0; row < row_count(to.spec, to.spec.rank - 1); ++row)
    copy_row(from, row, to, row);
}

void SamePlaces::fill(size_t, const Tensors& to) const {
  for (const Role& role : problem().operation->roles())
    if (to[size_t(role.index)]) copy_elements(inputs_[size_t(role.index)], to[size_t(role.index)]);
  change(to);
}

void SamePlaces::compare(const RelationRun& base, std::span<const RelationRun> runs,
                         const Sink& sink) const {
  Comparison compare_rows(base, runs[0], sink);
  each_output(problem(), [&](int32_t role, int64_t, int64_t) {
    const TensorSpec& spec = problem().tensor[size_t(role)];
    const int64_t rows = row_count(spec, leading(spec)),
                  width = leading(spec) < spec.rank ? spec.dim[spec.rank - 1] : 1;
    for (int64_t row = 0; row < rows; ++row)
      if (compares(role, row)) compare_rows(role, row, row, width, factor(role));
  });
}

std::unique_ptr<Relation> repetition(const Problem& problem, const Tensors& inputs) {
  return std::make_unique<Repetition>(problem, inputs);
}

std::vector<std::unique_ptr<Relation>> value_scales(const Problem& problem, const Tensors& inputs,
                                                    std::vector<StageRange> ranges) {
  const Tensor& v = inputs[ATTEST_V];
  double largest = 0;
  for (int64_t i = 0; i < row_count(v.spec, v.spec.rank); ++i)
    largest = std::max(largest,
                       std::fabs(load(v.data, v.spec.dtype, row_offset(v.spec, v.spec.rank, i))));
  const double limit =
      std::min(largest_finite(v.spec.dtype), largest_finite(problem.tensor[ATTEST_O].dtype));
  const auto shared = std::make_shared<StageRanges>(std::move(ranges));
  std::vector<std::unique_ptr<Relation>> list;
  double larger = 0;
  for (double factor = kLargestValueFactor; factor >= 2; factor /= 2) {
    if (!(largest * factor < limit / 2)) continue;
    list.push_back(std::make_unique<ValueScale>(problem, inputs, shared, factor, larger));
    larger = factor;
  }
  return list;
}

std::unique_ptr<Relation> repeated(std::string_view name, const Tensors& inputs,
                                   const Problem& larger) {
  return std::make_unique<Repeated>(name, inputs, larger);
}

std::unique_ptr<Relation> rearranged(std::string_view name, const Problem& problem,
                                     const Tensors& inputs,
                                     std::vector<Rearrangement> rearrangements) {
  return std::make_unique<Rearranged>(name, problem, inputs, std::move(rearrangements));
}

std::vector<int64_t> shuffled_places(int64_t count, uint64_t seed) {
  std::vector<int64_t> places(static_cast<size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  for (int64_t n = count; n > 1; --n)
    std::swap(places[size_t(n - 1)], places[size_t(random_below(seed, uint64_t(n), uint64_t(n)))]);
  return places;
}

double largest_value(const Tensor& tensor) {
  const TensorSpec& spec = tensor.spec;
  const int leading = spec.rank - 1;
  double largest = 0;
  std::vector<double> row(size_t(spec.dim[leading]));
  for (int64_t r = 0; r < row_count(spec, leading); ++r) {
    load_row(tensor.data, spec.dtype, row_offset(spec, leading, r), spec.dim[leading],
             spec.stride[leading], row.data());
    for (const double x : row)
      if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  }
  return largest;
}

Problem resized(const Problem& problem, const std::function<void(Problem&)>& change) {
  Problem other = blank_problem(*problem.operation, problem.dtype);
  other.params = problem.params;
  change(other);
  for (const Role& role : problem.operation->roles()) {
    const TensorSpec& old = problem.tensor[size_t(role.index)];
    if (!present(old)) continue;
    std::vector<int64_t> dims = problem.operation->dims(other, role.index);
    for (size_t i = 0; i < dims.size(); ++i)
      if (old.dim[i] == 1 && problem.operation->may_broadcast(role.index, int(i))) dims[i] = 1;
    other.tensor[size_t(role.index)] = dense_tensor(old.dtype, role.access, dims);
  }
  finish_problem(other);
  return other;
}

}  // namespace attest::core
