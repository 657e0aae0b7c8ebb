// attest: judges and times attention implementations.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/parse_failure.hpp"
#include "core/isolation/spinning.hpp"
#include "core/tensor/error.hpp"

namespace {

// Whether this processor has what every file was compiled for (harness/cmake/toolchain.cmake).
bool is_processor_known() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2");
#else
  return true;
#endif
}

// Goldens are computed by threads of this process, whose library of OpenMP has read the environment
// by now: it starts again with the environment that workers have. Where it cannot, its threads spin
// longer.
void bound_own_spinning(char** argv) {
  std::error_code unreadable;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  if (!unreadable && attest::core::bound_spinning()) execv(program.c_str(), argv);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace attest;
  if (!is_processor_known()) {
    std::fputs(
        "attest: this processor lacks SSE4.2; compile without -msse4.2, which "
        "harness/cmake/toolchain.cmake adds\n",
        stderr);
    return cli::kNothing;
  }
  bound_own_spinning(argv);
  std::signal(SIGPIPE,
              SIG_IGN);  // a reader that went away is a failed write, reported like any other
  CLI::App program(
      "Judges attention implementations (plugins) against a float64 golden, and times them.",
      "attest");
  std::string codes = "Exit codes:";
  for (const cli::ExitCodeHelp& one : cli::kExitCodes)
    codes += fmt::format("\n  {:>3} {}", int(one.code), one.meaning);
  program.footer(codes);
  program.set_version_flag("--version", ATTEST_VERSION);
  program.require_subcommand(1);
  const std::vector<cli::Command> commands{
      cli::add_run(program),     cli::add_bench(program),      cli::add_list(program),
      cli::add_repro(program),   cli::add_compare(program),    cli::add_ab(program),
      cli::add_gate(program),    cli::add_baseline(program),   cli::add_report(program),
      cli::add_history(program), cli::add_choose(program),     cli::add_capture(program),
      cli::add_replay(program),  cli::add_doctor(program),     cli::add_probe(program),
      cli::add_new(program),     cli::add_explain(program),    cli::add_scale(program),
      cli::add_project(program), cli::add_completion(program), cli::add_man(program)};
  program.failure_message(
      [](const CLI::App* app, const CLI::Error& error) { return cli::print_failure(*app, error); });
  const std::vector<std::string> names = cli::command_names(program);
  if (argc > 1 && argv[1][0] != '-' && std::ranges::find(names, argv[1]) == names.end()) {
    fmt::print(stderr, "attest: no command {}, but {}; attest --help says what they do\n",
               core::in_quotes(argv[1]), fmt::join(names, ", "));
    return cli::kUsage;
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? cli::kOk : cli::kUsage;
  }
  try {
    const auto chosen = program.get_subcommands();
    for (size_t i = 0; i < commands.size(); ++i)
      if (program.get_subcommands([](const CLI::App*) { return true; })[i] == chosen.at(0))
        return commands[i]();
  } catch (const core::MachineError& error) {
    fmt::print(stderr, "attest: {}\n", error.what());
    return cli::kNothing;
  } catch (const core::Error& error) {
    fmt::print(stderr, "attest: {}\n", error.what());
    return cli::kUsage;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "attest: out of memory\n");
    return cli::kNothing;
  } catch (const std::exception& error) {  // the file system's, say: a folder that may not be read
    fmt::print(stderr, "attest: {}\n", error.what());
    return cli::kNothing;
  }
  return cli::kUsage;
}
