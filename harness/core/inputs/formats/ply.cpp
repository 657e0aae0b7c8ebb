// PLY 1.0, ascii and binary of both byte orders.
#include <fmt/format.h>

#include <array>
#include <string>

#include "core/inputs/formats/bytes.hpp"
#include "core/inputs/formats/points.hpp"

namespace attest::core {
namespace {

enum class Form { kNone, kAscii, kLittle, kBig };

struct Property {
  std::string name;
  Scalar type = Scalar::kF32;
  std::optional<Scalar> count_type;  // of a list's length; absent for a scalar
};

struct Element {
  std::string name;
  uint64_t count = 0;
  std::vector<Property> properties;

  bool has_lists() const {
    for (const Property& property : properties)
      if (property.count_type) return true;
    return false;
  }
  /// Bytes of one element in binary form, lists being empty.
  size_t least_bytes() const {
    size_t sum = 0;
    for (const Property& property : properties)
      sum += scalar_bytes(property.count_type.value_or(property.type));
    return sum;
  }
};

struct PlyHeader {
  Form form = Form::kNone;
  std::vector<Element> elements;
};

/// Which of an element's properties are wanted: x, y, z, intensity; -1 where absent.
using PlyColumns = std::array<int, 4>;

[[noreturn]] void fail_ply(std::string_view name, const std::string& where,
                           const std::string& what) {
  throw Error(fmt::format("{}: {}: {}", name, where, what));
}

Scalar scalar_named(std::string_view word, std::string_view name, size_t line) {
  struct Named {
    std::string_view name;
    Scalar type;
  };
  constexpr Named kNames[] = {
      {"char", Scalar::kI8},    {"int8", Scalar::kI8},     {"uchar", Scalar::kU8},
      {"uint8", Scalar::kU8},   {"short", Scalar::kI16},   {"int16", Scalar::kI16},
      {"ushort", Scalar::kU16}, {"uint16", Scalar::kU16},  {"int", Scalar::kI32},
      {"int32", Scalar::kI32},  {"uint", Scalar::kU32},    {"uint32", Scalar::kU32},
      {"float", Scalar::kF32},  {"float32", Scalar::kF32}, {"double", Scalar::kF64},
      {"float64", Scalar::kF64}};
  for (const Named& named : kNames)
    if (named.name == word) return named.type;
  fail_ply(name, fmt::format("line {}: property", line),
           fmt::format("'{}' is no PLY type such as float, double, uchar or int", shown(word)));
}

Form form_named(std::string_view word, std::string_view name) {
  if (word == "ascii") return Form::kAscii;
  if (word == "binary_little_endian") return Form::kLittle;
  if (word == "binary_big_endian") return Form::kBig;
  fail_ply(
      name, "format",
      fmt::format("'{}', it is ascii, binary_little_endian or binary_big_endian", shown(word)));
}

void read_property(PlyHeader& header, std::string_view line, std::string_view name, size_t number) {
  if (header.elements.empty())
    fail_ply(name, fmt::format("line {}: property", number), "comes before any element");
  Property property;
  std::string_view type = next_word(line);
  if (type == "list") {
    property.count_type = scalar_named(next_word(line), name, number);
    if (*property.count_type >= Scalar::kF32)
      fail_ply(name, fmt::format("line {}: property list", number),
               "the length's type must be an integer");
    type = next_word(line);
  }
  property.type = scalar_named(type, name, number);
  property.name = next_word(line);
  if (property.name.empty())
    fail_ply(name, fmt::format("line {}: property", number), "has no name");
  header.elements.back().properties.push_back(std::move(property));
}

void read_element(PlyHeader& header, std::string_view line, std::string_view name, size_t number) {
  Element element;
  element.name = next_word(line);
  const std::string_view word = next_word(line);
  const auto count = parse_number<uint64_t>(word);
  if (!count)
    fail_ply(name, fmt::format("line {}: element {}", number, shown(element.name)),
             fmt::format("'{}' is not a whole number", shown(word)));
  element.count = *count;
  header.elements.push_back(std::move(element));
}

PlyHeader read_ply_header(Lines& lines, std::string_view name) {
  if (const auto first = lines.next(); !first || *first != "ply")
    throw Error(fmt::format("{}: not a PLY file: the first line must be 'ply'", name));
  PlyHeader header;
  while (const auto text = lines.next()) {
    std::string_view line = *text;
    const std::string_view key = next_word(line);
    if (key == "end_header") {
      if (header.form == Form::kNone) fail_ply(name, "format", "missing from the header");
      return header;
    }
    if (key.empty() || key == "comment" || key == "obj_info") continue;
    if (key == "format")
      header.form = form_named(next_word(line), name);
    else if (key == "element")
      read_element(header, line, name, lines.number());
    else if (key == "property")
      read_property(header, line, name, lines.number());
    else
      fail_ply(name, fmt::format("line {}", lines.number()),
               fmt::format("'{}' is no PLY header line", shown(key)));
  }
  fail_ply(name, "end_header", "missing: the file ends within its header");
}

PlyColumns find_ply_columns(const Element& element, std::string_view name) {
  PlyColumns columns = {-1, -1, -1, -1};
  constexpr std::string_view kNames[] = {"x", "y", "z", "intensity", "reflectivity"};
  for (size_t p = 0; p < element.properties.size(); ++p)
    for (size_t n = 0; n < std::size(kNames); ++n)
      if (element.properties[p].name == kNames[n] && !element.properties[p].count_type) {
        int& column = columns[std::min<size_t>(n, 3)];
        if (column < 0) column = int(p);
      }
  for (int axis = 0; axis < 3; ++axis)
    if (columns[axis] < 0)
      fail_ply(name, "element vertex", fmt::format("no property '{}'", kNames[axis]));
  return columns;
}

[[noreturn]] void fail_truncated(const Element& element, uint64_t held, std::string_view name) {
  fail_ply(
      name, "element " + shown(element.name),
      fmt::format("the header promises {}, the file holds {}: truncated?", element.count, held));
}

/// Values of one element, one after the other.
class BinaryBody {
 public:
  BinaryBody(std::span<const std::byte> bytes, bool big_endian, std::string_view name)
      : bytes_(bytes), big_endian_(big_endian), name_(name) {}

  /// Error where the file cannot hold the elements, before anything is allocated for them.
  void expect(const Element& element) const {
    const size_t least = element.least_bytes();
    if (least != 0 && element.count > bytes_.size() / least)
      fail_truncated(element, bytes_.size() / least, name_);
  }
  void skip(const Element& element) {
    expect(element);
    if (!element.has_lists())
      return void(bytes_ = bytes_.subspan(element.count * element.least_bytes()));
    for (uint64_t i = 0; i < element.count; ++i) read(element, i, {});
  }
  /// Fills values[p] for the scalar properties p < values.size().
  void read(const Element& element, uint64_t index, std::span<double> values) {
    for (size_t p = 0; p < element.properties.size(); ++p) {
      const Property& property = element.properties[p];
      const double first = take(element, index, property.count_type.value_or(property.type));
      if (!property.count_type) {
        if (p < values.size()) values[p] = first;
        continue;
      }
      const size_t bytes = scalar_bytes(property.type);
      const size_t most = bytes_.size() / bytes;
      if (first < 0 || first > double(most)) fail_truncated(element, index, name_);
      bytes_ = bytes_.subspan(size_t(first) * bytes);
    }
  }

 private:
  double take(const Element& element, uint64_t index, Scalar type) {
    if (bytes_.size() < scalar_bytes(type)) fail_truncated(element, index, name_);
    const double value = load_scalar(bytes_.data(), type, big_endian_);
    bytes_ = bytes_.subspan(scalar_bytes(type));
    return value;
  }

  std::span<const std::byte> bytes_;
  bool big_endian_;
  std::string_view name_;
};

/// One line an element.
class AsciiBody {
 public:
  AsciiBody(std::span<const std::byte> bytes, Lines lines, std::string_view name)
      : size_(bytes.size()), lines_(lines), name_(name) {}

  void expect(const Element& element) const {
    const size_t least = 2 * element.properties.size();  // a value and its blank
    if (least != 0 && element.count > (size_ + 1) / least)
      fail_truncated(element, (size_ + 1) / least, name_);
  }
  void skip(const Element& element) {
    expect(element);
    if (element.properties.empty()) return;
    for (uint64_t i = 0; i < element.count; ++i) next(element, i);
  }
  void read(const Element& element, uint64_t index, std::span<double> values) {
    std::string_view line = next(element, index);
    for (size_t p = 0; p < element.properties.size(); ++p) {
      const double first = take(element.properties[p], line);
      if (!element.properties[p].count_type)
        values[p] = first;
      else
        for (double i = 0; i < first && !line.empty(); ++i) next_word(line);
    }
  }

 private:
  std::string_view next(const Element& element, uint64_t index) {
    auto line = lines_.next();
    while (line && line->find_first_not_of(" \t") == std::string_view::npos) line = lines_.next();
    if (!line) fail_truncated(element, index, name_);
    return *line;
  }
  double take(const Property& property, std::string_view& line) {
    const std::string_view word = next_word(line);
    const auto value = parse_number<double>(word);
    if (!value)
      fail_ply(
          name_, fmt::format("line {}", lines_.number()),
          fmt::format("'{}' for property '{}' is not a number", shown(word), shown(property.name)));
    return *value;
  }

  size_t size_;
  Lines lines_;
  std::string_view name_;
};

template <class Body>
PointCloud read_vertices(const PlyHeader& header, Body body, std::string_view name) {
  for (const Element& element : header.elements) {
    if (element.name != "vertex") {
      body.skip(element);
      continue;
    }
    const PlyColumns columns = find_ply_columns(element, name);
    if (element.count == 0) fail_ply(name, "element vertex", "0 points, at least 1 is needed");
    body.expect(element);
    PointCloud cloud;
    std::vector<double> values(element.properties.size());
    for (uint64_t i = 0; i < element.count; ++i) {
      body.read(element, i, values);
      const double position[3] = {values[columns[0]], values[columns[1]], values[columns[2]]};
      points_detail::add_point(cloud, position, columns[3] < 0 ? 0 : values[columns[3]],
                               columns[3] >= 0);
    }
    return points_detail::checked(std::move(cloud), name);
  }
  fail_ply(name, "element vertex", "missing from the header");
}

}  // namespace

PointCloud parse_ply(std::span<const std::byte> bytes, std::string_view name) {
  if (bytes.empty()) throw Error(fmt::format("{}: the file is empty", name));
  Lines lines(bytes);
  const PlyHeader header = read_ply_header(lines, name);
  const auto body = bytes.subspan(lines.offset());
  if (header.form == Form::kAscii) return read_vertices(header, AsciiBody(body, lines, name), name);
  return read_vertices(header, BinaryBody(body, header.form == Form::kBig, name), name);
}

}  // namespace attest::core
