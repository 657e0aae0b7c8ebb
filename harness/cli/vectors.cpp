#include "cli/vectors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/exit_code.hpp"
#include "cli/header.hpp"
#include "cli/interrupt.hpp"
#include "cli/locate.hpp"
#include "cli/progress.hpp"
#include "cli/repro_line.hpp"
#include "cli/results_file.hpp"
#include "cli/table_file.hpp"
#include "core/problem/hint.hpp"
#include "core/run/vector_runner.hpp"
#include "core/tensor/error.hpp"
#include "reports/table.hpp"

namespace attest::cli {
namespace {

/// Judges vectors one after the other; records in the order of the table.
class VectorRun {
 public:
  VectorRun(Session& session, const std::vector<core::Registry::Entry>& chosen, size_t vectors)
      : session_(session), chosen_(chosen), results_(session.results_path), progress_(vectors * (chosen.size() + 1)) {
    if (!session.results_path.empty())
      results_.write(to_json(make_header(session.command, session.plugins.cpus, session.plugins.threads)));
  }

  void judge(const FoundVector& found) {
    folder_ = last_name(found.folder), words_.clear();
    for (const auto& [key, value] : found.place.words) words_ += fmt::format(" --{} {}", key, shell_word(value));
    try {
      const core::VectorCase vector = core::read_vector(found.place);
      if (vector.unsupported.empty()) return judge(vector, found.suite);
      keep(core::vector_record(found.suite, found.place.name, "unsupported:vector", vector.unsupported));
    } catch (const core::Error& error) {
      keep(core::vector_record(found.suite, found.place.name, "error:vector", error.what()));
    }
  }

  /// All vectors were judged.
  void close() { results_.write(to_json(core::Closing::of(records_, utc_now()))); }
  const std::vector<core::Record>& records() const { return records_; }

 private:
  void judge(const core::VectorCase& vector, const std::string& suite) {
    core::VectorRunner runner(vector, suite, session_.options, rates_);
    const core::Record reference = runner.reference();
    keep(reference);
    // An implementation cannot be judged by inputs that make no sense.
    if (!runner.has_problem() || reference.code == "error:vector") return;
    for (const core::Registry::Entry& entry : chosen_) {
      if (interrupted()) return;
      progress_.start(fmt::format("{}/{} {}", suite, vector.name, entry.implementation->name));
      core::Record record = runner.run(*entry.plugin, *entry.implementation);
      if (!interrupted()) keep(std::move(record));
    }
  }

  void keep(core::Record record) {
    record.repro =
        fmt::format("attest run --vectors {} --case '{}'{}{}{}", shell_word(folder_), record.case_name, words_,
                    record.impl == core::kReference || record.impl == core::kGiven ? "" : fmt::format(" --impl {}", record.impl),
                    session_.options.repro_options);
    results_.write(to_json(record));
    progress_.finish(record);
    records_.push_back(std::move(record));
  }

  Session& session_;
  const std::vector<core::Registry::Entry>& chosen_;
  ResultsFile results_;
  Progress progress_;
  core::Rates rates_;
  std::string folder_, words_;
  std::vector<core::Record> records_;
};

/// What no implementation was asked, vector by vector; then one line of counts for the reference and every implementation.
void print_counts(const std::vector<core::Record>& records) {
  std::map<std::string, std::map<std::string_view, int>> counts;
  std::vector<std::string> order;
  for (const core::Record& record : records) {
    if (record.code == "unsupported:vector")
      fmt::print("{}/{}: unsupported: {}\n", record.suite, record.case_name, record.reason);
    if (!counts.contains(record.impl)) order.push_back(record.impl);
    ++counts[record.impl][name(record.verdict)];
  }
  for (const std::string& impl : order) {
    std::string line;
    for (const std::string_view verdict : core::kVerdictNames)
      if (const auto at = counts[impl].find(verdict); at != counts[impl].end())
        line += fmt::format("{}{} {}", line.empty() ? "" : ", ", at->second, verdict);
    fmt::print("{:<14} {}\n", impl, line);
  }
}

}  // namespace

void add_vector_words(CLI::App& command, VectorWords& words) {
  for (const auto& [key, help] :
       {std::pair("params", "of a .safetensors or .npz file: 'causal softcap=30', fields of attest.h"),
        std::pair("layout", "likewise: bhsd (default) or bshd, [batch, tokens, heads, dim]"),
        std::pair("arithmetic", "likewise: what computed its outputs, e.g. prob=bf16 (default: float32)")})
    command
        .add_option_function<std::string>(
            std::string("--") + key, [&words, key = std::string(key)](const std::string& value) { words[key] = value; }, help)
        ->type_name("WORDS");
}

std::vector<FoundVector> find_vectors(const std::vector<std::string>& folders, const std::vector<std::string>& globs) {
  std::vector<FoundVector> found;
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    const std::string suite = core::suite_of_vectors(folder);
    for (core::VectorPlace& place : core::find_vectors(folder)) {
      const std::string full_name = suite + "/" + place.name;
      names.push_back(place.name), names.push_back(full_name);
      if (matches(place.name, globs) || matches(full_name, globs)) found.push_back({suite, folder, std::move(place)});
    }
  }
  if (found.empty()) require_matches("--case", globs, names);
  return found;
}

int run_vectors(const std::vector<std::string>& folders, const std::vector<std::string>& globs, const VectorWords& words,
                Session& session) {
  std::vector<FoundVector> found = find_vectors(folders, globs);
  for (FoundVector& vector : found) {
    if (!words.empty() && !vector.place.bare)
      throw core::Error(fmt::format("--{} is for .safetensors and .npz files alone; {} says so itself", words.begin()->first,
                                    vector.place.model.filename().string()));
    vector.place.words = words;
  }
  const auto registry = session.plugins.load();
  const auto chosen = session.plugins.select(*registry);
  session.options.threads = session.plugins.threads, session.options.timeout_s = session.plugins.timeout_s;
  session.options.repro_options = repro_options(session);
  TableFile table(session.table_path);
  catch_interrupts();
  VectorRun run(session, chosen, found.size());
  for (const FoundVector& vector : found) {
    if (interrupted()) break;
    run.judge(vector);
  }
  if (!interrupted()) run.close();
  fmt::print("{}", reports::print_table(run.records(), wants_colour(stdout)));
  print_counts(run.records());
  if (!session.results_path.empty()) fmt::print("results: {}\n", session.results_path);
  table.write(run.records(), session.command);
  return exit_code(run.records());
}

}  // namespace attest::cli
