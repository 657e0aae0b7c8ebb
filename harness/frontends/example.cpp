// A test program as an out-of-tree project writes it: what the tests of the adapter run. The folder
// of vectors is its environment's.
#include <cstdlib>

#include "attest_gtest.hpp"

int main(int argc, char** argv) {
  attest::gtest::Options options;
  options.plugins = {ATTEST_BINARY_DIR "/tests/plugins/mutants.so"};
  options.impls = {"naive", "mutant_none", "mutant_dropped_key"};
  options.threads = 1;
  if (const char* suite = std::getenv("EXAMPLE_SUITE")) options.suites = {suite};
  if (const char* vectors = std::getenv("EXAMPLE_VECTORS")) options.vectors = {vectors};
  return attest::gtest::run(argc, argv, options);
}
