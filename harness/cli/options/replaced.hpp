// Replaces one text in another.
#pragma once
#include <string>
#include <string_view>

namespace attest::cli {

/// `text` with `to` in place of every `from`. An empty `from` changes nothing.
inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; !from.empty() && (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace attest::cli
