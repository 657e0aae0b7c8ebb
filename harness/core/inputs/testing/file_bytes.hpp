// For the tests of the parsers: files put together byte by byte, and the one line that a parser
// refuses them with.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/tensor/error.hpp"

namespace attest::core {

inline std::span<const std::byte> as_file(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// The bytes of a value, reversed for a big-endian file.
template <class T>
std::string raw(T value, bool big_endian = false) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  if (big_endian) std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

/// What `call` throws as an Error, checked to be one line; "" where it throws none.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string message = error.what();
    return message.find('\n') == std::string::npos ? message : "more than one line: " + message;
  }
  return "";
}

}  // namespace attest::core
