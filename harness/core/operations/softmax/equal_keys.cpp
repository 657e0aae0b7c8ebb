#include "core/operations/softmax/equal_keys.hpp"

#include <algorithm>
#include <utility>

namespace attest::core {

EqualKeys find_equal_keys(const Tensor& k, const Geometry& geometry, int64_t b, int64_t kv_head) {
  const TensorSpec& spec = k.spec;
  const int64_t length = geometry.length_kv(b), dim = spec.dim[3];
  std::vector<std::pair<uint64_t, int32_t>> hashes(static_cast<size_t>(length));
  std::vector<double> row(static_cast<size_t>(dim));
  for (int64_t j = 0; j < length; ++j) {
    const Cell cell = geometry.key(b, j);
    load_row(k.data, spec.dtype, cell.outer * spec.stride[0] + kv_head * spec.stride[1] + cell.row * spec.stride[2], dim, spec.stride[3], row.data());
    for (double& x : row) x += 0.0;  // -0 becomes 0
    hashes[size_t(j)] = {hash_bytes(row.data(), row.size() * sizeof(double)), int32_t(j)};
  }
  std::sort(hashes.begin(), hashes.end());
  std::vector<std::pair<int32_t, int32_t>> found;  // group: its first place
  for (size_t begin = 0, end; begin < hashes.size(); begin = end) {
    for (end = begin + 1; end < hashes.size() && hashes[end].first == hashes[begin].first; ++end) {}
    for (size_t n = begin; end - begin > 1 && n < end; ++n) found.emplace_back(hashes[begin].second, hashes[n].second);
  }
  std::sort(found.begin(), found.end());
  EqualKeys equal;
  for (const auto& [group, place] : found) equal.group.push_back(group), equal.place.push_back(place);
  return equal;
}

}  // namespace attest::core
