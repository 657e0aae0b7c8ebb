// Prints the JSON Schema of suites, for suites/suite.schema.json.
#include <cstdio>

#include "core/problem/suite_schema.hpp"

int main() { return std::fputs(attest::core::suite_schema().c_str(), stdout) < 0; }
