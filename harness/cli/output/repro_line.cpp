#include "cli/output/repro_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/options/command_line.hpp"
#include "cli/options/judging_options.hpp"
#include "core/problem/quantities.hpp"

namespace attest::cli {
namespace {

// The options of the session that change what is judged, or how.
std::string session_words(const JudgingOptions& options) {
  std::string words;
  for (const std::string& plugin : options.plugins.selection.plugins)
    words += " --plugin " + shell_word(recorded_path(plugin));
  const core::Limits& limits = options.plugins.limits;
  words += fmt::format(" --threads {}", limits.threads);
  if (limits.timeout_s != core::Limits().timeout_s)
    words += " --timeout " + core::print_seconds(limits.timeout_s);
  if (options.names_case_limit)
    words += " --case-limit " + core::print_seconds(limits.case_limit_s);
  if (limits.memory_bytes > 0) words += " --memory " + core::print_whole_bytes(limits.memory_bytes);
  if (!options.least.empty()) words += " --min-arithmetic " + shell_word(options.least);
  words += options.pacing.words();
  if (options.host_golden) words += " --host-golden";
  if (options.relations != core::RelationChoice::kAuto)
    words += fmt::format(" --relations {}", print(options.relations));
  return words;
}

// The token files that replace the file of the record's token source.
std::string token_words(const JudgingOptions& options, const std::string& inputs) {
  std::string words;
  if (inputs.empty() || inputs == "random") return words;
  for (const std::string& file : options.token_files)
    if (core::TokenStore({file}).takes_users_file(inputs))
      words += " --tokens " + shell_word(recorded_path(file));
  return words;
}

// A case whose inputs could not be made has no spec line.
std::string suite_line(const JudgingOptions& options, const core::SuiteJob& suite,
                       const std::string& impl, const core::Record& record) {
  return fmt::format("attest run {} --case {} --dtype {}{} --impl {}{}",
                     shell_word(recorded_path(suite.file)), shell_word(record.case_name),
                     record.dtype, token_words(options, record.inputs), shell_word(impl),
                     session_words(options));
}

std::string vector_line(const JudgingOptions& options, const core::VectorJob& vector,
                        const std::string& impl, const core::Record& record) {
  std::string line =
      fmt::format("attest run --vectors {} --case {}", shell_word(recorded_path(vector.folder)),
                  shell_word(record.case_name));
  for (const auto& [key, value] : vector.place.words)
    line += fmt::format(" --{} {}", key, shell_word(value));
  if (!impl.empty()) line += " --impl " + shell_word(impl);
  return line + session_words(options);
}

}  // namespace

std::string repro_line(const JudgingOptions& options, const core::Job& job, const std::string& impl,
                       const core::Record& record) {
  if (const auto* vector = std::get_if<core::VectorJob>(&job.source))
    return vector_line(options, *vector, impl, record);
  const auto* suite = std::get_if<core::SuiteJob>(&job.source);
  if (suite && record.outcome.code == core::ReasonCode::kErrorInputs && record.spec == "none")
    return suite_line(options, *suite, impl, record);
  std::string line = "attest repro --impl " + shell_word(impl);
  if (!record.inputs.empty() && record.inputs != "random")
    line += " --inputs " + shell_word(record.inputs) + token_words(options, record.inputs);
  line += session_words(options);
  if (options.reruns > 0) line += fmt::format(" --repeat {}", options.reruns + 1);
  if (!job.fills.empty()) line += fmt::format(" --fill {}", fmt::join(job.fills, ","));
  return line + fmt::format(" '{}'", record.spec);
}

}  // namespace attest::cli
