#include "core/vectors/json_fields.hpp"

#include <fmt/format.h>

#include "core/tensor/error.hpp"

namespace attest::core {

using nlohmann::json;

JsonFields::JsonFields(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object()) throw Error(where_ + ": must be an object");
}

const json* JsonFields::find(const std::string& key, bool needed) {
  used_.insert(key);
  const auto at = object_.find(key);
  if (at != object_.end()) return &*at;
  if (needed) throw Error(fmt::format("{}: '{}' is missing", where_, key));
  return nullptr;
}

void JsonFields::wrong(const std::string& key, const char* right) const {
  throw Error(fmt::format("{}: {}: must be {}", where_, key, right));
}

double JsonFields::real(const std::string& key, std::optional<double> otherwise) {
  const json* value = find(key, !otherwise);
  if (!value) return *otherwise;
  if (!value->is_number()) wrong(key, "a number");
  return value->get<double>();
}

int64_t JsonFields::whole(const std::string& key, std::optional<int64_t> otherwise) {
  const json* value = find(key, !otherwise);
  if (!value) return *otherwise;
  if (!value->is_number_integer() ||
      (value->is_number_unsigned() && value->get<uint64_t>() > (uint64_t{1} << 53)))
    wrong(key, "a whole number");
  return value->get<int64_t>();
}

bool JsonFields::truth(const std::string& key, std::optional<bool> otherwise) {
  const json* value = find(key, !otherwise);
  if (!value) return *otherwise;
  if (!value->is_boolean()) wrong(key, "true or false");
  return value->get<bool>();
}

std::string JsonFields::text(const std::string& key, std::optional<std::string> otherwise) {
  const json* value = find(key, !otherwise);
  if (!value) return *otherwise;
  if (!value->is_string()) wrong(key, "a string");
  return value->get<std::string>();
}

const json& JsonFields::any(const std::string& key) { return *find(key, true); }

std::string JsonFields::unused() const {
  for (const auto& [key, value] : object_.items())
    if (!used_.contains(key)) return key;
  return "";
}

}  // namespace attest::core
