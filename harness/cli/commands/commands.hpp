// The commands of attest: each adds itself to the program and runs when it was chosen.
#pragma once
#include <CLI/CLI.hpp>

#include <functional>

namespace attest::cli {

/// What to run after parsing; returns an ExitCode.
using Command = std::function<int()>;

Command add_list(CLI::App& program);
Command add_run(CLI::App& program);
Command add_repro(CLI::App& program);
Command add_compare(CLI::App& program);
Command add_report(CLI::App& program);
Command add_capture(CLI::App& program);
Command add_replay(CLI::App& program);
Command add_doctor(CLI::App& program);
Command add_new(CLI::App& program);

}  // namespace attest::cli
