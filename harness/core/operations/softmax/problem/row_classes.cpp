#include "core/operations/softmax/problem/row_classes.hpp"

#include <cstring>
#include <unordered_map>

namespace attest::core {
namespace {

// The elements of one row, side by side.
class RowBytes {
 public:
  explicit RowBytes(const Tensor& tensor)
      : tensor_(tensor), element_(int64_t(dtype_bytes(tensor.spec.dtype))) {}
  size_t size() const { return size_t(tensor_.spec.dim[3] * element_); }
  /// Where they lie, or a copy in `memory` where they lie apart.
  const char* of(int64_t row, std::vector<char>& memory) const {
    const TensorSpec& spec = tensor_.spec;
    const char* from = static_cast<const char*>(tensor_.data) + row_offset(spec, 3, row) * element_;
    if (spec.dim[3] == 1 || spec.stride[3] == 1) return from;
    memory.resize(size());
    for (int64_t j = 0; j < spec.dim[3]; ++j)
      std::memcpy(&memory[size_t(j * element_)], from + j * spec.stride[3] * element_,
                  size_t(element_));
    return memory.data();
  }

 private:
  const Tensor& tensor_;
  int64_t element_;
};

}  // namespace

RowClasses::RowClasses(const Tensor& tensor)
    : spec_(tensor.spec), class_(size_t(row_count(tensor.spec, 3))) {
  const RowBytes bytes(tensor);
  const auto rows = int64_t(class_.size());
  std::vector<uint64_t> hash(class_.size());
#pragma omp parallel
  {
    std::vector<char> memory;
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; ++r)
      hash[size_t(r)] = hash_bytes(bytes.of(r, memory), bytes.size());
  }
  std::unordered_map<uint64_t, int32_t> class_of_hash;
  std::vector<int64_t> first;  // row of each class
  for (int64_t r = 0; r < rows; ++r) {
    const auto [found, is_new] = class_of_hash.try_emplace(hash[size_t(r)], int32_t(first.size()));
    if (is_new) first.push_back(r);
    class_[size_t(r)] = found->second;
  }
  std::vector<uint8_t> differs(class_.size(), 0);
#pragma omp parallel
  {
    std::vector<char> memory, other;
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t alike = first[size_t(class_[size_t(r)])];
      differs[size_t(r)] =
          alike != r && std::memcmp(bytes.of(r, memory), bytes.of(alike, other), bytes.size()) != 0;
    }
  }
  auto classes = int32_t(first.size());
  for (int64_t r = 0; r < rows; ++r)  // two rows with one hash: the second stands for itself
    if (differs[size_t(r)]) class_[size_t(r)] = classes++;
}

int64_t RowClasses::of(int64_t b, int64_t h, int64_t i) const {
  if (class_.empty()) return 0;
  auto index = [this](int dim, int64_t x) { return spec_.dim[dim] > 1 ? x : 0; };
  return class_[size_t((index(0, b) * spec_.dim[1] + index(1, h)) * spec_.dim[2] + index(2, i))];
}

}  // namespace attest::core
