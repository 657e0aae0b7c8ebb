#include <attest_gtest.hpp>

int main(int argc, char** argv) {
  return attest::gtest::run(argc, argv, {{MINE}, {"smoke"}});  // plugins, suites
}
