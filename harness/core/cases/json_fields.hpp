// Reading the keys of a JSON object one by one: each by its kind, and none may be left over.
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
  /// Throw Error: absent without an `otherwise`, or of another kind.
  double real(const std::string& key, std::optional<double> otherwise = {});
  int64_t whole(const std::string& key, std::optional<int64_t> otherwise = {});
  bool truth(const std::string& key, std::optional<bool> otherwise = {});
  std::string text(const std::string& key, std::optional<std::string> otherwise = {});
  const nlohmann::json& any(const std::string& key);
  /// Keys that need no reading.
  void skip(const std::string& key) { used_.insert(key); }
  /// The first key that nobody asked for, or "".
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
