#include "cli/repro_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command_line.hpp"
#include "cli/judging_options.hpp"

namespace attest::cli {
namespace {

// What every line says of the session that the record is of.
std::string session_words(const JudgingOptions& options) {
  std::string words;
  for (const std::string& plugin : options.plugins.selection.plugins)
    words += " --plugin " + shell_word(recorded_path(plugin));
  words += fmt::format(" --threads {}", options.plugins.limits.threads);
  if (options.host_golden) words += " --host-golden";
  if (options.relations != core::RelationChoice::kAuto)
    words += fmt::format(" --relations {}", print(options.relations));
  return words;
}

std::string vector_line(const JudgingOptions& options, const core::VectorJob& vector,
                        const std::string& impl, const core::Record& record) {
  std::string line = fmt::format("attest run --vectors {} --case '{}'",
                                 shell_word(recorded_path(vector.folder)), record.case_name);
  for (const auto& [key, value] : vector.place.words)
    line += fmt::format(" --{} {}", key, shell_word(value));
  if (!impl.empty()) line += " --impl " + impl;
  return line + session_words(options);
}

}  // namespace

std::string repro_line(const JudgingOptions& options, const core::Job& job, const std::string& impl,
                       const core::Record& record) {
  if (const auto* vector = std::get_if<core::VectorJob>(&job.source))
    return vector_line(options, *vector, impl, record);
  std::string line = "attest repro --impl " + impl;
  if (!record.inputs.empty() && record.inputs != "random")
    line += fmt::format(" --inputs '{}'", record.inputs);
  line += session_words(options);
  if (!job.fills.empty()) line += fmt::format(" --fill {}", fmt::join(job.fills, ","));
  return line + fmt::format(" '{}'", record.spec);
}

}  // namespace attest::cli
