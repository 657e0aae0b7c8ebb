#include "core/operations/equal_rows.hpp"

#include <algorithm>
#include <utility>

#include "core/tensor/constants.hpp"
#include "core/tensor/tensor.hpp"

namespace attest::core {
size_t EqualRows::group_end(size_t begin) const {
  size_t end = begin + 1;
  while (end < group.size() && group[end] == group[begin]) ++end;
  return end;
}

EqualRows find_equal_rows(int64_t count, int64_t width,
                          const std::function<bool(int64_t place, double* row)>& load) {
  std::vector<std::pair<uint64_t, int32_t>> hashes(size_t(count), {0, -1});
#pragma omp parallel if (count * width > kThreadedElements)
  {
    std::vector<double> row(static_cast<size_t>(width));
#pragma omp for
    for (int64_t j = 0; j < count; ++j) {
      if (!load(j, row.data())) continue;
      for (double& x : row) x += 0.0;  // -0 becomes 0
      hashes[size_t(j)] = {hash_bytes(row.data(), row.size() * sizeof(double)), int32_t(j)};
    }
  }
  std::erase_if(hashes, [](const auto& hash) { return hash.second < 0; });
  std::sort(hashes.begin(), hashes.end());
  std::vector<std::pair<int32_t, int32_t>> found;  // group: its first place
  for (size_t begin = 0, end; begin < hashes.size(); begin = end) {
    for (end = begin + 1; end < hashes.size() && hashes[end].first == hashes[begin].first; ++end) {
    }
    for (size_t n = begin; end - begin > 1 && n < end; ++n)
      found.emplace_back(hashes[begin].second, hashes[n].second);
  }
  std::sort(found.begin(), found.end());
  EqualRows equal;
  for (const auto& [group, place] : found) {
    equal.group.push_back(group);
    equal.place.push_back(place);
  }
  return equal;
}

}  // namespace attest::core
