// Reads files and the numbers in them. The parsers of points and images share this.
#pragma once
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/error.hpp"

namespace attest::core {

static_assert(std::endian::native == std::endian::little,
              "the parsers take the machine to be little-endian");

/// The whole file. Throws Error if it is missing, not a regular file, unreadable, empty, or larger
/// than 2 GiB.
std::vector<std::byte> read_bytes(const std::filesystem::path& path);

/// The scalar types of PCD and PLY.
enum class Scalar : uint8_t { kI8, kU8, kI16, kU16, kI32, kU32, kI64, kU64, kF32, kF64 };

constexpr size_t scalar_bytes(Scalar type) {
  constexpr size_t kBytes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
  return kBytes[size_t(type)];
}

/// The T at the unaligned address `from`, with its bytes reversed if the file is big-endian.
template <class T>
T load_scalar(const std::byte* from, bool big_endian) {
  std::byte bytes[sizeof(T)];
  for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = from[big_endian ? sizeof(T) - 1 - i : i];
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

/// A scalar of the given type as float64 (rounded for 64-bit integers beyond 2^53).
double load_scalar(const std::byte* from, Scalar type, bool big_endian = false);

/// The number that `text` spells; nothing if it is not one number. "nan" and "inf" are numbers.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The extension in lower case: ".png" of "a.PNG".
std::string lower_extension(const std::filesystem::path& path);

/// Removes the next word (characters without blanks) from the front of `line` and returns it; empty
/// at the end of the line.
std::string_view next_word(std::string_view& line);

/// `text` as a message may quote it: at most 40 characters, with '?' for those that are not
/// printable ASCII.
std::string shown(std::string_view text);

/// Walks bytes line by line; a line ends with \n or \r\n.
class Lines {
 public:
  explicit Lines(std::span<const std::byte> bytes);
  /// The next line without its end, or nothing after the last.
  std::optional<std::string_view> next();
  size_t offset() const { return offset_; }  ///< the offset at which the next line begins
  size_t number() const { return number_; }  ///< the number of the last line; the first is 1

 private:
  std::string_view text_;
  size_t offset_ = 0, number_ = 0;
};

}  // namespace attest::core
