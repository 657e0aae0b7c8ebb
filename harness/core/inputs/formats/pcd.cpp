// PCD 0.7, all three data forms.
#include <fmt/format.h>
#if __has_include(<liblzf/lzf.h>)
#include <liblzf/lzf.h>
#else
#include <lzf.h>
#endif

#include <algorithm>
#include <string>

#include "core/inputs/formats/bytes.hpp"
#include "core/inputs/formats/points.hpp"

namespace attest::core {
namespace {

struct PcdField {
  std::string name;
  size_t bytes = 4, count = 1;
  char type = 'F';
  size_t offset = 0;  // bytes from the start of a point
  size_t word = 0;    // words from the start of an ascii line
};

struct PcdHeader {
  std::vector<PcdField> fields;
  std::optional<uint64_t> width, height, points;
  std::string data;
  size_t stride = 0;  // bytes of a point
  size_t words = 0;   // of an ascii line
};

[[noreturn]] void fail_pcd(std::string_view name, std::string_view key, const std::string& what) {
  throw Error(fmt::format("{}: {}: {}", name, key, what));
}

uint64_t whole_number(std::string_view word, std::string_view name, std::string_view key) {
  const auto value = parse_number<uint64_t>(word);
  if (!value) fail_pcd(name, key, fmt::format("'{}' is not a whole number", shown(word)));
  return *value;
}

/// One value a field, e.g. "SIZE 4 4 4"; `set` takes field and word.
template <class Set>
void read_per_field(PcdHeader& header, std::string_view line, std::string_view name,
                    std::string_view key, Set set) {
  size_t filled = 0;
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line), ++filled)
    if (filled < header.fields.size()) set(header.fields[filled], word);
  if (filled != header.fields.size())
    fail_pcd(
        name, key,
        fmt::format("{} values for {} FIELDS (FIELDS comes first)", filled, header.fields.size()));
}

void read_fields(PcdHeader& header, std::string_view line, std::string_view name) {
  constexpr size_t kMostFields = 1024;
  if (!header.fields.empty()) fail_pcd(name, "FIELDS", "given twice");
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    if (header.fields.size() == kMostFields)
      fail_pcd(name, "FIELDS", fmt::format("more than {}", kMostFields));
    header.fields.emplace_back().name = word;
  }
}

void read_line(PcdHeader& header, std::string_view line, std::string_view name) {
  const std::string_view key = next_word(line);
  if (key == "VERSION" || key == "VIEWPOINT") return;
  if (key == "FIELDS" || key == "COLUMNS") return read_fields(header, line, name);
  if (key == "SIZE")
    return read_per_field(header, line, name, key, [&](PcdField& field, std::string_view word) {
      field.bytes = whole_number(word, name, key);
      if (field.bytes != 1 && field.bytes != 2 && field.bytes != 4 && field.bytes != 8)
        fail_pcd(
            name, key,
            fmt::format("'{}' for field '{}', it is 1, 2, 4 or 8", shown(word), shown(field.name)));
    });
  if (key == "TYPE")
    return read_per_field(header, line, name, key, [&](PcdField& field, std::string_view word) {
      if (word != "F" && word != "I" && word != "U")
        fail_pcd(
            name, key,
            fmt::format("'{}' for field '{}', it is F, I or U", shown(word), shown(field.name)));
      field.type = word[0];
    });
  if (key == "COUNT")
    return read_per_field(header, line, name, key, [&](PcdField& field, std::string_view word) {
      constexpr uint64_t kMostCount = 1 << 20;
      field.count = whole_number(word, name, key);
      if (field.count < 1 || field.count > kMostCount)
        fail_pcd(name, key,
                 fmt::format("'{}' for field '{}', it is 1 to {}", shown(word), shown(field.name),
                             kMostCount));
    });
  const std::string_view value = next_word(line);
  if (key == "WIDTH")
    header.width = whole_number(value, name, key);
  else if (key == "HEIGHT")
    header.height = whole_number(value, name, key);
  else if (key == "POINTS")
    header.points = whole_number(value, name, key);
  else if (key == "DATA")
    header.data = value;
  else
    throw Error(
        fmt::format("{}: '{}' is no line of a PCD 0.7 header: not a PCD file?", name, shown(key)));
}

void settle(PcdHeader& header, std::string_view name) {
  if (header.fields.empty()) fail_pcd(name, "FIELDS", "missing from the header");
  for (PcdField& field : header.fields) {
    if (field.type == 'F' && field.bytes < 4)
      fail_pcd(
          name, "SIZE",
          fmt::format("{} for field '{}' of TYPE F, it is 4 or 8", field.bytes, shown(field.name)));
    field.offset = header.stride;
    field.word = header.words;
    header.stride += field.bytes * field.count;
    header.words += field.count;
  }
  if (header.width && header.height) {
    const uint64_t width = *header.width, height = *header.height;
    if (height != 0 && width > UINT64_MAX / height)
      fail_pcd(name, "WIDTH", fmt::format("{} x HEIGHT {} is beyond 64 bits", width, height));
    if (!header.points) header.points = width * height;
    if (*header.points != width * height)
      fail_pcd(name, "POINTS",
               fmt::format("{} where WIDTH {} x HEIGHT {} makes {}", *header.points, width, height,
                           width * height));
  }
  if (!header.points) fail_pcd(name, "POINTS", "missing from the header");
  if (*header.points == 0) fail_pcd(name, "POINTS", "0 points, at least 1 is needed");
}

/// Reads up to and with the DATA line.
PcdHeader read_pcd_header(Lines& lines, std::string_view name) {
  PcdHeader header;
  while (const auto line = lines.next()) {
    std::string_view rest = *line;
    const std::string_view key = next_word(rest);
    if (key.empty() || key.starts_with('#')) continue;
    read_line(header, *line, name);
    if (key != "DATA") continue;
    settle(header, name);
    return header;
  }
  fail_pcd(name, "DATA", "missing: the file ends within its PCD header");
}

const PcdField* find_field(const PcdHeader& header, std::initializer_list<std::string_view> names) {
  for (const std::string_view wanted : names)
    for (const PcdField& field : header.fields)
      if (field.name == wanted) return &field;
  return nullptr;
}

struct PcdColumns {
  const PcdField* axis[3];
  const PcdField* intensity;
};

PcdColumns find_pcd_columns(const PcdHeader& header, std::string_view name) {
  PcdColumns columns{};
  constexpr std::string_view kAxes[] = {"x", "y", "z"};
  for (int i = 0; i < 3; ++i) {
    columns.axis[i] = find_field(header, {kAxes[i]});
    if (!columns.axis[i]) fail_pcd(name, "FIELDS", fmt::format("no field '{}'", kAxes[i]));
  }
  columns.intensity = find_field(header, {"intensity", "reflectivity"});
  return columns;
}

Scalar scalar_of(const PcdField& field) {
  if (field.type == 'F') return field.bytes == 4 ? Scalar::kF32 : Scalar::kF64;
  const bool is_unsigned = field.type == 'U';
  switch (field.bytes) {
    case 1: return is_unsigned ? Scalar::kU8 : Scalar::kI8;
    case 2: return is_unsigned ? Scalar::kU16 : Scalar::kI16;
    case 4: return is_unsigned ? Scalar::kU32 : Scalar::kI32;
    default: return is_unsigned ? Scalar::kU64 : Scalar::kI64;
  }
}

/// `read(field, point)` gives a field's first value.
template <class Read>
PointCloud gather(const PcdHeader& header, const PcdColumns& columns, Read read) {
  PointCloud cloud;
  for (uint64_t point = 0; point < *header.points; ++point) {
    const double position[3] = {read(*columns.axis[0], point), read(*columns.axis[1], point),
                                read(*columns.axis[2], point)};
    points_detail::add_point(cloud, position,
                             columns.intensity ? read(*columns.intensity, point) : 0,
                             columns.intensity != nullptr);
  }
  return cloud;
}

PointCloud read_binary(const PcdHeader& header, const PcdColumns& columns,
                       std::span<const std::byte> body, std::string_view name) {
  if (*header.points > body.size() / header.stride)
    fail_pcd(name, "POINTS",
             fmt::format("the header promises {} points of {} bytes, the file holds {} bytes, {} "
                         "points: truncated?",
                         *header.points, header.stride, body.size(), body.size() / header.stride));
  return gather(header, columns, [&](const PcdField& field, uint64_t point) {
    return load_scalar(body.data() + point * header.stride + field.offset, scalar_of(field));
  });
}

/// Two sizes, then one LZF block; inside, all values of a field lie together.
PointCloud read_compressed(const PcdHeader& header, const PcdColumns& columns,
                           std::span<const std::byte> body, std::string_view name) {
  constexpr std::string_view kKey = "DATA binary_compressed";
  constexpr uint64_t kBestRatio = 88;  // of LZF: 264 bytes from a reference of 3
  if (body.size() < 8) fail_pcd(name, kKey, "the file ends before the two block sizes: truncated?");
  const uint64_t packed = load_scalar<uint32_t>(body.data(), false),
                 size = load_scalar<uint32_t>(body.data() + 4, false);
  if (packed > body.size() - 8)
    fail_pcd(name, kKey,
             fmt::format("a block of {} bytes is promised, the file holds {}: truncated?", packed,
                         body.size() - 8));
  if (size % header.stride != 0 || size / header.stride != *header.points)
    fail_pcd(name, kKey,
             fmt::format("the block unpacks to {} bytes, {} POINTS of {} bytes need another size",
                         size, *header.points, header.stride));
  if (size / kBestRatio > packed)
    fail_pcd(name, kKey, fmt::format("{} bytes cannot come from a block of {}", size, packed));
  std::vector<std::byte> unpacked(size);
  if (lzf_decompress(body.data() + 8, unsigned(packed), unpacked.data(), unsigned(size)) != size)
    fail_pcd(name, kKey,
             fmt::format("the LZF block is damaged: it does not unpack to {} bytes", size));
  return gather(header, columns, [&](const PcdField& field, uint64_t point) {
    return load_scalar(
        unpacked.data() + field.offset * *header.points + point * field.bytes * field.count,
        scalar_of(field));
  });
}

PointCloud read_ascii(const PcdHeader& header, const PcdColumns& columns, Lines& lines,
                      size_t body_bytes, std::string_view name) {
  if (*header.points >
      (body_bytes + 1) / (2 * header.words))  // a word takes two bytes, its blank included
    fail_pcd(name, "POINTS",
             fmt::format(
                 "the header promises {} points of {} values, the file holds {} bytes: truncated?",
                 *header.points, header.words, body_bytes));
  std::vector<std::string_view> words(header.words);
  const auto read_words = [&](uint64_t point) {
    auto line = lines.next();
    while (line && line->find_first_not_of(" \t") == std::string_view::npos) line = lines.next();
    if (!line)
      fail_pcd(name, "POINTS",
               fmt::format("the header promises {} points, the file holds {}: truncated?",
                           *header.points, point));
    for (std::string_view& word : words) word = next_word(*line);
    if (words.back().empty())
      fail_pcd(name, fmt::format("line {}", lines.number()),
               fmt::format("fewer than {} values", header.words));
  };
  uint64_t words_of = UINT64_MAX;
  return gather(header, columns, [&](const PcdField& field, uint64_t point) {
    if (words_of != point) read_words(words_of = point);
    const auto value = parse_number<double>(words[field.word]);
    if (!value)
      fail_pcd(name, fmt::format("line {}", lines.number()),
               fmt::format("'{}' for field '{}' is not a number", shown(words[field.word]),
                           shown(field.name)));
    return *value;
  });
}

}  // namespace

PointCloud parse_pcd(std::span<const std::byte> bytes, std::string_view name) {
  if (bytes.empty()) throw Error(fmt::format("{}: the file is empty", name));
  Lines lines(bytes);
  const PcdHeader header = read_pcd_header(lines, name);
  const PcdColumns columns = find_pcd_columns(header, name);
  const auto body = bytes.subspan(lines.offset());
  if (header.data == "ascii")
    return points_detail::checked(read_ascii(header, columns, lines, body.size(), name), name);
  if (header.data == "binary")
    return points_detail::checked(read_binary(header, columns, body, name), name);
  if (header.data == "binary_compressed")
    return points_detail::checked(read_compressed(header, columns, body, name), name);
  fail_pcd(name, "DATA",
           fmt::format("'{}', it is ascii, binary or binary_compressed", shown(header.data)));
}

}  // namespace attest::core
