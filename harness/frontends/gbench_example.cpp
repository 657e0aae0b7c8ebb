// The tests of the adapter run this program. A project outside attest writes one like it.
#include <cstdlib>

#include "attest_gbench.hpp"

int main(int argc, char** argv) {
  attest::gbench::Options options;
  options.plugins = {ATTEST_BINARY_DIR "/tests/plugins/mutants.so"};
  options.impls = {"naive", "mutant_none", "mutant_dropped_key"};
  options.threads = 1;
  options.budget_s = 0.02;
  if (const char* suite = std::getenv("EXAMPLE_SUITE")) options.suites = {suite};
  return attest::gbench::run(argc, argv, options);
}
