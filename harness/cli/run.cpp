#include "cli/run.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "cli/coverage.hpp"
#include "cli/exit_code.hpp"
#include "cli/header.hpp"
#include "cli/interrupt.hpp"
#include "cli/machine_error.hpp"
#include "cli/progress.hpp"
#include "cli/repro_line.hpp"
#include "cli/results_file.hpp"
#include "cli/resume.hpp"
#include "cli/table_file.hpp"
#include "core/device/device.hpp"
#include "core/problem/hint.hpp"
#include "core/problem/spec.hpp"
#include "core/tensor/error.hpp"
#include "reports/table.hpp"

namespace attest::cli {
namespace {

using Kind = core::TokenSource::Kind;

// What a token file holds, by its name.
Kind kind_of(const std::filesystem::path& file) {
  std::string extension = file.extension();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return char(std::tolower(c)); });
  for (const char* known : {".pcd", ".ply", ".bin"})
    if (extension == known) return Kind::kLidar;
  for (const char* known : {".png", ".jpg", ".jpeg"})
    if (extension == known) return Kind::kImage;
  throw core::Error(fmt::format(
      "--tokens {}: a sweep ends in .pcd, .ply or .bin, an image in .png or .jpg", file.string()));
}

double seconds_since(core::Clock::time_point start) {
  return std::chrono::duration<double>(core::Clock::now() - start).count();
}

// What the harness itself took, beside implementations and goldens.
void print_shares(double total_s, double implementations_s, double judging_s, double inputs_s) {
  const double own = std::max(0.0, total_s - implementations_s - judging_s - inputs_s);
  fmt::print(
      "{:.1f} s: {:.1f} s in implementations, {:.1f} s in goldens and judging, {:.1f} s in inputs, "
      "{:.1f} s ({:.1f} %) in the "
      "harness\n",
      total_s, implementations_s, judging_s, inputs_s, own, own / total_s * 100);
}

double implementation_seconds(const core::Record& record) {
  double ns = 0;
  for (const core::FillRecord& fill : record.fills) ns += fill.run_ns;
  for (const core::RelationRecord& relation : record.relations) ns += relation.run_ns;
  if (record.time) {
    ns += record.time->warmup_ns + record.time->create_ns * 2 + record.time->audits_ns.value_or(0);
    for (const double sample : record.time->samples_ns)
      ns += sample * double(record.time->iterations_per_sample);
    for (const double sample : record.time->cold_samples_ns) ns += sample;
  }
  return ns * 1e-9;
}

// A repro line of an implementation that shares its name takes that of its plugin alone.
void name_exactly(const core::Registry::Entry& entry, core::Record& record) {
  const std::string begins = "attest repro --impl ";
  record.repro.replace(begins.size(), record.impl.size(), entry.own_name + "@" + record.plugin);
}

// "flash" is near flash_cpu, though no slip of the pen makes the one of the other.
std::string near_name(const std::string& word, const std::vector<std::string>& names) {
  const auto begins =
      std::ranges::find_if(names, [&](const std::string& name) { return name.starts_with(word); });
  return begins == names.end() ? core::did_you_mean(word, names)
                               : fmt::format(", did you mean '{}'?", *begins);
}

// A case that is for implementations which are not loaded would drop out of the run unseen.
void check_impls(const std::vector<Job>& jobs, const core::Registry& registry) {
  std::vector<std::string> names;
  for (const core::Registry::Entry& entry : registry.entries())
    names.push_back(entry.implementation->name);
  for (const Job& job : jobs) {
    const std::vector<std::string>& wanted = job.wanted->only_impls;
    if (std::ranges::any_of(registry.entries(),
                            [&](const auto& entry) { return entry.called(wanted); }))
      continue;
    const std::string place =
        fmt::format("{}: case '{}': impls:", job.suite_file, job.wanted->name);
    try {
      core::require_matches(place, wanted, names);
    } catch (const core::Error& error) {
      throw core::Error(error.what() + near_name(wanted.front(), names));
    }
  }
}

// The implementations of a job that have no record yet. Records that there are go to `records`, and
// what they say of speed to `rates`, as if they had been made now.
std::vector<core::Registry::Entry> left_to_do(const Job& job,
                                              const std::vector<core::Registry::Entry>& chosen,
                                              EarlierResults& earlier, core::Rates& rates,
                                              std::vector<core::Record>& records) {
  std::vector<core::Registry::Entry> todo;
  for (const core::Registry::Entry& entry : chosen) {
    const std::string& name = entry.implementation->name;
    if (!entry.called(job.wanted->only_impls)) continue;
    const core::Record* record =
        earlier.take(job.suite, job.wanted->name, std::string(core::dtype_name(job.dtype)), name);
    if (!record) {
      todo.push_back(entry);
      continue;
    }
    note_speed(*record, rates);
    records.push_back(*record);
  }
  return todo;
}

}  // namespace

int exit_code(const std::vector<core::Record>& records, bool all_judged) {
  if (interrupted()) return kInterrupted;
  if (std::any_of(records.begin(), records.end(),
                  [](const core::Record& r) { return core::is_bad(r.verdict); }))
    return kBad;
  if (std::none_of(records.begin(), records.end(),
                   [](const core::Record& r) { return r.verdict == core::Verdict::kPass; }))
    return kNothing;
  return all_judged ? kOk : kInconclusive;
}

TokenStore::TokenStore(const std::vector<std::string>& files) {
  for (const std::string& file : files)
    if (!files_.emplace(kind_of(file), file).second)
      throw core::Error(fmt::format("--tokens {}: there is another {} already", file,
                                    kind_of(file) == Kind::kLidar ? "sweep" : "image"));
}

bool TokenStore::wanted_by(const std::vector<std::string>& sources, std::string& unused) const {
  for (const auto& [kind, file] : files_) {
    const bool used =
        std::any_of(sources.begin(), sources.end(), [&, k = kind](const std::string& line) {
          return core::parse_token_source(line).kind == k;
        });
    if (!used) unused = file;
  }
  return unused.empty();
}

core::TokenSource TokenStore::source(const std::string& line) const {
  core::TokenSource source = core::parse_token_source(line);
  if (const auto file = files_.find(source.kind); file != files_.end()) source.file = file->second;
  return source;
}

const core::Tokens& TokenStore::take(const std::string& line, core::CaseLabel& label) {
  const core::TokenSource source = this->source(line);
  label.inputs = print(source);
  const std::string key = print(source) + source.file.string();
  auto at = loaded_.find(key);
  if (at == loaded_.end()) {
    const auto start = core::Clock::now();
    at = loaded_.emplace(key, core::load_tokens(source)).first;
    seconds_ += seconds_since(start);
  }
  return at->second;
}

void add_relations(CLI::App& command, core::RelationChoice& choice) {
  static const std::map<std::string, core::RelationChoice> names{
      {"auto", core::RelationChoice::kAuto},
      {"all", core::RelationChoice::kAll},
      {"none", core::RelationChoice::kNone}};
  // Not a transformer: it would put the numbers of the choices into the record's command line.
  command
      .add_option_function<std::string>(
          "--relations", [&choice](const std::string& word) { choice = names.at(word); },
          "compare runs on changed inputs (permuted, split, shifted ...) with one another: auto, "
          "where a run takes less "
          "than 20 ms; all; none")
      ->check(CLI::IsMember(names).description(""))
      ->default_str("auto")
      ->type_name("WHERE");
}

void add_host_golden(CLI::App& command, bool& host_golden) {
  command.add_flag(
      "--host-golden", host_golden,
      "make every golden on the host, where a device would make that of large cases on more rows");
}

void JudgingOptions::add_to(CLI::App& command, Session& session) {
  command
      .add_option(
          "--case-limit", session.options.case_limit_s,
          "skip what is estimated to take more seconds for its four least runs; 1 without a suite")
      ->check(CLI::Range(0.01, 1e6))
      ->capture_default_str()
      ->type_name("S");
  command.add_flag("--judge-only", untimed, "judge, do not time");
  command.add_flag(
      "--strict", session.strict,
      "exit with 3 where an implementation declares features or dtypes that no case judged");
  add_relations(command, session.options.relations);
  add_host_golden(command, session.host_golden);
  command
      .add_option("--min-arithmetic", least,
                  "refuse implementations that declare less: words of qk pv score prob acc, e.g. "
                  "acc=f32,prob=bf16")
      ->type_name("LIST");
  command.add_option("-o,--output", output, "results as JSON lines, into a new file")
      ->type_name("FILE");
  command.add_flag("--overwrite", overwrite, "-o may name a file of results, which it replaces");
  command
      .add_option("--resume", resume,
                  "go on with a run that was cut short, into the same file; all other arguments as "
                  "before. A file that is not "
                  "there is begun")
      ->type_name("FILE");
  add_table(command, session.table_path);
  session.plugins.add_to(command);
}

void JudgingOptions::apply(Session& session) const {
  namespace fs = std::filesystem;
  // --resume names the file to write as well; -o may name the same.
  if (!resume.empty() && !output.empty() &&
      fs::weakly_canonical(resume) != fs::weakly_canonical(output))
    throw core::Error(fmt::format("--resume {}: -o names another file, {}", resume, output));
  if (resume.empty() && !overwrite) refuse_to_replace(output);
  session.results_path = output.empty() ? resume : output, session.resume = !resume.empty();
  session.least = least, session.options.least = core::parse_min_arithmetic(least);
  session.options.timed = !untimed;
  session.options.golden_device = session.host_golden ? nullptr : core::find_golden_device();
}

int run_jobs(const std::vector<Job>& jobs, Session& session, TokenStore& tokens) {
  const auto start = core::Clock::now();
  const auto registry = session.plugins.load();
  session.options.repro_options = repro_options(session);
  const auto chosen = session.plugins.select(*registry);
  check_impls(jobs, *registry);
  session.options.threads = session.plugins.threads,
  session.options.timeout_s = session.plugins.timeout_s;
  EarlierResults earlier;
  if (session.resume) earlier = EarlierResults(session.results_path);
  ResultsFile results =
      begin_results(session.results_path.empty() ? Identity() : identify(jobs, session, chosen),
                    session, earlier);
  TableFile table(session.table_path);

  catch_interrupts();
  std::vector<core::Record> records;
  core::Rates rates;
  Progress progress(jobs.size() * chosen.size() -
                    std::min(earlier.count(), jobs.size() * chosen.size()));
  double inputs_s = 0, judging_s = 0, implementations_s = 0;
  for (const Job& job : jobs) {
    const auto todo = left_to_do(job, chosen, earlier, rates, records);
    if (todo.empty()) continue;
    const core::Tokens* own_tokens = nullptr;
    core::CaseLabel label{job.suite, job.wanted->name, "random", job.wanted->source};
    if (job.wanted->inputs.from_tokens) {
      progress.start(job.wanted->inputs.source);
      own_tokens = &tokens.take(job.wanted->inputs.source, label);
    }
    const core::Problem problem =
        job.wanted->problem(job.dtype, own_tokens ? own_tokens->count : 0);
    core::RunOptions options = session.options;
    if (job.budget_s > 0) options.budget_s = job.budget_s;
    if (options.fills.empty()) options.fills = job.wanted->fills;
    core::CaseRunner runner(problem, core::print_problem(problem), label, own_tokens, options,
                            rates);
    for (const core::Registry::Entry& entry : todo) {
      if (interrupted()) break;
      progress.start(fmt::format("{}/{} {} {}", job.suite, job.wanted->name,
                                 core::dtype_name(job.dtype), entry.implementation->name));
      core::Record record = runner.run(*entry.plugin, *entry.implementation);
      if (interrupted()) break;  // the record at hand was cut short
      if (own_tokens) record.notes.push_back(own_tokens->source);
      if (session.plugins.shared_names.count(record.impl)) name_exactly(entry, record);
      results.write(to_json(record));
      progress.finish(record);
      implementations_s += implementation_seconds(record);
      records.push_back(std::move(record));
    }
    inputs_s += runner.inputs_s(), judging_s += runner.judging_s();
    if (interrupted()) break;
  }
  const NeverJudged left = never_judged(chosen, records);
  if (!interrupted() && !earlier.complete()) {
    core::Closing closing = core::Closing::of(records, utc_now());
    closing.never_judged = left;
    results.write(to_json(closing));
  }
  fmt::print("{}", reports::print_table(records, wants_colour(stdout)));
  print_shares(seconds_since(start), implementations_s, judging_s, inputs_s + tokens.seconds());
  if (!session.results_path.empty()) fmt::print("results: {}\n", session.results_path);
  fmt::print("{}", print_never_judged(left));
  table.write(records, session.command);
  if (interrupted())
    fmt::print(stderr, "attest: interrupted; what was measured is kept{}\n",
               session.results_path.empty() ? "" : ", and --resume goes on with it");
  return exit_code(records, left.empty() || !session.strict);
}

}  // namespace attest::cli
