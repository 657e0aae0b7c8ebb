#include "core/judge/error_map.hpp"

#include <algorithm>
#include <cmath>

namespace attest::core {
namespace {

// Characters of cells from the best to the worst.
constexpr std::string_view kGrades = " .123456789x";

char grade(double error) {
  if (error <= 1) return '.';
  const double power = std::ceil(std::log10(error));
  return power <= 9 ? char('0' + std::max(1, int(power))) : 'x';  // NaN: 'x'
}

// The cell of `index` where `all` indices share `cells`.
size_t cell_of(int64_t index, int64_t all, size_t cells) {
  return size_t(index * int64_t(cells) / all);
}

}  // namespace

ErrorMapBuilder::ErrorMapBuilder(const TensorSpec& spec, int leading)
    : spec_(spec), leading_(leading) {
  for (int axis = 0; axis + 1 < leading; ++axis) lines_ *= spec.dim[axis];
  if (leading > 0) columns_ = spec.dim[leading - 1];
  cells_.assign(size_t(std::clamp<int64_t>(lines_, 1, kMostLines)),
                std::string(size_t(std::clamp<int64_t>(columns_, 1, kMostColumns)), kGrades[0]));
}

void ErrorMapBuilder::add(const std::vector<int64_t>& index, double error) {
  int64_t line = 0;
  for (int axis = 0; axis + 1 < leading_; ++axis)
    line = line * spec_.dim[axis] + index[size_t(axis)];
  std::string& cells = cells_[cell_of(line, lines_, cells_.size())];
  char& cell =
      cells[leading_ > 0 ? cell_of(index[size_t(leading_ - 1)], columns_, cells.size()) : 0];
  const char found = grade(error);
  if (kGrades.find(found) > kGrades.find(cell)) cell = found;
}

ErrorMap ErrorMapBuilder::map(const Operation& operation, int32_t role) const {
  ErrorMap map{.columns = columns_, .lines = lines_, .cells = cells_};
  if (leading_ > 0) map.across = operation.dim_name(role, leading_ - 1);
  for (int axis = 0; axis + 1 < leading_; ++axis)
    map.down += (axis > 0 ? " x " : "") + operation.dim_name(role, axis);
  return map;
}

}  // namespace attest::core
