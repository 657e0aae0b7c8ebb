#include "core/inputs/formats/bytes.hpp"

#include <fmt/format.h>

#include <cctype>
#include <fstream>

namespace attest::core {

std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  constexpr uintmax_t kLargest = uintmax_t{2} << 30;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw Error(fmt::format("{}: no such file", path.string()));
  if (!std::filesystem::is_regular_file(status))
    throw Error(fmt::format("{}: not a file", path.string()));
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw Error(fmt::format("{}: {}", path.string(), error.message()));
  if (size == 0) throw Error(fmt::format("{}: the file is empty", path.string()));
  if (size > kLargest)
    throw Error(fmt::format("{}: {} bytes, at most {} are read", path.string(), size, kLargest));
  std::vector<std::byte> bytes(size);
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), std::streamsize(size)))
    throw Error(fmt::format("{}: cannot be read", path.string()));
  return bytes;
}

double load_scalar(const std::byte* from, Scalar type, bool big_endian) {
  switch (type) {
    case Scalar::kI8: return load_scalar<int8_t>(from, big_endian);
    case Scalar::kU8: return load_scalar<uint8_t>(from, big_endian);
    case Scalar::kI16: return load_scalar<int16_t>(from, big_endian);
    case Scalar::kU16: return load_scalar<uint16_t>(from, big_endian);
    case Scalar::kI32: return load_scalar<int32_t>(from, big_endian);
    case Scalar::kU32: return load_scalar<uint32_t>(from, big_endian);
    case Scalar::kI64: return double(load_scalar<int64_t>(from, big_endian));
    case Scalar::kU64: return double(load_scalar<uint64_t>(from, big_endian));
    case Scalar::kF32: return double(load_scalar<float>(from, big_endian));
    case Scalar::kF64: return load_scalar<double>(from, big_endian);
  }
  return 0;
}

std::string lower_extension(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = char(std::tolower(static_cast<unsigned char>(c)));
  return extension;
}

std::string_view next_word(std::string_view& line) {
  constexpr std::string_view kBlanks = " \t\r\v\f";
  const size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return line = {};
  const size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

std::string shown(std::string_view text) {
  std::string copy(text.substr(0, 40));
  for (char& c : copy)
    if (c < ' ' || c > '~') c = '?';
  return copy;
}

Lines::Lines(std::span<const std::byte> bytes)
    : text_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}

std::optional<std::string_view> Lines::next() {
  if (offset_ >= text_.size()) return std::nullopt;
  const size_t end = std::min(text_.find('\n', offset_), text_.size());
  std::string_view line = text_.substr(offset_, end - offset_);
  offset_ = std::min(end + 1, text_.size());
  ++number_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace attest::core
