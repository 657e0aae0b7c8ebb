#include "core/problem/strict_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

// The library's sentence without its own prefix: "syntax error while parsing value - unexpected end
// of input; ...".
std::string reason(const json::exception& error) {
  const std::string_view what = error.what();
  const size_t prefix = what.find("column "),
               end = what.find(prefix == std::string_view::npos ? "] " : ": ",
                               prefix == std::string_view::npos ? 0 : prefix);
  std::string text(end == std::string_view::npos ? what : what.substr(end + 2));
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  constexpr size_t kMost = 200;  // the library quotes what it read last, as long as that may be
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

std::string place(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, byte > 0 ? byte - 1 : 0);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("line {}, column {}", 1 + std::count(before.begin(), before.end(), '\n'),
                     before.size() - line_start + 1);
}

}  // namespace

json parse_strict_json(std::string_view text, std::string_view file_name) {
  if (text.size() > kLargestJson_bytes)
    throw Error(
        fmt::format("{}: {} bytes; {} at most", file_name, text.size(), kLargestJson_bytes));
  std::vector<std::set<std::string>>
      open;  // keys of the objects that are being read, outermost first
  auto watch = [&](int depth, json::parse_event_t event, const json& value) {
    if (depth > kDeepestJson)
      throw Error(fmt::format("{}: nested deeper than {} levels", file_name, kDeepestJson));
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      throw Error(fmt::format("{}: key {} twice in one object", file_name,
                              in_quotes(value.get<std::string>())));
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), watch);
  } catch (const json::parse_error& error) {
    throw Error(fmt::format("{}: {}: {}", file_name, place(text, error.byte), reason(error)));
  } catch (const json::exception& error) {  // a number that no double holds
    throw Error(fmt::format("{}: {}", file_name, reason(error)));
  }
}

}  // namespace attest::core
