// Fuzzes parse_suite: no text crashes it, and every problem of a suite that is read can be made.
#include <cstdlib>
#include <string_view>

#include "core/problem/spec.hpp"
#include "core/problem/suite.hpp"
#include "core/tensor/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attest::core;
  Suite suite;
  try {
    suite = parse_suite({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  } catch (const Error&) {
    return 0;
  }
  for (const Case& one : suite.cases)
    for (const DType dtype : one.dtypes)
      if (print_problem(one.problem(dtype, kSampleTokens)).empty()) std::abort();
  return 0;
}
