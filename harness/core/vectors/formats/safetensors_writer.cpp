// Writing safetensors: wide elements first, so that every tensor is aligned to its own.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/formats/safetensors.hpp"

namespace attest::core {
namespace {

constexpr int64_t kLargest_bytes = int64_t{2} << 30;  // read_bytes takes no more

const char* type_of(DType dtype) {
  switch (dtype) {
    case ATTEST_F32: return "F32";
    case ATTEST_F16: return "F16";
    case ATTEST_BF16: return "BF16";
    case ATTEST_F64: return "F64";
    case ATTEST_I32: return "I32";
    case ATTEST_I64: return "I64";
    case ATTEST_BOOL: return "BOOL";
    case ATTEST_F8E4M3: return "F8_E4M3";
    case ATTEST_F8E5M2: return "F8_E5M2";
    default: return nullptr;
  }
}

/// Elements in the order of the dims; those of a dense tensor lie so already.
void write_elements(std::ofstream& out, const Tensor& tensor) {
  const auto size = std::streamsize(dtype_bytes(tensor.spec.dtype));
  const auto* from = static_cast<const char*>(tensor.data);
  if (is_dense(tensor.spec)) {
    out.write(from, element_count(tensor.spec) * size);
    return;
  }
  for (int64_t i = 0, count = element_count(tensor.spec); i < count; ++i)
    out.write(from + row_offset(tensor.spec, tensor.spec.rank, i) * size, size);
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors) {
  std::ranges::stable_sort(tensors, std::greater(), [](const NamedTensor& named) {
    return dtype_bytes(named.tensor.spec.dtype);
  });
  nlohmann::json header;
  int64_t end = 0;
  for (const NamedTensor& named : tensors) {
    const TensorSpec& spec = named.tensor.spec;
    const char* type = type_of(spec.dtype);
    if (!type)
      throw Error(fmt::format("{}: {}: safetensors have no {}", path.string(), named.name,
                              dtype_name(spec.dtype)));
    const int64_t begin = end;
    end += element_count(spec) * int64_t(dtype_bytes(spec.dtype));
    header[named.name] = {{"dtype", type}, {"shape", dims(spec)}, {"data_offsets", {begin, end}}};
    if (end > kLargest_bytes)
      throw Error(fmt::format("{}: the tensors take more than {} bytes, which would not be read",
                              path.string(), kLargest_bytes));
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t size = text.size();
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&size), sizeof(size));
  out << text;
  for (const NamedTensor& named : tensors) write_elements(out, named.tensor);
  out.close();
  if (!out) throw Error(fmt::format("{}: cannot be written", path.string()));
}

}  // namespace attest::core
