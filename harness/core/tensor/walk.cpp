#include "core/tensor/walk.hpp"

#include <cmath>
#include <limits>

namespace attest::core {

using nlohmann::json;

json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double number_from_json(const json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto text = value.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw Error("'" + text + "' is not a number");
}

namespace walking {

void throw_missing(const char* key) { throw Error("key '" + std::string(key) + "' is missing"); }

void throw_wrong(const char* key, const char* why) {
  throw Error("key '" + std::string(key) + "': " + why);
}

}  // namespace walking

}  // namespace attest::core
