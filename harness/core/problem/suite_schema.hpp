// Makes the JSON Schema of suites, with the words of all operations of attest.
#pragma once
#include <string>

namespace attest::core {

/// The text of suites/suite.schema.json, JSON Schema draft 7. A test compares the file with it. The
/// program `suite_schema` prints it.
std::string suite_schema();

}  // namespace attest::core
