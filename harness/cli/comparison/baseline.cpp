#include "cli/comparison/baseline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "cli/options/command_line.hpp"
#include "core/record/case_key.hpp"
#include "core/tensor/error.hpp"
#include "reports/compare/launches.hpp"
#include "reports/words/machine.hpp"

namespace attest::cli {
namespace {

using core::Record;
using core::Results;
using reports::launch_of;

/// What times have to share to be compared: kind of build, and the machines by device.
struct Origin {
  std::string build;
  std::map<std::string, std::set<std::string>> machines;

  explicit Origin(const Results& results) : build(reports::build(results)) {
    for (const Record& record : results.records)
      machines[record.device].insert(reports::machine(results, record));
  }
};

void require_same_origin(const Results& a, const Results& b, const char* remedy) {
  const Origin first(a), second(b);
  const auto refuse = [&](const std::string& what, const std::string& was, const std::string& is) {
    throw core::Error(fmt::format("{} is of another {} than {}: {}, not {}; {}", b.path, what,
                                  a.path, is, was, remedy));
  };
  if (first.build != second.build) refuse("kind of build", first.build, second.build);
  for (const auto& [device, machines] : second.machines)
    if (const auto at = first.machines.find(device);
        at != first.machines.end() && at->second != machines)
      refuse("machine", fmt::format("{}", fmt::join(at->second, " and ")),
             fmt::format("{}", fmt::join(machines, " and ")));
}

/// A copy of a file is no further launch.
void require_other_launches(const std::vector<Results>& fresh) {
  std::map<std::pair<core::CaseKey, std::string>, const Results*> seen;
  for (const Results& file : fresh)
    for (const Record& record : file.records) {
      const std::string& launch = launch_of(file, record);
      const auto [at, is_new] = seen.emplace(std::pair(question_of(record), launch), &file);
      if (!is_new && at->second != &file)
        throw core::Error(
            fmt::format("{} and {} are of one launch ({}), and both have {}; a baseline has each "
                        "launch once: leave out one of the files",
                        at->second->path, file.path, launch, question_of(record).name()));
    }
}

/// Launches of two builds show no noise. A record without a hash is of whichever build.
void require_one_build_of_each_case(const std::vector<Results>& fresh) {
  std::map<core::CaseKey, std::pair<std::string, const Results*>> seen;
  for (const Results& file : fresh)
    for (const Record& record : file.records) {
      if (record.plugin_hash.empty()) continue;
      const auto [at, is_new] =
          seen.emplace(question_of(record), std::pair(record.plugin_hash, &file));
      const auto& [hash, first] = at->second;
      if (is_new || hash == record.plugin_hash) continue;
      throw core::Error(fmt::format(
          "{} two builds of {}; the launches of a baseline are of one build: give the results of "
          "one",
          first == &file ? file.path + " has"
                         : fmt::format("{} and {} have", first->path, file.path),
          question_of(record).name()));
    }
}

/// What compares with a time that is zero or negative cannot be judged.
void require_times(const Results& file) {
  for (const Record& record : file.records) {
    if (!record.time) continue;
    if (const std::optional<double> bad = reports::bad_sample(record))
      throw core::Error(fmt::format(
          "{}: {}: a sample of its time is {:g} ns, which is no time; run it again, and give the "
          "new results",
          file.path, question_of(record).name(), *bad));
  }
}

/// "results.jsonl (2026-11-25T10:00:00Z, commit 1a2b3c4)".
std::string source_of(const Results& file) {
  const std::string commit = reports::fact(file, "build", "commit");
  return fmt::format("{} ({}{})", recorded_path(file.path), file.header.started,
                     commit.empty() ? "" : ", commit " + commit);
}

/// The launches of each case.
std::map<core::CaseKey, std::set<std::string>> launches_of(std::span<const Results> files) {
  std::map<core::CaseKey, std::set<std::string>> launches;
  for (const Results& file : files)
    for (const Record& record : file.records)
      launches[question_of(record)].insert(launch_of(file, record));
  return launches;
}

using Facts = std::map<std::string, std::map<std::string, std::string>>;

/// Removes the facts that `other` lacks or tells otherwise.
void keep_shared(Facts& facts, const Facts& other) {
  for (auto& [group, names] : facts) {
    const auto at = other.find(group);
    std::erase_if(names, [&](const auto& fact) {
      if (at == other.end()) return true;
      const auto same = at->second.find(fact.first);
      return same == at->second.end() || same->second != fact.second;
    });
  }
  std::erase_if(facts, [](const auto& group) { return group.second.empty(); });
}

}  // namespace

void require_one_baseline(const std::optional<Results>& old, const std::vector<Results>& fresh) {
  for (const Results& file : fresh) {
    if (!file.complete)
      throw core::Error(
          fmt::format("{}: its run was cut short; finish it with attest run --resume", file.path));
    require_same_origin(fresh.front(), file, "give results of one machine and build");
    if (old) require_same_origin(*old, file, "--replace begins a new baseline");
    require_times(file);
  }
  require_other_launches(fresh);
  require_one_build_of_each_case(fresh);
}

std::vector<std::string> bad_records(const std::vector<Results>& results) {
  std::vector<std::string> bad;
  for (const Results& file : results)
    for (const Record& record : file.records)
      if (record.outcome.is_bad())
        bad.push_back(fmt::format("{}: {}: {}", file.path, question_of(record).name(),
                                  name(record.outcome.verdict())));
  return bad;
}

std::vector<std::string> lost_launches(const Results& old, const std::vector<Results>& fresh) {
  const auto before = launches_of({&old, 1}), now = launches_of(fresh);
  std::map<std::pair<size_t, size_t>, std::vector<std::string>> cases;  // by both numbers
  for (const auto& [key, launches] : now)
    if (const auto at = before.find(key); at != before.end() && at->second.size() > launches.size())
      cases[{at->second.size(), launches.size()}].push_back(key.name());
  std::vector<std::string> lost;
  for (const auto& [numbers, names] : cases) {
    const size_t more = names.size() - 1;
    lost.push_back(fmt::format("{} launches by {} in {} case{} ({}{})", numbers.first,
                               numbers.second, names.size(), more == 0 ? "" : "s", names.front(),
                               more == 0 ? "" : fmt::format(" and {} more", more)));
  }
  return lost;
}

Results updated_baseline(const std::optional<Results>& old, const std::vector<Results>& fresh,
                         const std::string& now) {
  Results baseline = fresh.front();
  std::set<core::CaseKey> updated;
  std::set<std::string> launches;
  std::string from;
  baseline.records.clear();
  for (const Results& file : fresh) {
    from += fmt::format("{}{}", from.empty() ? "" : "; ", source_of(file));
    keep_shared(baseline.header.environment, file.header.environment);
    baseline.header.started = std::max(baseline.header.started, file.header.started);
    for (const Record& record : file.records) {
      updated.insert(question_of(record));
      baseline.records.push_back(record);
      baseline.records.back().launch = launch_of(file, record);
      launches.insert(launch_of(file, record));
    }
  }
  std::vector<Record> kept;
  if (old)
    for (const Record& record : old->records)
      if (!updated.contains(question_of(record))) {
        kept.push_back(record);
        kept.back().launch = launch_of(*old, record);
      }
  Facts& facts = baseline.header.environment;
  if (!kept.empty()) {
    keep_shared(facts, old->header.environment);
    std::string when = reports::fact(*old, "baseline", "updated");
    if (when.empty()) when = old->header.started;
    facts["baseline"] = {{"kept", fmt::format("{} records of {}", kept.size(), when)}};
  } else {
    facts.erase("baseline");
  }
  facts["baseline"]["updated"] = now;
  facts["baseline"]["from"] = from;
  facts["baseline"]["launches"] = std::to_string(launches.size());
  baseline.records.insert(baseline.records.begin(), kept.begin(), kept.end());
  baseline.closing = core::Closing::of(baseline.records, now);
  return baseline;
}

void write_baseline(const std::string& path, const Results& baseline) {
  const std::string partial = path + ".partial";
  std::ofstream out(partial, std::ios::trunc | std::ios::binary);
  const auto write = [&](const nlohmann::json& line) {
    out << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  };
  std::error_code error;
  if (out) {
    write(to_json(baseline.header));
    for (const Record& record : baseline.records) write(to_json(record));
    write(to_json(baseline.closing));
    out.close();
    if (out) std::filesystem::rename(partial, path, error);
    if (out && !error) return;
    std::filesystem::remove(partial, error);
  }
  throw core::MachineError(fmt::format("{}: cannot be written", path));
}

}  // namespace attest::cli
