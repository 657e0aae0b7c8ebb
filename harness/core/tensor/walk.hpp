// Structs to JSON and back, by one description that serves both directions: a function `walk`
// beside the struct shows each field and its key to a visitor.
//
//   struct Point {
//     double x = 0;
//     std::optional<std::string> label;
//   };
//   template <class Visit>
//   void walk(Point& point, Visit&& visit) {
//     visit("x", point.x);
//     visit("label", point.label);
//   }
//
//   const nlohmann::json value = write_json(Point{.x = 1});  // {"x": 1.0}
//   const Point point = read_json<Point>(value);
//
// A field is a number, a string, a struct with a `walk`, or a vector, a map from strings or an
// optional of these. An optional without a value has no key. isolation/messages/packing.hpp has
// visitors of the same walks for messages between processes.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/tensor/error.hpp"

namespace attest::core {

/// Floats that JSON lacks are the strings "nan", "inf", "-inf".
nlohmann::json number(double value);
double number_from_json(const nlohmann::json& value);

/// A field that is always written, and keeps its value where what is read lacks it, since files of
/// older versions do: `visit("relations", LaterField{record.relations})`.
template <class T>
struct LaterField {
  T& value;
};
template <class T>
LaterField(T&) -> LaterField<T>;

namespace walking {

template <class T, template <class...> class Template>
inline constexpr bool kIsA = false;
template <template <class...> class Template, class... Arguments>
inline constexpr bool kIsA<Template<Arguments...>, Template> = true;

[[noreturn]] void throw_missing(const char* key);
[[noreturn]] void throw_wrong(const char* key, const char* why);

}  // namespace walking

/// Puts fields into a JSON object.
class JsonWriter {
 public:
  static constexpr bool kReads = false;
  explicit JsonWriter(nlohmann::json& object) : object_(object) {}

  template <class T>
  void operator()(const char* key, T& field) {
    object_[key] = written(field);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& field) {
    if (field) object_[key] = written(*field);
  }
  template <class T>
  void operator()(const char* key, LaterField<T> field) {
    (*this)(key, field.value);
  }

  template <class T>
  static nlohmann::json written(T& value) {
    using nlohmann::json;
    using walking::kIsA;
    if constexpr (std::is_floating_point_v<T>) {
      return number(value);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      return value;
    } else if constexpr (kIsA<T, std::vector>) {
      json list = json::array();
      for (auto& element : value) list.push_back(written(element));
      return list;
    } else if constexpr (kIsA<T, std::map>) {
      json object = json::object();
      for (auto& [key, element] : value) object[key] = written(element);
      return object;
    } else {
      json object = json::object();
      walk(value, JsonWriter(object));
      return object;
    }
  }

 private:
  nlohmann::json& object_;
};

/// Takes fields out of a JSON object. Throws Error: which key is missing or of the wrong type.
class JsonReader {
 public:
  static constexpr bool kReads = true;
  explicit JsonReader(const nlohmann::json& object) : object_(object) {}

  template <class T>
  void operator()(const char* key, T& field) {
    if (!has(key)) walking::throw_missing(key);
    take(key, field);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& field) {
    if (has(key)) take(key, field.emplace());
  }
  template <class T>
  void operator()(const char* key, LaterField<T> field) {
    if (has(key)) take(key, field.value);
  }

 private:
  bool has(const char* key) const { return object_.is_object() && object_.contains(key); }

  template <class T>
  void take(const char* key, T& field) {
    try {
      read(key, object_[key], field);
    } catch (const nlohmann::json::exception& error) {
      walking::throw_wrong(key, error.what());
    }
  }

  template <class T>
  static void read(const char* key, const nlohmann::json& from, T& value) {
    using walking::kIsA;
    if constexpr (std::is_floating_point_v<T>) {
      value = T(number_from_json(from));
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      value = from.get<T>();
    } else if constexpr (kIsA<T, std::vector>) {
      if (!from.is_array()) walking::throw_wrong(key, "is not a list");
      value.clear();
      for (const nlohmann::json& element : from) read(key, element, value.emplace_back());
    } else if constexpr (kIsA<T, std::map>) {
      if (!from.is_object()) walking::throw_wrong(key, "is not an object");
      value.clear();
      for (const auto& [name, element] : from.items()) read(key, element, value[name]);
    } else {
      if (!from.is_object()) walking::throw_wrong(key, "is not an object");
      walk(value, JsonReader(from));
    }
  }

  const nlohmann::json& object_;
};

/// What `walk` shows of a struct, as a JSON object.
template <class T>
nlohmann::json write_json(T value) {
  return JsonWriter::written(value);
}

/// The struct that a JSON object describes; keys that `walk` does not show are ignored. Throws
/// Error: which key is missing or of the wrong type.
template <class T>
T read_json(const nlohmann::json& object) {
  T value;
  walk(value, JsonReader(object));
  return value;
}

}  // namespace attest::core
