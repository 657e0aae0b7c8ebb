// The header's grammar is that of numpy.lib.format: exactly the keys descr, fortran_order and
// shape, in any order.
#include "core/vectors/formats/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/inputs/formats/bytes.hpp"
#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

struct NpyType {
  std::string_view descr;
  DType dtype;
  int64_t bytes;
};
constexpr NpyType kNpyTypes[] = {
    {"<f4", ATTEST_F32, 4},  {"<f2", ATTEST_F16, 2},  {"<f8", ATTEST_F64, 8},
    {"<i4", ATTEST_I32, 4},  {"<i8", ATTEST_I64, 8},  {"|b1", ATTEST_BOOL, 1},
    {"|u1", ATTEST_NONE, 1}, {"|i1", ATTEST_NONE, 1}, {"<u2", ATTEST_NONE, 2},
    {"<i2", ATTEST_NONE, 2}, {"<u4", ATTEST_NONE, 4}, {"<u8", ATTEST_NONE, 8},
};
constexpr size_t kMostNpyDims = 8;

/// Reads the dict from left to right; every step either succeeds or throws.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view file_name)
      : text_(text), file_name_(file_name) {}

  struct Header {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<int64_t>> shape;
  };

  Header read() {
    Header header;
    demand('{');
    while (!accept('}')) {
      const std::string key = quoted("a key");
      demand(':');
      if (key == "descr" && !header.descr)
        header.descr = descr();
      else if (key == "fortran_order" && !header.fortran_order)
        header.fortran_order = boolean();
      else if (key == "shape" && !header.shape)
        header.shape = shape();
      else
        fail(fmt::format("key {} is not known or comes twice", in_quotes(key)));
      if (!accept(',')) {
        demand('}');
        break;
      }
    }
    skip_blanks();
    if (!text_.empty()) fail("something follows the dict");
    if (!header.descr || !header.fortran_order || !header.shape)
      fail("descr, fortran_order or shape is missing");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("{}: header: {}", file_name_, what));
  }
  void skip_blanks() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n'))
      text_.remove_prefix(1);
  }
  bool accept(char wanted) {
    skip_blanks();
    if (text_.empty() || text_.front() != wanted) return false;
    text_.remove_prefix(1);
    return true;
  }
  void demand(char wanted) {
    if (!accept(wanted)) fail(fmt::format("'{}' is missing", wanted));
  }
  std::string quoted(const char* what) {
    skip_blanks();
    const char quote = text_.empty() ? '\0' : text_.front();
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, 1) : text_.npos;
    if (end == text_.npos) fail(fmt::format("{} in quotes is missing", what));
    const std::string inside(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return inside;
  }
  std::string descr() {
    skip_blanks();
    if (text_.starts_with('[')) fail("descr: records are not read, only plain numbers");
    return quoted("descr:");
  }
  bool boolean() {
    skip_blanks();
    for (const auto& [word, value] :
         {std::pair(std::string_view("True"), true), std::pair(std::string_view("False"), false)})
      if (text_.starts_with(word)) {
        text_.remove_prefix(word.size());
        return value;
      }
    fail("fortran_order: must be True or False");
  }
  std::vector<int64_t> shape() {
    std::vector<int64_t> dims;
    demand('(');
    while (!accept(')')) {
      skip_blanks();
      const size_t end = std::min(text_.find_first_not_of("0123456789"), text_.size());
      const auto dim = parse_number<int64_t>(text_.substr(0, end));
      if (!dim || dims.size() == kMostNpyDims)
        fail(fmt::format("shape: must be at most {} whole numbers", kMostNpyDims));
      text_.remove_prefix(end);
      dims.push_back(*dim);
      if (!accept(',')) {
        demand(')');
        break;
      }
    }
    return dims;
  }

  std::string_view text_, file_name_;
};

const NpyType& type_of(const std::string& descr, std::string_view file_name) {
  const auto type = std::ranges::find(
      kNpyTypes, descr, [](const NpyType& known) { return std::string(known.descr); });
  if (type != std::end(kNpyTypes)) return *type;
  const char* why =
      descr.starts_with('>')
          ? "big-endian arrays are not read: save array.astype(array.dtype.newbyteorder('<'))"
      : descr.find('O') != descr.npos ? "arrays of objects are not read"
                                      : "is not known";
  throw Error(fmt::format("{}: header: descr: {} {}", file_name, in_quotes(descr), why));
}

}  // namespace

FileTensor parse_npy(std::span<const std::byte> bytes, std::string_view file_name) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < 10 || !text.starts_with(kMagic))
    throw Error(fmt::format("{}: not a .npy file: it does not begin with \\x93NUMPY", file_name));
  const int major = uint8_t(text[6]);
  if (major < 1 || major > 3)
    throw Error(fmt::format("{}: version {} of the format; 1 to 3 are read", file_name, major));
  const size_t preamble = major == 1 ? 10 : 12;
  if (text.size() < preamble)
    throw Error(fmt::format("{}: ends inside its first {} bytes", file_name, preamble));
  const size_t header_bytes = major == 1 ? load_scalar<uint16_t>(bytes.data() + 8, false)
                                         : load_scalar<uint32_t>(bytes.data() + 8, false);
  if (header_bytes > text.size() - preamble)
    throw Error(fmt::format("{}: the header is said to have {} bytes, {} are left in the file",
                            file_name, header_bytes, text.size() - preamble));
  const HeaderReader::Header header =
      HeaderReader(text.substr(preamble, header_bytes), file_name).read();
  const NpyType& type = type_of(*header.descr, file_name);
  if (*header.fortran_order && header.shape->size() > 1)
    throw Error(
        fmt::format("{}: header: fortran_order: True; arrays must lie in C order: save "
                    "numpy.ascontiguousarray(array)",
                    file_name));
  const auto data = bytes.subspan(preamble + header_bytes);
  const auto wanted = dense_bytes(*header.shape, type.bytes);
  if (!wanted || size_t(*wanted) != data.size())
    throw Error(
        fmt::format("{}: header: shape: {} of {} takes {} bytes, the file has {} after its header",
                    file_name, print_dims(*header.shape), type.descr,
                    wanted ? fmt::format("{}", *wanted) : "more than addressable", data.size()));
  return {.name = "",
          .dtype = type.dtype,
          .type = *header.descr,
          .dims = *header.shape,
          .bytes = {data.begin(), data.end()}};
}

}  // namespace attest::core
