// The program as tests run it: a command line in a shell, its exit code and all that it prints.
#pragma once
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace attest::testing {

struct Outcome {
  int code;
  std::string text;  // standard output and standard error
};

/// Runs a command line in `folder`.
inline Outcome run_shell(const std::string& folder, const std::string& command) {
  std::FILE* pipe = popen(("cd " + folder + " && " + command + " 2>&1").c_str(), "r");
  Outcome outcome{-1, {}};
  char buffer[4096];
  while (const size_t n = fread(buffer, 1, sizeof(buffer), pipe)) outcome.text.append(buffer, n);
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

/// Returns the path of attest in the build that this test belongs to.
inline std::string attest_program() {
  const auto tests = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return (tests.parent_path() / "bin/attest").string();
}

/// Runs `attest ARGUMENTS` in `folder`.
inline Outcome run_attest(const std::string& folder, const std::string& arguments) {
  return run_shell(folder, attest_program() + " " + arguments);
}

}  // namespace attest::testing
