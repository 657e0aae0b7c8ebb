// attest ab: runs two builds in turns on this machine, and compares them.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "cli/commands/commands.hpp"
#include "cli/comparison/ab.hpp"
#include "cli/comparison/child_process.hpp"
#include "cli/comparison/comparing.hpp"
#include "cli/exit_code.hpp"
#include "cli/interrupt.hpp"
#include "cli/options/command_line.hpp"
#include "cli/options/quantity_options.hpp"
#include "cli/output/header.hpp"
#include "cli/output/progress.hpp"
#include "cli/output/results_file.hpp"
#include "cli/output/written_file.hpp"
#include "core/isolation/installation.hpp"
#include "core/session/plan.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/stopwatch.hpp"
#include "reports/compare/builds.hpp"
#include "reports/compare/comparison_text.hpp"
#include "reports/compare/launches.hpp"
#include "reports/compare/self_check.hpp"

namespace attest::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "attest-ab";
constexpr size_t kSelfCheckRounds = 2 * core::kLeastLaunches;  // two comparisons of each case
constexpr double kBudget_s = 0.1;  // a launch counts as one measurement, however long it is

/// What sets one side apart from the other.
struct SideArguments {
  std::string plugin, attest;
  std::vector<std::string> environment;  // "NAME=VALUE"

  bool operator==(const SideArguments&) const = default;
};

struct AbArguments {
  SideArguments sides[2];
  std::vector<std::string> subjects, plugins;
  core::CaseFilter filter;
  size_t rounds = 0;  // 0: as many as the times need that are compared
  uint64_t seed = 0;
  double budget_s = kBudget_s;
  std::string folder;
  bool overwrite = false, self_check = false;
  Comparing comparing;
  std::vector<std::string> passed_on;  // options that go to each launch as they are
  std::string command;
};

const char* word(AbSide side) { return side == AbSide::kBefore ? "before" : "after"; }

/// "before: old.so, OMP_NUM_THREADS=1"
std::string print_side(AbSide side, const SideArguments& arguments) {
  std::vector<std::string> words;
  if (!arguments.plugin.empty()) words.push_back(recorded_path(arguments.plugin));
  if (!arguments.attest.empty()) words.push_back(recorded_path(arguments.attest));
  words.insert(words.end(), arguments.environment.begin(), arguments.environment.end());
  return fmt::format("{}: {}", word(side),
                     words.empty() ? "this attest" : fmt::format("{}", fmt::join(words, ", ")));
}

/// Starts `attest run` for each launch. Its results go to a folder.
class Launcher {
 public:
  Launcher(const AbArguments& arguments, fs::path folder)
      : arguments_(arguments), folder_(std::move(folder)) {}

  /// Returns nothing if it was interrupted. Throws Error or MachineError if the launch wrote no
  /// results.
  std::optional<core::Results> launch(const AbLaunch& launch) {
    if (launch.number % 2 == 1) round_.clear();
    if (interrupted()) return set_aside();
    const fs::path path = results_path(launch);
    round_.push_back(path);
    const fs::path records = write_records(launch);
    const int code = run_child({.words = words(launch, records, path),
                                .environment = arguments_.sides[int(launch.side)].environment,
                                .log = folder_ / "log"});
    if (interrupted()) return set_aside();
    if (!fs::exists(path) || fs::file_size(path) == 0) fail(launch, code);
    return std::move(read_launches({path}).front());
  }

 private:
  // The number has three digits, so that the files sort in the order of the launches.
  fs::path results_path(const AbLaunch& launch) const {
    return folder_ / fmt::format("{}{}.{:03}.jsonl", launch.confirms ? "again-" : "",
                                 word(launch.side), launch.number);
  }

  /// Writes the file that --records takes, and returns its path.
  fs::path write_records(const AbLaunch& launch) const {
    fs::path path = folder_ / fmt::format("records.{:03}", launch.number);
    std::ofstream out(path);
    for (const std::string& line : launch.records) out << line << "\n";
    if (!out.flush()) throw core::MachineError(fmt::format("{}: cannot be written", path.string()));
    return path;
  }

  std::vector<std::string> words(const AbLaunch& launch, const fs::path& records,
                                 const fs::path& results) const {
    const SideArguments& side = arguments_.sides[int(launch.side)];
    const fs::path attest = side.attest.empty() ? core::own_binary() : fs::absolute(side.attest);
    std::vector<std::string> all{attest.string(), "run"};
    all.insert(all.end(), arguments_.subjects.begin(), arguments_.subjects.end());
    for (const std::string& plugin : arguments_.plugins)
      all.insert(all.end(), {"--plugin", plugin});
    if (!side.plugin.empty()) all.insert(all.end(), {"--plugin", side.plugin});
    add_selection(side, all);
    if (arguments_.filter.quick) all.emplace_back("--quick");
    all.insert(all.end(), arguments_.passed_on.begin(), arguments_.passed_on.end());
    all.insert(all.end(), {"--budget", fmt::format("{}", arguments_.budget_s), "--relations",
                           "none", "--records", records, "-o", results, "--overwrite"});
    return all;
  }

  /// Only the implementations of the plugin run, or those that the user names, and the peer.
  void add_selection(const SideArguments& side, std::vector<std::string>& all) const {
    const std::string& peer = arguments_.comparing.relative_to();
    const bool has_globs =
        std::ranges::find(arguments_.passed_on, "--impl") != arguments_.passed_on.end();
    const bool runs_alone = peer.empty() || peer == reports::kRooflinePeer;
    if (!side.plugin.empty() && runs_alone) all.emplace_back("--only-plugins");
    if (runs_alone || (side.plugin.empty() && !has_globs)) return;
    if (!has_globs)
      all.insert(all.end(), {"--impl", "*@" + fs::path(side.plugin).filename().string()});
    all.insert(all.end(), {"--impl", peer});
  }

  /// Renames the results of a round that was interrupted, so that all other files come in pairs.
  std::optional<core::Results> set_aside() {
    std::error_code ignored;
    for (const fs::path& path : round_)
      fs::rename(path, folder_ / ("unpaired-" + path.filename().string()), ignored);
    round_.clear();
    return std::nullopt;
  }

  [[noreturn]] void fail(const AbLaunch& launch, int code) const {
    std::ifstream log(folder_ / "log");
    std::string last;
    for (std::string line; std::getline(log, line);)
      if (!line.empty()) last = line;
    if (last.starts_with("attest: ")) last.erase(0, 8);
    const std::string text =
        fmt::format("the launch {} wrote no results (exit code {}): {}", word(launch.side), code,
                    last.empty() ? "it printed nothing" : last);
    if (code == kUsage) throw core::Error(text);
    throw core::MachineError(text);
  }

  const AbArguments& arguments_;
  const fs::path folder_;
  std::vector<fs::path> round_;  // result files of the current round
};

/// Whether an earlier `attest ab` wrote a file of that name.
bool is_own(const fs::path& path) {
  static const std::regex kOwn(
      R"((unpaired-)?(again-)?(before|after)\.\d{3,}\.jsonl|records\.\d{3,}|)"
      R"(comparison\.json|floors\.json|log)");
  return std::regex_match(path.filename().string(), kOwn);
}

bool has_files(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder, error) && !fs::is_empty(folder, error);
}

/// Makes the folder of the results. One of the user's must be empty, or is emptied of what an
/// earlier `attest ab` wrote, if it has nothing else.
fs::path make_folder(const AbArguments& arguments) {
  fs::path folder = arguments.folder.empty() ? kFolder : arguments.folder;
  if (arguments.folder.empty())
    for (int i = 2; has_files(folder); ++i) folder = fmt::format("{}-{}", kFolder, i);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder))
    throw core::MachineError(
        fmt::format("-o {}: the folder cannot be made: {}", folder.string(), error.message()));
  if (!has_files(folder)) return folder;
  if (!arguments.overwrite)
    throw core::Error(fmt::format(
        "-o {}: the folder is not empty; name another, or replace its results with --overwrite",
        folder.string()));
  std::vector<fs::path> own;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!is_own(entry.path()))
      throw core::Error(fmt::format("-o {}: {} is not of attest ab; name another folder",
                                    folder.string(), entry.path().filename().string()));
    own.push_back(entry.path());
  }
  for (const fs::path& path : own) fs::remove(path, error);
  return folder;
}

/// "SUITE/CASE DTYPE" of each job.
std::vector<std::string> cases_of(const AbArguments& arguments) {
  std::vector<std::string> cases;
  for (const core::Job& job : core::plan_subjects(arguments.subjects, arguments.filter).jobs)
    cases.push_back(job.name());
  return cases;
}

void check_sides(AbArguments& arguments) {
  auto& [before, after] = arguments.sides;
  if (arguments.self_check) {
    const auto is_other = [](const auto& of_after, const auto& of_before) {
      return !of_after.empty() && of_after != of_before;
    };
    if (is_other(after.plugin, before.plugin) || is_other(after.attest, before.attest) ||
        is_other(after.environment, before.environment))
      throw core::Error("ab: --self-check runs one build on both sides: that of --before");
    after = before;
  }
  if (before.plugin.empty() != after.plugin.empty())
    throw core::Error(fmt::format("ab: --{0} names a plugin, --{1} none; name one with --{1} too",
                                  before.plugin.empty() ? "after" : "before",
                                  before.plugin.empty() ? "before" : "after"));
  if (before == after && !arguments.self_check)
    throw core::Error(
        "ab: both sides are the same; set them apart by --before and --after, --before-attest or "
        "--after-attest, --before-env or --after-env; --self-check measures how much one build "
        "differs from itself");
  for (const SideArguments& side : arguments.sides) {
    for (const std::string& path : {side.plugin, side.attest})
      if (!path.empty() && !fs::exists(path))
        throw core::Error(fmt::format(
            "{}: there is no such file; name {}", path,
            path == side.plugin ? "a plugin that was built, e.g. ./mine.so" : "a program attest"));
    for (const std::string& variable : side.environment)
      if (variable.find('=') == variable.npos || variable.front() == '=')
        throw core::Error(fmt::format("{}: must be NAME=VALUE", core::in_quotes(variable)));
  }
}

/// A line for each round. On a terminal the progress line stands below.
class RoundPrinter {
 public:
  RoundPrinter(size_t rounds, const core::ChangeRule& rule) : rule_(rule), progress_(2 * rounds) {}

  void starting(const AbLaunch& launch) {
    if (launch.confirms && !confirms_) progress_.expect(2 * launch.most_rounds);
    confirms_ = launch.confirms;
    progress_.start(fmt::format("{}round {} of {}: {}", launch.confirms ? "once more, " : "",
                                launch.round, launch.most_rounds, word(launch.side)));
  }
  void finished() { progress_.finish(); }
  void round(const AbLaunch& last, const AbProgress& now) {
    progress_.clear();
    const size_t left = now.records_left;
    fmt::print("{}round {} of {}: {:.1f} s{}\n", last.confirms ? "once more, " : "", last.round,
               last.most_rounds, core::seconds_since(since_),
               left == last.records.size() || last.round == now.most_rounds
                   ? ""
                   : fmt::format("; {} {} on", left, left == 1 ? "goes" : "go"));
    if (last.round == 1 && !last.confirms) compared(last, now);
    std::fflush(stdout);
    since_ = core::Clock::now();
  }

 private:
  // How many times are compared is known after the first round.
  void compared(const AbLaunch& last, const AbProgress& now) {
    if (now.compared == 0) return;
    const std::string times =
        fmt::format("{} time{}", now.compared, now.compared == 1 ? " is" : "s are");
    if (now.most_rounds > last.most_rounds) {
      progress_.expect(2 * (now.most_rounds - last.most_rounds));
      fmt::print("{} compared, which takes {} rounds\n", times, now.most_rounds);
    } else if (const size_t least = rounds_for(now.compared, rule_, core::kFastShare);
               now.most_rounds < least) {
      fmt::print(
          "{} compared: with {} rounds no change of one is certain; --rounds {} may show it\n",
          times, now.most_rounds, least);
    }
  }

  core::ChangeRule rule_;
  Progress progress_;
  bool confirms_ = false;
  core::Clock::time_point since_ = core::Clock::now();
};

nlohmann::json facts(const AbArguments& arguments, const AbOptions& options,
                     const AbOutcome& outcome, double seconds) {
  return {{"command", arguments.command},
          {"seed", options.seed},
          {"rounds", outcome.rounds},
          {"launches", outcome.launches},
          {"stopped_early", outcome.stopped_early},
          {"slower", outcome.slower},
          {"not_confirmed", outcome.not_confirmed},
          {"interrupted", outcome.interrupted},
          {"seconds", seconds}};
}

std::string print_ending(const AbOutcome& outcome, double seconds) {
  std::string text = fmt::format("{} launches in {:.0f} s", outcome.launches, seconds);
  if (outcome.stopped_early > 0)
    text += fmt::format("; {} case{} certain before the last round", outcome.stopped_early,
                        outcome.stopped_early == 1 ? " was" : "s were");
  if (outcome.slower > 0)
    text += fmt::format("; {} of {} slower when measured once more",
                        outcome.slower - outcome.not_confirmed, outcome.slower);
  return text;
}

// Before the first round, only cases can be counted.
size_t first_rounds(const AbOptions& options) {
  return options.rounds > 0 ? options.rounds
                            : default_rounds(options.cases.size(), options.compare.rule);
}

void print_beginning(const AbArguments& arguments, const AbOptions& options,
                     const fs::path& folder) {
  const std::string before = print_side(AbSide::kBefore, arguments.sides[0]);
  fmt::print("{}\n{} case{}, {} rounds{}, seed {}; results: {}\n",
             arguments.self_check
                 ? fmt::format("both sides are {}", before.substr(before.find(' ') + 1))
                 : fmt::format("{}; {}", before, print_side(AbSide::kAfter, arguments.sides[1])),
             options.cases.size(), options.cases.size() == 1 ? "" : "s", first_rounds(options),
             options.rounds == 0 ? " or more" : "", options.seed, folder.string());
  std::fflush(stdout);
}

AbOutcome run_launches(const AbArguments& arguments, const AbOptions& options,
                       const fs::path& folder) {
  Launcher launcher(arguments, folder);
  RoundPrinter printer(first_rounds(options), options.compare.rule);
  return run_ab(
      options,
      [&](const AbLaunch& launch) {
        printer.starting(launch);
        std::optional<core::Results> results = launcher.launch(launch);
        printer.finished();
        if (results && launch.number == 1) {
          require_peer({*results}, {}, arguments.comparing.relative_to());
          arguments.comparing.check_floors({*results});
        }
        return results;
      },
      [&](const AbLaunch& last, const AbProgress& now) { printer.round(last, now); });
}

void print_compared(const AbArguments& arguments, const AbOptions& options,
                    const AbOutcome& outcome, const fs::path& folder, double seconds) {
  nlohmann::json json = to_json(outcome.comparison);
  json["ab"] = facts(arguments, options, outcome, seconds);
  write_json_file("", folder / "comparison.json", json);
  fmt::print("\n");
  arguments.comparing.print(outcome.comparison);
  fmt::print("{}\nagain from the results: attest compare {} --after {}\n",
             print_ending(outcome, seconds), (folder / "before.*").string(),
             (folder / "after.*").string());
}

/// Returns whether any case was timed.
bool print_self_check(const AbArguments& arguments, const AbOutcome& outcome,
                      const fs::path& folder, double seconds) {
  reports::Floors floors =
      reports::floors_of(outcome.before, outcome.after, arguments.comparing.relative_to());
  floors.measured = utc_now();
  const std::string path = folder / "floors.json";
  write_json_file("", path, to_json(floors));
  fmt::print("\n{}{}\nfloors: {}; attest compare --floor-from {} uses them\n", print_floors(floors),
             print_ending(outcome, seconds), path, path);
  return !floors.cases.empty();
}

int run(AbArguments& arguments) {
  check_sides(arguments);
  if (arguments.subjects.empty()) arguments.subjects = {"default"};
  AbOptions options{.rounds = arguments.rounds,
                    .seed = arguments.seed,
                    .self_check = arguments.self_check,
                    .cases = cases_of(arguments),
                    .compare = arguments.comparing.options()};
  if (options.rounds == 0 && arguments.self_check) options.rounds = kSelfCheckRounds;
  const fs::path folder = make_folder(arguments);
  print_beginning(arguments, options, folder);
  catch_interrupts();
  const auto began = core::Clock::now();
  const AbOutcome outcome = run_launches(arguments, options, folder);
  const double seconds = core::seconds_since(began);
  reports::require_one_build(outcome.before, outcome.after);
  bool timed = true;
  if (arguments.self_check)
    timed = print_self_check(arguments, outcome, folder, seconds);
  else if (!outcome.before.empty())
    print_compared(arguments, options, outcome, folder, seconds);
  if (outcome.interrupted) {
    fmt::print(stderr, "attest: interrupted after {} whole rounds\n", outcome.before.size());
    return kInterrupted;
  }
  if (!arguments.self_check) return arguments.comparing.exit_code(outcome.comparison);
  if (!timed) fmt::print(stderr, "attest: no case was timed\n");
  return timed ? kOk : kNothing;
}

void add_sides(CLI::App& command, AbArguments& arguments) {
  for (const AbSide side : {AbSide::kBefore, AbSide::kAfter}) {
    SideArguments& of = arguments.sides[int(side)];
    const std::string name = fmt::format("--{}", word(side));
    const char* build = side == AbSide::kBefore ? "old" : "new";
    command.add_option(name, of.plugin, fmt::format("the {} build of a plugin", build))
        ->type_name("FILE");
    command
        .add_option(name + "-attest", of.attest,
                    fmt::format("the {} build of attest (default: this one)", build))
        ->type_name("FILE");
    command
        .add_option(name + "-env", of.environment,
                    fmt::format("a variable of the environment of the {} side (repeatable)", build))
        ->allow_extra_args(false)
        ->type_name("NAME=VALUE");
  }
}

// Options of attest run that each launch gets as they are.
void add_passed_on(CLI::App& command, AbArguments& arguments) {
  const auto add = [&](const char* name, const char* help, const char* type) {
    return command
        .add_option_function<std::vector<std::string>>(
            name,
            [&arguments, name](const std::vector<std::string>& values) {
              for (const std::string& value : values)
                arguments.passed_on.insert(arguments.passed_on.end(), {name, value});
            },
            help)
        ->allow_extra_args(false)
        ->type_name(type);
  };
  add("--impl", "only implementations with these names (globs)", "GLOB");
  add("--threads", "threads of each implementation", "N");
  add("--case-limit", "skip a case if four runs are estimated to take longer", "TIME");
  add("--timeout", "time that one run may take", "TIME");
  add("--memory", "skip cases that need more memory than this", "SIZE");
}

void add_cases(CLI::App& command, AbArguments& arguments) {
  command
      .add_option("subjects", arguments.subjects,
                  "suites, or problems such as 'softmax num_heads=8 seq_len_q=1k head_dim=64' "
                  "(default: default)")
      ->type_name("SUITE");
  command.add_flag("--quick", arguments.filter.quick, "only the cases that a suite marks as quick");
  command
      .add_option("--case", arguments.filter.cases,
                  "only cases with these names (globs, separated by commas)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command.add_option("--dtype", arguments.filter.dtypes, "only these dtypes: f32,f16,bf16 (globs)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
}

}  // namespace

Command add_ab(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "ab", "run two builds in turns, and say what got slower, bigger or less accurate");
  auto arguments = std::make_shared<AbArguments>();
  arguments->seed = core::unpredictable_seed() >> 40;
  add_sides(*command, *arguments);
  add_cases(*command, *arguments);
  command
      ->add_option("--rounds", arguments->rounds,
                   "most launches of each build (default: 11, or as many more as the number of "
                   "compared times needs, one for each case and implementation)")
      ->check(CLI::Range(size_t{1}, size_t{1000}))
      ->type_name("N");
  command->add_flag("--self-check", arguments->self_check,
                    "run one build on both sides (--before, or this attest): says how often "
                    "identical builds are called slower or faster on this machine, and by how much "
                    "their times differ, and writes this to floors.json");
  command->add_option("--seed", arguments->seed, "draws the order of the cases in each round")
      ->type_name("N");
  add_seconds(*command, "--budget", arguments->budget_s,
              "time for timed runs of each case in each launch", 0.001, 1e6);
  add_passed_on(*command, *arguments);
  command
      ->add_option("--plugin", arguments->plugins,
                   "a plugin that both sides load, for --relative-to (repeatable)")
      ->allow_extra_args(false)
      ->type_name("FILE");
  command
      ->add_option("-o,--output", arguments->folder,
                   "folder for the results of all launches, and for comparison.json (default: "
                   "attest-ab, or attest-ab-2 ...)")
      ->type_name("DIR");
  command->add_flag("--overwrite", arguments->overwrite, "replace the results in that folder");
  arguments->comparing.add_to(*command);
  command->footer(
      "Example: attest ab --before old/flash.so --after new/flash.so vit --quick\n"
      "Two builds of attest: attest ab --before-attest old/attest --after-attest new/attest vit "
      "--impl flash_cpu\n"
      "One plugin, two environments: attest ab --before my.so --after my.so --after-env "
      "OMP_PROC_BIND=close vit\n"
      "This machine's own noise: attest ab --self-check --before my.so vit\n"
      "Ctrl-C compares the rounds that are over.\n"
      "Exit codes: those of attest compare; 130 if it was interrupted.");
  return [arguments, command] {
    arguments->command = command_line(*command);
    return run(*arguments);
  };
}

}  // namespace attest::cli
