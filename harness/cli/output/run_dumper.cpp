#include "cli/output/run_dumper.hpp"

#include <fmt/format.h>

#include <cctype>

#include "core/vectors/captured/run_dump.hpp"

namespace attest::cli {

namespace fs = std::filesystem;

namespace {

// A plugin may give its implementations any name. In the file system it is one harmless word.
std::string folder_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '@' && c != '.') c = '_';
  if (name.empty() || name.front() == '.') name.insert(0, "_");
  return name;
}

}  // namespace

RunDumper::RunDumper(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  if (fs::exists(folder_, error) && !(fs::is_directory(folder_) && fs::is_empty(folder_)))
    throw core::Error(
        fmt::format("--dump {}: exists and is not empty; name a new folder", folder_.string()));
}

void RunDumper::add(const core::JudgedRun& run) {
  if (!failure_.empty()) return;
  const core::Outcome& outcome = run.fill.judgement.outcome;
  const fs::path folder =
      folder_ / folder_name(run.implementation.name) / folder_name(run.fill.fill);
  std::string source = fmt::format("attest repro, {}, fill {}: {}", run.implementation.name,
                                   run.fill.fill, name(outcome.verdict()));
  if (!outcome.passes()) source += fmt::format(": {}", outcome.reason);
  try {
    run.golden.use([&](const core::Golden& golden) {
      core::dump_run({.inputs = run.inputs,
                      .golden = golden,
                      .arithmetic = run.arithmetic,
                      .outputs = run.outputs,
                      .source = source},
                     folder);
    });
    ++count_;
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
}

void RunDumper::finish() const {
  if (!failure_.empty()) throw core::MachineError(failure_);
  if (count_ == 0)
    fmt::print("dump: nothing was run\n");
  else
    fmt::print("dump: {} below {}; attest run --vectors {} judges the outputs again\n",
               count_ == 1 ? "one run" : fmt::format("{} runs", count_), folder_.string(),
               folder_.string());
}

}  // namespace attest::cli
