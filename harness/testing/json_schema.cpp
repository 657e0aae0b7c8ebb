#include "testing/json_schema.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

namespace attest::testing {

using nlohmann::json;
using valijson::adapters::NlohmannJsonAdapter;

struct JsonSchema::Impl {
  valijson::Schema schema;
};

JsonSchema::JsonSchema(const std::string& file) : impl_(std::make_unique<Impl>()) {
  const json document = json::parse(std::ifstream(ATTEST_SOURCE_DIR "/" + file));
  valijson::SchemaParser().populateSchema(NlohmannJsonAdapter(document), impl_->schema);
}

JsonSchema::~JsonSchema() = default;

std::string JsonSchema::errors(const json& document) const {
  valijson::ValidationResults results;
  if (valijson::Validator().validate(impl_->schema, NlohmannJsonAdapter(document), &results))
    return "";
  std::string lines;
  valijson::ValidationResults::Error error;
  while (results.popError(error)) lines += error.description + "\n";
  return lines.empty() ? "invalid" : lines;
}

}  // namespace attest::testing
