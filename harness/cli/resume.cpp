#include "cli/resume.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/header.hpp"
#include "core/isolation/worker_process.hpp"
#include "core/measure/environment.hpp"
#include "core/record/results.hpp"
#include "core/tensor/error.hpp"

namespace attest::cli {

namespace {

std::string hash_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return core::hex(core::hash_text(std::string(std::istreambuf_iterator<char>(file), {})));
}

std::string describe(const Session& session) {
  const core::RunOptions& o = session.options;
  return fmt::format(
      "threads {} timeout {:g} memory {:g} budget {:g} case-limit {:g} min-arithmetic '{}' fill "
      "'{}' relations {}{}{}",
      o.threads, o.timeout_s, session.plugins.memory_gib, o.budget_s, o.case_limit_s, session.least,
      fmt::join(o.fills, ","), int(o.relations), o.timed ? "" : " judge-only",
      session.host_golden ? " host-golden" : "");
}

std::string key(const std::string& suite, const std::string& case_name, const std::string& dtype,
                const std::string& impl) {
  return suite + '\n' + case_name + '\n' + dtype + '\n' + impl;
}

}  // namespace

std::string hash_files(const std::vector<std::string>& paths) {
  std::string all;
  for (const std::string& path : paths) all += hash_file(path) + " ";
  return all.empty() ? "none" : all.substr(0, all.size() - 1);
}

Identity identify(const Session& session, const std::vector<core::Registry::Entry>& chosen) {
  std::string implementations;
  for (const core::Registry::Entry& entry : chosen)
    implementations +=
        fmt::format("{}{}:{}", implementations.empty() ? "" : " ", entry.implementation->name,
                    core::hex(entry.implementation->binary_hash));
  const core::Environment environment = core::read_environment();
  const auto cpu = environment.find("cpu");
  return {{"attest", hash_file("/proc/self/exe") + " " + hash_file(core::find_worker())},
          {"options", describe(session)},
          {"implementations", implementations},
          {"cpu", cpu != environment.end() && cpu->second.count("model") ? cpu->second.at("model")
                                                                         : "unknown"}};
}

Identity identify(const std::vector<Job>& jobs, const Session& session,
                  const std::vector<core::Registry::Entry>& chosen) {
  std::string cases;
  for (const Job& job : jobs)
    cases += fmt::format("{}/{} {} {}\n", job.suite, job.wanted->name, core::dtype_name(job.dtype),
                         job.budget_s);
  Identity identity = identify(session, chosen);
  identity["suites"] = hash_files(session.suite_files);
  identity["cases"] = fmt::format("{} ({})", jobs.size(), core::hex(core::hash_text(cases)));
  identity["tokens"] = hash_files(session.token_files);
  return identity;
}

EarlierResults::EarlierResults(const std::string& path) : path_(path) {
  if (!std::filesystem::exists(path)) return;
  core::Results results;
  try {
    results = core::read_results(path);
  } catch (const core::Error& error) {
    throw core::Error(fmt::format("--resume {}", error.what()));
  }
  begun_ = results.begun, complete_ = results.complete, bytes_ = off_t(results.bytes);
  identity_ = results.header.environment["identity"];
  for (core::Record& record : results.records) {
    const std::string name = key(record.suite, record.case_name, record.dtype, record.impl);
    records_.emplace(name, std::move(record));
  }
}

void EarlierResults::require_same(const Identity& identity) const {
  for (const auto& [name, here] : identity) {
    const auto there = identity_.find(name);
    if (there != identity_.end() && there->second == here) continue;
    throw core::Error(
        fmt::format("--resume {}: another run: {}: '{}' there, '{}' here; give the same arguments "
                    "or another file",
                    path_, name, there == identity_.end() ? "not recorded" : there->second, here));
  }
}

const core::Record* EarlierResults::take(const std::string& suite, const std::string& case_name,
                                         const std::string& dtype, const std::string& impl) {
  const auto found = records_.find(key(suite, case_name, dtype, impl));
  if (found == records_.end()) return nullptr;
  return &taken_.insert(records_.extract(found))->second;
}

ResultsFile begin_results(const Identity& identity, const Session& session,
                          const EarlierResults& earlier) {
  if (session.results_path.empty()) return ResultsFile("");
  if (earlier.begun()) earlier.require_same(identity);
  ResultsFile results(session.results_path, earlier.bytes());
  if (!earlier.begun()) {
    core::Header header = make_header(session.command, session.plugins);
    header.environment["identity"] = identity;
    results.write(to_json(header));
  } else {
    fmt::print(stderr, "attest: {} records of {} are kept{}\n", earlier.count(),
               session.results_path, earlier.complete() ? ", and it is complete" : "");
    if (!earlier.complete())
      results.write({{"type", "resumed"}, {"started", utc_now()}, {"kept", earlier.count()}});
  }
  return results;
}

void note_speed(const core::Record& record, core::Rates& rates) {
  for (const core::FillRecord& fill : record.fills)
    if (fill.judgement.verdict == core::Verdict::kPass)
      rates.note(record.impl, record.dtype + record.features, record.flops, fill.run_ns);
}

}  // namespace attest::cli
