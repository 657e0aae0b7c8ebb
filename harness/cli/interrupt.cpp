#include "cli/interrupt.hpp"

#include <csignal>

namespace attest::cli {
namespace {

volatile std::sig_atomic_t caught = 0;

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = [](int) { caught = 1; };
  action.sa_flags = int(SA_RESETHAND);  // waiting calls are interrupted, and the next signal kills
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return caught != 0; }

}  // namespace attest::cli
