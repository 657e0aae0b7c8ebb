// Reads the keys of a JSON object one by one, each with its type, and finds keys that nobody read.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace attest::core {

class JsonFields {
 public:
  /// `where` begins every message: "x/case.json: params".
  JsonFields(const nlohmann::json& object, std::string where);

  bool has(const std::string& key) const { return object_.contains(key); }
  /// The value of a key, or `otherwise` if the key is absent. Throw Error if the key is absent and
  /// there is no `otherwise`, or if the value is of another type.
  double real(const std::string& key, std::optional<double> otherwise = {});
  int64_t whole(const std::string& key, std::optional<int64_t> otherwise = {});
  bool truth(const std::string& key, std::optional<bool> otherwise = {});
  std::string text(const std::string& key, std::optional<std::string> otherwise = {});
  const nlohmann::json& any(const std::string& key);
  /// Marks a key as read.
  void skip(const std::string& key) { used_.insert(key); }
  /// The first key that was not read; "": all were.
  std::string unused() const;
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json* find(const std::string& key, bool needed);
  [[noreturn]] void wrong(const std::string& key, const char* right) const;

  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string> used_;
};

}  // namespace attest::core
