#include <attest_gbench.hpp>

int main(int argc, char** argv) {
  return attest::gbench::run(argc, argv, {{MINE}, {"smoke"}});  // plugins, suites
}
