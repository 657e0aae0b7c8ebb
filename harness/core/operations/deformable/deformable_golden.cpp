// The golden of deformable attention: values and sigmas of all rows or of a sample, and bounds of
// the others.
#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "core/operations/deformable/deformable.hpp"
#include "core/operations/deformable/deformable_sigma.hpp"
#include "core/operations/row_sample.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using deformable::Params, deformable::Level, deformable::Point;

constexpr double kMostWork = 4e6;  // points times channels of all judged rows, and kRowWork each
constexpr double kRowWork = 256;
constexpr int64_t kLeastRows = 64;  // of each head
constexpr int64_t kTaskRows = 64, kSweptRows = 4096;
constexpr uint64_t kSampleSeed = 0x6465666f;

class DeformableGolden final : public Golden {
 public:
  DeformableGolden(const Problem& problem, const Tensors& tensors)
      : problem_(problem),
        p_(problem.as<Params>()),
        tensors_(tensors),
        points_(problem_, tensors_),
        heads_(p_.batch * p_.num_heads) {
    const double row = double(p_.num_levels * p_.num_points) * double(p_.head_dim_v);
    const auto affordable = int64_t(kMostWork / (row + kRowWork) / double(heads_));
    rows_a_head_ = std::min(p_.seq_len_q, std::max(kLeastRows, affordable));
  }

  void expect(const Arithmetic& arithmetic, const Sink& sink) const override {
    const DeformableArithmetic declared = DeformableArithmetic::of(arithmetic);
    std::vector<std::vector<int64_t>> exact(static_cast<size_t>(heads_)), swept(exact);
    for (int64_t head = 0; head < heads_; ++head) {
      exact[size_t(head)] = judged(head);
      swept[size_t(head)] = without(exact[size_t(head)]);
    }
    expect_rows(tasks_of(exact, kTaskRows), declared, sink);
    if (rows_a_head_ < p_.seq_len_q) sweep(tasks_of(swept, kSweptRows), declared, sink);
  }

  std::vector<int64_t> exact_rows(const Arithmetic&, int32_t role) const override {
    std::vector<int64_t> exact;
    if (role != ATTEST_O) return exact;
    for (int64_t head = 0; head < heads_; ++head)
      for (const int64_t query : judged(head)) exact.push_back(head * p_.seq_len_q + query);
    return exact;
  }

  // Rows with equal locations and weights of one head are equal.
  int64_t distinct_rows() const override {
    const std::lock_guard guard(lock_);
    if (!distinct_) distinct_ = count_distinct();
    return *distinct_;
  }

  // Where V is rounded, rows share the errors of its pixels, and equal pixels err alike.
  int64_t independent_rows(const Arithmetic& arithmetic, int32_t) const override {
    const DType product = DeformableArithmetic::of(arithmetic).product;
    if (unit_roundoff(product) <= unit_roundoff(problem_.tensor[ATTEST_V].dtype))
      return distinct_rows();
    const std::lock_guard guard(lock_);
    if (!distinct_) distinct_ = count_distinct();
    if (!pixels_) pixels_ = count_pixels();
    return std::min(*distinct_, *pixels_);
  }

  std::string method() const override {
    if (rows_a_head_ == p_.seq_len_q) return "float64, all rows";
    return fmt::format("float64, {} of {} rows a head", rows_a_head_, p_.seq_len_q);
  }

 private:
  std::vector<int64_t> judged(int64_t head) const {
    return sample_places(p_.seq_len_q, rows_a_head_, 0, random_bits(kSampleSeed, uint64_t(head)));
  }

  /// All rows of a head but those of the list, which is ascending.
  std::vector<int64_t> without(const std::vector<int64_t>& listed) const {
    std::vector<int64_t> rows;
    auto next = listed.begin();
    for (int64_t i = 0; i < p_.seq_len_q; ++i)
      if (next != listed.end() && *next == i)
        ++next;
      else
        rows.push_back(i);
    return rows;
  }

  /// Some queries of one head.
  struct Task {
    int64_t head;
    std::span<const int64_t> queries;
  };
  static std::vector<Task> tasks_of(const std::vector<std::vector<int64_t>>& queries,
                                    int64_t most) {
    std::vector<Task> tasks;
    for (size_t head = 0; head < queries.size(); ++head)
      for (size_t first = 0; first < queries[head].size(); first += size_t(most))
        tasks.push_back(
            {int64_t(head),
             std::span(queries[head])
                 .subspan(first, std::min(size_t(most), queries[head].size() - first))});
    return tasks;
  }

  /// Numbers of the rows of O.
  void number(const Task& task, std::vector<int64_t>& rows) const {
    rows.clear();
    for (const int64_t query : task.queries) rows.push_back(task.head * p_.seq_len_q + query);
  }

  void expect_rows(const std::vector<Task>& tasks, const DeformableArithmetic& arithmetic,
                   const Sink& sink) const {
#pragma omp parallel
    {
      deformable::RowExpectation row(problem_, tensors_, arithmetic);
      std::vector<double> value(size_t(kTaskRows * p_.head_dim_v)), sigma(value);
      std::vector<int64_t> rows;
#pragma omp for schedule(dynamic, 1)
      for (size_t n = 0; n < tasks.size(); ++n) {
        const Task& task = tasks[n];
        number(task, rows);
        for (size_t i = 0; i < task.queries.size(); ++i) {
          const size_t at = i * size_t(p_.head_dim_v);
          row.expect(task.head / p_.num_heads, task.head % p_.num_heads, task.queries[i],
                     &value[at], &sigma[at]);
        }
        sink({.role = ATTEST_O,
              .leading = 3,
              .width = p_.head_dim_v,
              .rows = rows,
              .value = value.data(),
              .sigma = sigma.data()});
      }
    }
  }

  // The least and the largest element of V of a head, by channel, and 0, which it is outside. NaN
  // for a channel with a NaN or infinity.
  struct Bounds {
    std::vector<double> low, high;
  };
  Bounds bounds(int64_t head) const {
    const TensorSpec& spec = tensors_[ATTEST_V].spec;
    Bounds of{std::vector<double>(size_t(p_.head_dim_v)),
              std::vector<double>(size_t(p_.head_dim_v))};
    std::vector<double> pixel(of.low.size());
    for (int64_t token = 0, end = deformable::token_count(p_); token < end; ++token) {
      load_row(tensors_[ATTEST_V].data, spec.dtype,
               head / p_.num_heads * spec.stride[0] + head % p_.num_heads * spec.stride[1] +
                   token * spec.stride[2],
               p_.head_dim_v, spec.stride[3], pixel.data());
      for (size_t c = 0; c < pixel.size(); ++c) {
        if (std::isfinite(pixel[c])) {
          if (pixel[c] < of.low[c]) of.low[c] = pixel[c];
          if (pixel[c] > of.high[c]) of.high[c] = pixel[c];
        } else {
          of.low[c] = of.high[c] = std::numeric_limits<double>::quiet_NaN();
        }
      }
    }
    return of;
  }

  // A sample lies between the least and the largest pixel. Points outside, which an error of their
  // coordinates may bring in, count as if they were inside.
  void sweep(const std::vector<Task>& tasks, const DeformableArithmetic& arithmetic,
             const Sink& sink) const {
    const auto width = size_t(p_.head_dim_v);
    const double margin = deformable::nearly_inside(points_.levels(), arithmetic.location);
    const double roundings = 8 + 4 * double(p_.num_levels * p_.num_points);
    double coarsest = unit_roundoff(arithmetic.output), small = half_subnormal(arithmetic.output);
    for (const DType dtype : {arithmetic.weight, arithmetic.product, arithmetic.accumulator}) {
      coarsest = std::max(coarsest, unit_roundoff(dtype));
      small = std::max(small, arithmetic.has(ATTEST_FLUSHES_SUBNORMALS) ? smallest_normal(dtype)
                                                                        : half_subnormal(dtype));
    }
    std::vector<Bounds> of_v(static_cast<size_t>(heads_));
#pragma omp parallel
    {
      std::vector<Point> points;
      std::vector<double> low(size_t(kSweptRows) * width), high(low);
      std::vector<int64_t> rows;
#pragma omp for schedule(dynamic, 1)
      for (int64_t head = 0; head < heads_; ++head) of_v[size_t(head)] = bounds(head);
#pragma omp for schedule(dynamic, 1)
      for (size_t n = 0; n < tasks.size(); ++n) {
        const Task& task = tasks[n];
        const std::vector<double>&least = of_v[size_t(task.head)].low,
              &largest = of_v[size_t(task.head)].high;
        number(task, rows);
        for (size_t i = 0; i < task.queries.size(); ++i) {
          points_.read(task.head / p_.num_heads, task.head % p_.num_heads, task.queries[i], points,
                       margin);
          double positive = 0, negative = 0;
          for (const Point& point : points)
            (point.weight < 0 ? negative : positive) += point.weight;
          for (size_t c = 0; c < width; ++c) {
            const double slack =
                roundings * (coarsest * (positive - negative) * std::max(-least[c], largest[c]) +
                             small * (1 + positive - negative));
            low[i * width + c] = positive * least[c] + negative * largest[c] - slack;
            high[i * width + c] = positive * largest[c] + negative * least[c] + slack;
          }
        }
        sink({.role = ATTEST_O,
              .leading = 3,
              .width = p_.head_dim_v,
              .rows = rows,
              .low = low.data(),
              .high = high.data()});
      }
    }
  }

  int64_t count_distinct() const {
    std::unordered_set<uint64_t> seen;
    std::vector<Point> points;
    for (int64_t head = 0; head < heads_; ++head)
      for (const int64_t i : judged(head)) {
        points_.read(head / p_.num_heads, head % p_.num_heads, i, points);
        uint64_t hash = uint64_t(head);
        for (const Point& point : points) {
          const double numbers[] = {double(point.level), point.location_x, point.location_y,
                                    point.weight};
          hash = hash_bytes(numbers, sizeof numbers, hash);
        }
        seen.insert(hash);
      }
    return int64_t(seen.size());
  }

  int64_t count_pixels() const {
    const Tensor& v = tensors_[ATTEST_V];
    std::unordered_set<uint64_t> seen;
    std::vector<double> pixel(size_t(p_.head_dim_v));
    for (int64_t row = 0; row < row_count(v.spec, 3); ++row) {
      load_row(v.data, v.spec.dtype, row_offset(v.spec, 3, row), p_.head_dim_v, v.spec.stride[3],
               pixel.data());
      seen.insert(hash_bytes(pixel.data(), pixel.size() * sizeof(double)));
    }
    return int64_t(seen.size());
  }

  const Problem problem_;
  const Params p_;
  const Tensors tensors_;
  const deformable::Points points_;
  const int64_t heads_;
  int64_t rows_a_head_;
  mutable std::mutex lock_;
  mutable std::optional<int64_t> distinct_, pixels_;
};

}  // namespace

std::unique_ptr<Golden> deformable_golden(const Problem& problem, const Tensors& tensors) {
  return std::make_unique<DeformableGolden>(problem, tensors);
}

}  // namespace attest::core
