// Fuzzes parse_problem: no line crashes it, and what parses comes back equal from its own line.
#include <cstdlib>
#include <string_view>

#include "core/problem/spec.hpp"
#include "core/tensor/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attest::core;
  Problem problem;
  try {
    problem = parse_problem({reinterpret_cast<const char*>(data), size});
  } catch (const Error&) {
    return 0;
  }
  if (!(parse_problem(print_problem(problem)) == problem)) std::abort();
  return 0;
}
