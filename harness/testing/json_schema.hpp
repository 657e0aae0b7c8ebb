// A published JSON Schema, which tests hold documents against.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace attest::testing {

class JsonSchema {
 public:
  /// `file`: a path from the root of the repository, e.g. "reports/results.schema.json".
  explicit JsonSchema(const std::string& file);
  ~JsonSchema();
  /// What is wrong with the document, a line for each error; "" if nothing is.
  std::string errors(const nlohmann::json& document) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attest::testing
