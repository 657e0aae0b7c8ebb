// The JSON Schema of suites: its words are those of the operations that come with attest.
#pragma once
#include <string>

namespace attest::core {

/// The text of suites/suite.schema.json, JSON Schema draft 7. A test holds the file to it; the
/// target `suite_schema` writes the file.
std::string suite_schema();

}  // namespace attest::core
