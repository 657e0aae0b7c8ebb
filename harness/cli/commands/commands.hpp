// The commands of attest. Each function adds a command to the program and returns what runs it.
#pragma once
#include <CLI/CLI.hpp>

#include <functional>

namespace attest::cli {

/// Runs the command after the arguments were parsed. Returns an ExitCode.
using Command = std::function<int()>;

Command add_ab(CLI::App& program);
Command add_bench(CLI::App& program);
Command add_list(CLI::App& program);
Command add_run(CLI::App& program);
Command add_repro(CLI::App& program);
Command add_choose(CLI::App& program);
Command add_compare(CLI::App& program);
Command add_gate(CLI::App& program);
Command add_baseline(CLI::App& program);
Command add_history(CLI::App& program);
Command add_report(CLI::App& program);
Command add_capture(CLI::App& program);
Command add_replay(CLI::App& program);
Command add_doctor(CLI::App& program);
Command add_probe(CLI::App& program);
Command add_project(CLI::App& program);
Command add_new(CLI::App& program);
Command add_explain(CLI::App& program);
Command add_scale(CLI::App& program);
/// These two describe all commands of the program, which must outlive what they return.
Command add_completion(CLI::App& program);
Command add_man(CLI::App& program);

}  // namespace attest::cli
