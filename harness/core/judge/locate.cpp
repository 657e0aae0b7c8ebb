#include "core/judge/locate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "core/judge/element.hpp"
#include "core/judge/error_map.hpp"
#include "core/judge/gates.hpp"
#include "core/judge/index_words.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core {
namespace {

// What is known of one output: for each dim, which indices were judged, and which have a wrong
// element.
class Survey {
 public:
  Survey(const TensorSpec& spec, int leading) : spec_(spec), map_(spec, leading) {
    for (int axis = 0; axis < spec.rank; ++axis) {
      judged_.emplace_back(size_t(spec.dim[axis]));
      wrong_.emplace_back(size_t(spec.dim[axis]));
    }
  }

  // `errors`: of the chunk's elements, [rows, width], as shares of their gates.
  void add(const Expected& chunk, const std::vector<double>& errors) {
    for (size_t r = 0; r < chunk.rows.size(); ++r) {
      ++rows_;
      exact_rows_ += chunk.value != nullptr;
      elements_ += chunk.width;
      const std::vector<int64_t> index = row_index(spec_, chunk.leading, chunk.rows[r]);
      for (int axis = 0; axis < chunk.leading; ++axis) judge(axis, index[size_t(axis)]);
      int64_t found = 0;
      double worst = 0;
      for (int64_t e = 0; e < chunk.width; ++e) {
        if (chunk.leading < spec_.rank) judge(chunk.leading, e);
        const double error = errors[r * size_t(chunk.width) + size_t(e)];
        worst = std::max(worst, error);
        if (error <= 1) continue;
        ++found;
        note(index, chunk.leading, e);
      }
      wrong_elements_ += found;
      wrong_rows_ += found > 0;
      map_.add(index, worst);
    }
  }

  bool has_wrong() const { return wrong_elements_ > 0; }

  Location location(const Operation& operation, int32_t role) const {
    Location location{.tensor = find_role(operation, role)->name,
                      .elements = elements_,
                      .wrong_elements = wrong_elements_,
                      .rows = rows_,
                      .wrong_rows = wrong_rows_,
                      .exact_rows = exact_rows_,
                      .first = first_,
                      .last = last_,
                      .parts = {},
                      .map = map_.map(operation, role)};
    for (int axis = 0; axis < spec_.rank; ++axis)
      if (std::string words = describe_indices(judged_[size_t(axis)], wrong_[size_t(axis)]);
          !words.empty())
        location.parts.push_back({operation.dim_name(role, axis), std::move(words)});
    return location;
  }

 private:
  void judge(int axis, int64_t at) { judged_[size_t(axis)][size_t(at)] = true; }
  void note(const std::vector<int64_t>& row, int leading, int64_t element) {
    std::vector<int64_t> index = row;
    if (leading < spec_.rank) index.push_back(element);
    for (size_t axis = 0; axis < index.size(); ++axis) wrong_[axis][size_t(index[axis])] = true;
    if (first_.empty() || index < first_) first_ = index;
    if (last_.empty() || index > last_) last_ = std::move(index);
  }

  const TensorSpec& spec_;
  std::vector<std::vector<bool>> judged_, wrong_;  // [axis][index]
  int64_t elements_ = 0, wrong_elements_ = 0, rows_ = 0, wrong_rows_ = 0, exact_rows_ = 0;
  std::vector<int64_t> first_, last_;
  ErrorMapBuilder map_;
};

// The error of each element of a chunk as a share of its gate, [rows, width]. An element of a sweep
// has none if it is within its bounds, and an infinite one otherwise.
std::vector<double> element_errors(const Tensor& tensor, const Expected& chunk) {
  const TensorSpec& spec = tensor.spec;
  const auto width = size_t(chunk.width);
  const int64_t stride = chunk.leading < spec.rank ? spec.stride[chunk.leading] : 0;
  std::vector<double> errors(chunk.rows.size() * width);
  std::vector<double> got(width);
  for (size_t r = 0; r < chunk.rows.size(); ++r) {
    const int64_t offset = row_offset(spec, chunk.leading, chunk.rows[r]);
    load_row(tensor.data, spec.dtype, offset, chunk.width, stride, got.data());
    const size_t at = chunk.shared ? 0 : r * width;
    for (size_t e = 0; e < width; ++e)
      if (chunk.value)
        errors[r * width + e] =
            error_in_sigmas(chunk.value[at + e], got[e], chunk.sigma[at + e], spec.dtype) /
            Gates::kLargest;
      else if (!in_sweep(tensor, offset + int64_t(e) * stride, got[e], chunk.low[at + e],
                         chunk.high[at + e]))
        errors[r * width + e] = kInfinity;
  }
  return errors;
}

}  // namespace

std::vector<Location> locate_all(const Problem& problem, const Golden& golden,
                                 const Arithmetic& arithmetic, const Tensors& tensors) {
  std::map<int32_t, Survey> surveys;
  std::mutex lock;
  golden.expect(arithmetic, [&](const Expected& chunk) {
    const std::vector<double> errors = element_errors(tensors[size_t(chunk.role)], chunk);
    const std::lock_guard guard(lock);
    surveys.try_emplace(chunk.role, problem.tensor[size_t(chunk.role)], chunk.leading)
        .first->second.add(chunk, errors);
  });
  std::vector<Location> found;
  for (const auto& [role, survey] : surveys)
    if (survey.has_wrong()) found.push_back(survey.location(*problem.operation, role));
  return found;
}

std::optional<Location> locate(const Problem& problem, const Golden& golden,
                               const Arithmetic& arithmetic, const Tensors& tensors) {
  std::vector<Location> all = locate_all(problem, golden, arithmetic, tensors);
  return all.empty() ? std::nullopt : std::optional(std::move(all.front()));
}

std::string print_location(const Location& location) {
  const bool is_sampled = location.exact_rows && *location.exact_rows < location.rows;
  std::string text = fmt::format(
      "{}: {} of {} elements are wrong, in {} of {} rows{}, from [{}] to [{}]", location.tensor,
      location.wrong_elements, location.elements, location.wrong_rows, location.rows,
      is_sampled ? fmt::format(" ({} have their true values to compare with, the others a range)",
                               *location.exact_rows)
                 : "",
      fmt::join(location.first, ","), fmt::join(location.last, ","));
  for (const Location::Part& part : location.parts)
    text += fmt::format("; {}: {}", part.dim, part.indices);
  return text;
}

}  // namespace attest::core
