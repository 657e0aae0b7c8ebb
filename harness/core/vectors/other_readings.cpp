#include "core/vectors/other_readings.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/vectors/assembly.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

// The parameters as words of a spec line: "softcap=30".
std::string words_of(const json& params) {
  if (params.is_string()) return params.get<std::string>();
  std::string words;
  for (const auto& [key, value] : params.items()) {
    if (key == "causal" && value == false) continue;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    words += fmt::format("{}{}{}", words.empty() ? "" : " ", key,
                         key == "causal" && value == true ? "" : "=" + text);
  }
  return words;
}

OtherReading reading(const VectorPlace& place, const std::string& params,
                     const std::string& layout) {
  OtherReading other;
  const auto set = [&](const char* key, const std::string& value) {
    if (value.empty()) return;
    const char* const quote = value.find(' ') == value.npos ? "" : "'";
    other.keys[key] = value;
    other.words += fmt::format("{}{}",
                               other.words.empty() ? ""
                               : place.bare        ? " "
                                                   : ", ",
                               place.bare ? fmt::format("--{} {}{}{}", key, quote, value, quote)
                                          : fmt::format("\"{}\": \"{}\"", key, value));
  };
  set("params", params);
  set("layout", layout);
  if (!place.bare) other.words += " in " + place.model.filename().string();
  return other;
}

}  // namespace

std::vector<OtherReading> other_readings(const VectorPlace& place) {
  if (place.kind != VectorPlace::Kind::kJson) return {};
  const json description = describe(place);
  if (!description.contains("tensors") || description.contains("problem")) return {};
  const std::string layout = description.value("layout", "bhsd"),
                    other_layout = layout == "bhsd" ? "bshd" : "bhsd";
  const std::string given = words_of(description.value("params", json::object()));
  std::vector<std::string> causal;
  if (given.find("causal") == given.npos && given.find("window_right") == given.npos)
    for (const char* word : {"causal", "causal=bottom_right"})
      causal.push_back(given.empty() ? word : given + " " + word);
  std::vector<OtherReading> all;
  for (const std::string& params : causal) all.push_back(reading(place, params, ""));
  all.push_back(reading(place, "", other_layout));
  for (const std::string& params : causal) all.push_back(reading(place, params, other_layout));
  return all;
}

}  // namespace attest::core
