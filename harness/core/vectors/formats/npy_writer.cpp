// Writing .npy: version 1.0, padded to 64 bytes as numpy.save pads it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "core/tensor/error.hpp"
#include "core/vectors/formats/npy.hpp"

namespace attest::core {
namespace {

constexpr int64_t kLargestArray_bytes = (int64_t{2} << 30) - 4096;  // read_bytes takes no more

const char* descr_of(DType dtype) {
  switch (dtype) {
    case ATTEST_F32:
    case ATTEST_BF16:
    case ATTEST_F8E4M3:
    case ATTEST_F8E5M2: return "<f4";
    case ATTEST_F16: return "<f2";
    case ATTEST_F64: return "<f8";
    case ATTEST_I32: return "<i4";
    case ATTEST_I64: return "<i8";
    case ATTEST_BOOL: return "|b1";
    default: return nullptr;
  }
}

std::string header_of(const TensorSpec& spec, const char* descr) {
  constexpr size_t kPreamble = 10, kAlignment = 64;
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   descr, fmt::join(dims(spec), ", "), spec.rank == 1 ? "," : "");
  const size_t unpadded = kPreamble + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header += '\n';
  const auto size = uint16_t(header.size());
  std::string preamble("\x93NUMPY\x01\x00\0\0", kPreamble);
  std::memcpy(preamble.data() + 8, &size, sizeof(size));
  return preamble + header;
}

// NumPy has none of these dtypes, and float32 holds all of their numbers.
bool is_widened(DType dtype) { return dtype == ATTEST_BF16 || is_f8(dtype); }

// The elements of one row of the last dim, as the file has them.
class RowWriter {
 public:
  RowWriter(std::ofstream& out, const Tensor& tensor)
      : out_(out),
        tensor_(tensor),
        from_bytes_(dtype_bytes(tensor.spec.dtype)),
        widens_(is_widened(tensor.spec.dtype)) {}

  void write(int64_t offset, int64_t count, int64_t stride) {
    row_.resize(size_t(count) * (widens_ ? sizeof(float) : from_bytes_));
    const auto* from = static_cast<const char*>(tensor_.data);
    for (int64_t e = 0; e < count; ++e)
      put(row_.data() + size_t(e) * (widens_ ? sizeof(float) : from_bytes_),
          from + (offset + e * stride) * int64_t(from_bytes_));
    out_.write(row_.data(), std::streamsize(row_.size()));
  }

 private:
  // The bits of a bfloat16 are the upper half of those of the same float32, NaNs included.
  void put(char* to, const char* element) const {
    if (is_f8(tensor_.spec.dtype)) {
      const auto number = float(load(element, tensor_.spec.dtype, 0));
      std::memcpy(to, &number, sizeof(number));
    } else if (widens_) {
      std::memset(to, 0, 2);
      std::memcpy(to + 2, element, 2);
    } else {
      std::memcpy(to, element, from_bytes_);
    }
  }

  std::ofstream& out_;
  const Tensor& tensor_;
  const size_t from_bytes_;
  const bool widens_;
  std::vector<char> row_;
};

}  // namespace

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  const TensorSpec& spec = tensor.spec;
  const char* descr = descr_of(spec.dtype);
  if (!descr)
    throw Error(fmt::format("{}: NumPy has no {}", path.string(), dtype_name(spec.dtype)));
  const int64_t width =
      is_widened(spec.dtype) ? int64_t(sizeof(float)) : int64_t(dtype_bytes(spec.dtype));
  if (element_count(spec) > kLargestArray_bytes / width)
    throw Error(fmt::format("{}: the array takes more than {} bytes, which would not be read",
                            path.string(), kLargestArray_bytes));
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << header_of(spec, descr);
  const int leading = std::max(spec.rank - 1, 0);
  const int64_t count = spec.rank > 0 ? spec.dim[leading] : 1;
  const int64_t stride = spec.rank > 0 ? spec.stride[leading] : 0;
  RowWriter rows(out, tensor);
  for (int64_t row = 0; row < row_count(spec, leading); ++row)
    rows.write(row_offset(spec, leading, row), count, stride);
  out.close();
  if (!out) throw Error(fmt::format("{}: cannot be written", path.string()));
}

}  // namespace attest::core
