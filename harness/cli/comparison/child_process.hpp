// Runs another program and waits for it.
#pragma once
#include <string>
#include <vector>

namespace attest::cli {

struct ChildCommand {
  std::vector<std::string> words;        // the program, then its arguments
  std::vector<std::string> environment;  // "NAME=VALUE", beside or instead of this process's
  std::string log;                       // the file that its output replaces
};

/// Runs the command to its end and returns its exit code; 128 + N: signal N ended it. The child has
/// a process group of its own: Ctrl-C reaches this process, which passes SIGTERM on to the child
/// once (cli/interrupt.hpp) and goes on waiting. The child gets SIGTERM too if this process dies.
/// Throws MachineError if the program cannot be started.
int run_child(const ChildCommand& command);

}  // namespace attest::cli
