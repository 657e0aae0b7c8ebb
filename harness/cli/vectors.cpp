#include "cli/vectors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <variant>

#include "cli/coverage.hpp"
#include "cli/exit_code.hpp"
#include "cli/header.hpp"
#include "cli/interrupt.hpp"
#include "cli/locate.hpp"
#include "cli/progress.hpp"
#include "cli/repro_line.hpp"
#include "cli/resume.hpp"
#include "cli/table_file.hpp"
#include "core/problem/hint.hpp"
#include "core/run/vectors/vector_runner.hpp"
#include "core/tensor/error.hpp"
#include "reports/table.hpp"

namespace attest::cli {
namespace {

std::string text_of(const VectorWords& words) {
  std::string text;
  for (const auto& [key, value] : words) text += fmt::format(" --{} {}", key, shell_word(value));
  return text;
}

/// Judges vectors one after the other; records in the order of the table.
class VectorRun {
 public:
  VectorRun(Session& session, const std::vector<core::Registry::Entry>& chosen,
            EarlierResults earlier, const Identity& identity, size_t vectors)
      : session_(session),
        chosen_(chosen),
        earlier_(std::move(earlier)),
        results_(begin_results(identity, session, earlier_)),
        progress_(vectors * (chosen.size() + 1)) {}

  void judge(const FoundVector& found) {
    folder_ = recorded_path(found.folder), words_ = text_of(found.place.words);
    const auto read = core::vector_or_record(found.suite, found.place);
    if (const auto* vector = std::get_if<core::VectorCase>(&read))
      return judge(*vector, found.suite);
    add({found.suite, found.place.name, "", std::string(core::kReference)},
        [&] { return std::get<core::Record>(read); });
  }

  /// All vectors were judged.
  void close() {
    if (earlier_.complete()) return;
    core::Closing closing = core::Closing::of(records_, utc_now());
    closing.never_judged = never_judged(chosen_, records_);
    results_.write(to_json(closing));
  }
  const std::vector<core::Record>& records() const { return records_; }

 private:
  struct Asked {
    std::string suite, case_name, dtype, impl;
  };

  void judge(const core::VectorCase& vector, const std::string& suite) {
    core::VectorRunner runner(vector, suite, session_.options, rates_);
    Asked asked{suite, vector.name, vector.dtype,
                std::string(vector.arithmetic ? core::kGiven : core::kReference)};
    add(asked, [&] { return runner.reference(); });
    // An implementation cannot be judged by inputs that make no sense.
    if (!runner.has_problem() || records_.back().code == "error:vector") return;
    for (const core::Registry::Entry& entry : chosen_) {
      if (interrupted()) return;
      asked.impl = entry.implementation->name;
      add(asked, [&] { return runner.run(*entry.plugin, *entry.implementation); });
    }
  }

  /// The record that an earlier part of the run has of that, or one made now.
  template <class Make>
  void add(const Asked& asked, Make make) {
    if (const core::Record* record =
            earlier_.take(asked.suite, asked.case_name, asked.dtype, asked.impl)) {
      note_speed(*record, rates_);
      return records_.push_back(*record);
    }
    progress_.start(fmt::format("{}/{} {}", asked.suite, asked.case_name, asked.impl));
    core::Record record = make();
    if (interrupted()) return;  // it was cut short
    const bool of_vector = record.impl == core::kReference || record.impl == core::kGiven;
    record.repro = fmt::format(
        "attest run --vectors {} --case '{}'{}{}{}", shell_word(folder_), record.case_name, words_,
        of_vector ? "" : fmt::format(" --impl {}", record.impl), session_.options.repro_options);
    results_.write(to_json(record));
    progress_.finish(record);
    records_.push_back(std::move(record));
  }

  Session& session_;
  const std::vector<core::Registry::Entry>& chosen_;
  EarlierResults earlier_;
  ResultsFile results_;
  Progress progress_;
  core::Rates rates_;
  std::string folder_, words_;
  std::vector<core::Record> records_;
};

/// A vector's files, a line each: what its description says, and the tensors beside it as they are
/// when the run begins.
void list_files(const core::VectorPlace& place, std::set<std::string>& lines) {
  lines.insert(hash_files({place.model.string()}));
  if (place.bare) return;
  // A description in the working directory has no folder in its name.
  for (const auto& entry : std::filesystem::directory_iterator(
           place.data.empty() ? std::filesystem::path(".") : place.data))
    for (const char* extension : {".pb", ".safetensors", ".npy", ".npz"})
      if (entry.path().extension() == extension)
        lines.insert(fmt::format("{} {} {}", entry.path().string(), entry.file_size(),
                                 entry.last_write_time().time_since_epoch().count()));
}

Identity identify_vectors(const std::vector<FoundVector>& vectors, const Session& session,
                          const std::vector<core::Registry::Entry>& chosen) {
  std::set<std::string> files;
  std::string cases, all;
  for (const FoundVector& found : vectors) {
    list_files(found.place, files);
    cases += fmt::format("{}/{}{}\n", found.suite, found.place.name, text_of(found.place.words));
  }
  for (const std::string& line : files) all += line + "\n";
  Identity identity = identify(session, chosen);
  identity["cases"] = fmt::format("{} ({})", vectors.size(), core::hex(core::hash_text(cases)));
  identity["vectors"] = core::hex(core::hash_text(all));
  return identity;
}

/// What no implementation was asked, vector by vector; then one line of counts for the reference
/// and every implementation.
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
       {std::pair("params",
                  "of a .safetensors or .npz file: 'causal softcap=30', fields of attest.h"),
        std::pair("layout", "likewise: bhsd (default) or bshd, [batch, tokens, heads, dim]"),
        std::pair("arithmetic",
                  "likewise: what computed its outputs, e.g. prob=bf16 (default: float32)")})
    command
        .add_option_function<std::string>(
            std::string("--") + key,
            [&words, key = std::string(key)](const std::string& value) { words[key] = value; },
            help)
        ->type_name("WORDS");
}

std::vector<FoundVector> find_vectors(const std::vector<std::string>& folders,
                                      const std::vector<std::string>& globs,
                                      const VectorWords& words) {
  core::check_words(words);
  std::vector<FoundVector> found;
  std::vector<std::string> names;
  std::map<std::string, std::string> models;
  for (const std::string& folder : folders) {
    const std::string suite = core::suite_of_vectors(folder);
    for (core::VectorPlace& place : core::find_vectors(folder)) {
      if (!words.empty() && !place.bare)
        throw core::Error(
            fmt::format("--{} is for .safetensors and .npz files alone; {} says so itself",
                        words.begin()->first, place.model.filename().string()));
      place.words = words;
      const std::string full_name = suite + "/" + place.name;
      if (const auto [at, first] = models.emplace(full_name, place.model); !first)
        throw core::Error(fmt::format("{} and {} are both called {}: judge one after the other",
                                      at->second, place.model.string(), full_name));
      names.push_back(place.name), names.push_back(full_name);
      if (matches(place.name, globs) || matches(full_name, globs))
        found.push_back({suite, folder, std::move(place)});
    }
  }
  if (found.empty()) require_matches("--case", globs, names);
  return found;
}

int run_vectors(const std::vector<std::string>& folders, const std::vector<std::string>& globs,
                const VectorWords& words, Session& session) {
  const std::vector<FoundVector> found = find_vectors(folders, globs, words);
  const auto registry = session.plugins.load();
  const auto chosen = session.plugins.select(*registry);
  session.options.timed = false;  // vectors are small
  session.options.threads = session.plugins.threads,
  session.options.timeout_s = session.plugins.timeout_s;
  session.options.repro_options = repro_options(session);
  TableFile table(session.table_path);
  catch_interrupts();
  EarlierResults earlier;
  if (session.resume) earlier = EarlierResults(session.results_path);
  const Identity identity =
      session.results_path.empty() ? Identity() : identify_vectors(found, session, chosen);
  VectorRun run(session, chosen, std::move(earlier), identity, found.size());
  for (const FoundVector& vector : found) {
    if (interrupted()) break;
    run.judge(vector);
  }
  if (!interrupted()) run.close();
  fmt::print("{}", reports::print_table(run.records(), wants_colour(stdout)));
  print_counts(run.records());
  if (!session.results_path.empty()) fmt::print("results: {}\n", session.results_path);
  const NeverJudged left = never_judged(chosen, run.records());
  fmt::print("{}", print_never_judged(left));
  table.write(run.records(), session.command);
  return exit_code(run.records(), left.empty() || !session.strict);
}

}  // namespace attest::cli
