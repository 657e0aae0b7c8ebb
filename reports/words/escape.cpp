#include "reports/words/escape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace attest::reports {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

struct Character {
  size_t bytes = 1;
  uint32_t code = 0;
  bool valid = false;
};

/// The character that begins at `at`. Not valid: a byte that begins none, one that is cut, one
/// written with too many bytes, or a surrogate.
Character character(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return uint32_t(uint8_t(text[at + i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {1, first, true};
  const size_t bytes = first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (bytes == 0 || at + bytes > text.size()) return {};
  uint32_t code = first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if (byte(i) >> 6 != 2) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[bytes] || code > 0x10ffff || surrogate) return {};
  return {bytes, code, true};
}

/// Joins what `print` returns for each character.
template <class Print>
std::string each(std::string_view text, Print print) {
  std::string all;
  for (size_t i = 0; i < text.size();) {
    const Character one = character(text, i);
    all += one.valid ? print(one.code, text.substr(i, one.bytes)) : std::string(kReplacement);
    i += one.bytes;
  }
  return all;
}

bool is_control(uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

}  // namespace

std::string valid_utf8(std::string_view text) {
  return each(text, [](uint32_t, std::string_view bytes) { return std::string(bytes); });
}

std::string printable(std::string_view text) {
  return each(text, [](uint32_t code, std::string_view bytes) {
    return is_control(code) ? std::string("?") : std::string(bytes);
  });
}

std::string xml(std::string_view text) {
  return each(text, [](uint32_t code, std::string_view bytes) -> std::string {
    switch (code) {
      case '&': return "&amp;";
      case '<': return "&lt;";
      case '>': return "&gt;";
      case '"': return "&quot;";
      case '\'': return "&#39;";
      case '\t':
      case '\n':
      case '\r': return fmt::format("&#{};", code);
      default: break;
    }
    const bool absent = code < 0x20 || code == 0xfffe || code == 0xffff;
    return std::string(absent ? kReplacement : bytes);
  });
}

std::string csv_text(std::string_view text) {
  std::string cell = valid_utf8(text);
  // With one of these, or with blanks before one, spreadsheets begin a formula.
  const size_t first = cell.find_first_not_of(' ');
  if (first != std::string::npos &&
      std::string_view("=+-@\t\r\n").find(cell[first]) != std::string_view::npos)
    cell = "'" + cell;
  if (cell.find_first_of(",\"\r\n;") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string markdown(std::string_view text) {
  return each(text, [](uint32_t code, std::string_view bytes) -> std::string {
    switch (code) {
      case '&': return "&amp;";
      case '<': return "&lt;";
      case '@': return "&#64;";
      case '\\':
      case '`':
      case '*':
      case '|':
      case '~':
      case '$':
      case ']': return "\\" + std::string(bytes);
      default: return is_control(code) ? std::string(" ") : std::string(bytes);
    }
  });
}

std::string markdown_code(std::string_view text) {
  const std::string line = each(text, [](uint32_t code, std::string_view bytes) {
    return is_control(code) ? std::string(" ") : std::string(bytes);
  });
  size_t longest = 0, run = 0;
  for (const char c : line) longest = std::max(longest, run = c == '`' ? run + 1 : 0);
  const std::string fence(longest + 1, '`');
  const bool padded = !line.empty() && (line.front() == '`' || line.back() == '`');
  const char* const pad = padded ? " " : "";
  return fence + pad + line + pad + fence;
}

}  // namespace attest::reports
