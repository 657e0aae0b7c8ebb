#include "core/vectors/formats/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/problem/hint.hpp"
#include "core/problem/strict_json.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

struct SafetensorsType {
  std::string_view name;
  DType dtype;
  int64_t bytes;
};
constexpr SafetensorsType kSafetensorsTypes[] = {
    {"F32", ATTEST_F32, 4},   {"F16", ATTEST_F16, 2},        {"BF16", ATTEST_BF16, 2},
    {"F64", ATTEST_F64, 8},   {"I32", ATTEST_I32, 4},        {"I64", ATTEST_I64, 8},
    {"BOOL", ATTEST_BOOL, 1}, {"U8", ATTEST_NONE, 1},        {"I8", ATTEST_NONE, 1},
    {"U16", ATTEST_NONE, 2},  {"F8_E4M3", ATTEST_F8E4M3, 1}, {"F8_E5M2", ATTEST_F8E5M2, 1},
    {"I16", ATTEST_NONE, 2},  {"U32", ATTEST_NONE, 4},       {"U64", ATTEST_NONE, 8},
};
constexpr int64_t kMostSafetensorsDims = 8;

struct Entry {
  FileTensor tensor;
  uint64_t begin = 0, end = 0;
};

/// A list of whole numbers of 0 and up, at most `most` of them.
std::vector<int64_t> whole_numbers(const json& value, size_t most, const std::string& where) {
  std::vector<int64_t> numbers;
  if (!value.is_array() || value.size() > most)
    throw Error(fmt::format("{}: must be a list of at most {} numbers", where, most));
  for (const json& item : value) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > (uint64_t{1} << 47))
      throw Error(fmt::format("{}: must hold whole numbers from 0 to 2^47", where));
    numbers.push_back(item.get<int64_t>());
  }
  return numbers;
}

Entry parse_entry(const std::string& name, const json& value, const std::string& where) {
  Entry entry;
  entry.tensor.name = name;
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets"))
    throw Error(where + ": must have the keys dtype, shape and data_offsets, and no others");
  if (!value["dtype"].is_string()) throw Error(where + ": dtype: must be a string");
  entry.tensor.type = value["dtype"].get<std::string>();
  const auto type =
      std::ranges::find(kSafetensorsTypes, entry.tensor.type,
                        [](const SafetensorsType& known) { return std::string(known.name); });
  if (type == std::end(kSafetensorsTypes))
    throw Error(fmt::format("{}: dtype {} is not known", where, in_quotes(entry.tensor.type)));
  entry.tensor.dtype = type->dtype;
  entry.tensor.dims = whole_numbers(value["shape"], kMostSafetensorsDims, where + ": shape");
  const std::vector<int64_t> offsets =
      whole_numbers(value["data_offsets"], 2, where + ": data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    throw Error(where + ": data_offsets: must be two numbers, begin and end");
  entry.begin = uint64_t(offsets[0]);
  entry.end = uint64_t(offsets[1]);
  const auto bytes = dense_bytes(entry.tensor.dims, type->bytes);
  if (!bytes || uint64_t(*bytes) != entry.end - entry.begin)
    throw Error(fmt::format("{}: data_offsets: {} bytes where {} {} take {}", where,
                            entry.end - entry.begin, print_dims(entry.tensor.dims),
                            entry.tensor.type,
                            bytes ? fmt::format("{}", *bytes) : "more than memory can address"));
  return entry;
}

}  // namespace

std::vector<FileTensor> parse_safetensors(std::span<const std::byte> bytes,
                                          std::string_view file_name) {
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes))
    throw Error(
        fmt::format("{}: {} bytes, too short for a safetensors file", file_name, bytes.size()));
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  if (header_bytes > bytes.size() - sizeof(header_bytes))
    throw Error(fmt::format("{}: the header is said to have {} bytes, {} are left in the file",
                            file_name, header_bytes, bytes.size() - sizeof(header_bytes)));
  const auto data = bytes.subspan(sizeof(header_bytes) + size_t(header_bytes));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof(header_bytes),
                              size_t(header_bytes));
  const json header = parse_strict_json(text, fmt::format("{}: header", file_name));
  if (!header.is_object()) throw Error(fmt::format("{}: header: must be an object", file_name));
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items())
    if (name != "__metadata__")
      entries.push_back(
          parse_entry(name, value, fmt::format("{}: tensor {}", file_name, in_quotes(name))));
  std::ranges::sort(entries, {},
                    [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at)
      throw Error(
          fmt::format("{}: tensor {}: data_offsets: begins at byte {} where {} is right: tensors "
                      "neither overlap nor leave holes",
                      file_name, in_quotes(entry.tensor.name), entry.begin, at));
    at = entry.end;
  }
  if (at != data.size())
    throw Error(fmt::format("{}: the tensors take {} bytes, the file has {} after its header",
                            file_name, at, data.size()));
  std::vector<FileTensor> tensors;
  for (Entry& entry : entries) {
    const auto own = data.subspan(size_t(entry.begin), size_t(entry.end - entry.begin));
    entry.tensor.bytes.assign(own.begin(), own.end());
    tensors.push_back(std::move(entry.tensor));
  }
  return tensors;
}

}  // namespace attest::core
