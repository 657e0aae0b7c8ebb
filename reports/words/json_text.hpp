// A JSON document as text, whatever bytes its strings have.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace attest::reports {

/// Indented, with a line feed at the end. Bytes that are not UTF-8 become U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& document) {
  return document.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace attest::reports
