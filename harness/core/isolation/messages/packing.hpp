// pack() writes a struct into bytes, and unpack() reads it again, by the `walk` of tensor/walk.hpp.
// The bytes are messages between two processes of one build.
//
// The bytes hold the values in the order of the walk, without keys. A number is copied as it lies
// in memory. A string or a vector begins with its length. An optional begins with whether it has a
// value. A variant begins with the index of its struct. Lengths and indices are uint64_t. Types of
// kPacksAsBytes are copied as they lie in memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/tensor/walk.hpp"

namespace attest::core {

/// Whether values of a type are packed as they lie in memory. Numbers are. To be specialised for
/// structs without pointers that are trivially copyable.
template <class T>
inline constexpr bool kPacksAsBytes = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

/// Appends fields to bytes.
class Packer {
 public:
  static constexpr bool kReads = false;
  explicit Packer(std::vector<std::byte>& bytes) : bytes_(bytes) {}

  template <class T>
  void operator()(const char* /*key*/, T& field) {
    put(field);
  }
  template <class T>
  void operator()(const char* /*key*/, LaterField<T> field) {
    put(field.value);
  }

 private:
  void put_bytes(const void* from, size_t size) {
    const auto* const begin = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }
  void put_length(size_t length) { put_bytes(&length, sizeof(length)); }

  template <class T>
  void put(T& value) {
    using walking::kIsA;
    if constexpr (kPacksAsBytes<T>) {
      static_assert(std::is_trivially_copyable_v<T>);
      put_bytes(&value, sizeof(T));
    } else if constexpr (std::is_same_v<T, bool>) {
      put_bytes(&value, 1);
    } else if constexpr (std::is_same_v<T, std::string>) {
      put_length(value.size());
      put_bytes(value.data(), value.size());
    } else if constexpr (kIsA<T, std::vector>) {
      put_length(value.size());
      if constexpr (kPacksAsBytes<typename T::value_type>) {
        put_bytes(value.data(), value.size() * sizeof(typename T::value_type));
      } else {
        for (auto& element : value) put(element);
      }
    } else if constexpr (kIsA<T, std::optional>) {
      bool has_value = value.has_value();
      put(has_value);
      if (has_value) put(*value);
    } else if constexpr (kIsA<T, std::variant>) {
      put_length(value.index());
      std::visit([this](auto& held) { put(held); }, value);
    } else {
      walk(value, *this);
    }
  }

  std::vector<std::byte>& bytes_;
};

/// Takes fields from bytes. Throws Error, which names the key, if too few bytes are left, or if a
/// length, an index or a bool is impossible.
class Unpacker {
 public:
  static constexpr bool kReads = true;
  explicit Unpacker(std::span<const std::byte> bytes) : left_(bytes) {}

  template <class T>
  void operator()(const char* key, T& field) {
    take(key, field);
  }
  template <class T>
  void operator()(const char* key, LaterField<T> field) {
    take(key, field.value);
  }
  /// Throws Error if bytes are left.
  void finish() const {
    if (!left_.empty()) throw Error("bytes are left over behind the last key");
  }

 private:
  void take_bytes(const char* key, void* to, size_t size) {
    if (size > left_.size()) walking::throw_wrong(key, "has too few bytes");
    if (size > 0) std::memcpy(to, left_.data(), size);
    left_ = left_.subspan(size);
  }
  // The length of a list whose elements have at least `element_bytes` bytes each.
  size_t take_length(const char* key, size_t element_bytes) {
    size_t length = 0;
    take_bytes(key, &length, sizeof(length));
    if (length > left_.size() / element_bytes) walking::throw_wrong(key, "has too few bytes");
    return length;
  }

  template <class T>
  void take(const char* key, T& value) {
    using walking::kIsA;
    if constexpr (kPacksAsBytes<T>) {
      static_assert(std::is_trivially_copyable_v<T>);
      take_bytes(key, &value, sizeof(T));
    } else if constexpr (std::is_same_v<T, bool>) {
      uint8_t byte = 0;
      take_bytes(key, &byte, 1);
      if (byte > 1) walking::throw_wrong(key, "is neither true nor false");
      value = byte == 1;
    } else if constexpr (std::is_same_v<T, std::string>) {
      value.resize(take_length(key, 1));
      take_bytes(key, value.data(), value.size());
    } else if constexpr (kIsA<T, std::vector>) {
      take_vector(key, value);
    } else if constexpr (kIsA<T, std::optional>) {
      bool has_value = false;
      take(key, has_value);
      value.reset();
      if (has_value) take(key, value.emplace());
    } else if constexpr (kIsA<T, std::variant>) {
      take_variant(key, value, std::make_index_sequence<std::variant_size_v<T>>());
    } else {
      walk(value, *this);
    }
  }

  template <class T>
  void take_vector(const char* key, std::vector<T>& values) {
    if constexpr (kPacksAsBytes<T>) {
      values.resize(take_length(key, sizeof(T)));
      take_bytes(key, values.data(), values.size() * sizeof(T));
    } else {
      values.clear();
      for (size_t n = take_length(key, 1); n > 0; --n) take(key, values.emplace_back());
    }
  }

  template <class Variant, size_t... indices>
  void take_variant(const char* key, Variant& value, std::index_sequence<indices...>) {
    size_t index = 0;
    take_bytes(key, &index, sizeof(index));
    const bool known =
        ((index == indices && (take(key, value.template emplace<indices>()), true)) || ...);
    if (!known) walking::throw_wrong(key, "is not one of its kinds");
  }

  std::span<const std::byte> left_;
};

/// Returns the fields that `walk` shows of a struct, as bytes.
template <class T>
std::vector<std::byte> pack(T value) {
  std::vector<std::byte> bytes;
  walk(value, Packer(bytes));
  return bytes;
}

/// Returns the struct that was packed. Throws Error if the bytes are not those of a packed T.
template <class T>
T unpack(std::span<const std::byte> bytes) {
  T value;
  Unpacker unpacker(bytes);
  walk(value, unpacker);
  unpacker.finish();
  return value;
}

}  // namespace attest::core
