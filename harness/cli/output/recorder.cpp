#include "cli/output/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/output/header.hpp"
#include "cli/output/repro_line.hpp"
#include "core/measure/limits/probe.hpp"
#include "reports/formats.hpp"

namespace attest::cli {

Recorder::Recorder(const JudgingOptions& options, const core::Implementations& implementations,
                   const core::Session& session)
    : options_(options), implementations_(implementations) {
  if (!options.resume.empty()) earlier_ = core::EarlierResults(options.resume);
  tokens_ = earlier_.tokens();
  begin(session);
  const size_t most = session.most_records();
  progress_.emplace(most - std::min(earlier_.count(), most));
  if (!options.shows_progress) return;
  std::vector<std::string> impls;
  for (const core::Registry::Entry& entry : implementations.chosen())
    impls.push_back(entry.implementation->name);
  table_.emplace(impls, wants_colour(stdout));
}

// A table that grows is how a run shows that it works, wherever it is printed to.
void Recorder::show(const core::Record& record) {
  if (!table_) return;
  const std::string row = table_->add(record);
  if (row.empty()) return;
  if (progress_) progress_->clear();
  print((has_rows_ ? "" : table_->heading()) + row);
  has_rows_ = true;
}

// The reader of standard output may be gone. The results file still gets every record.
void Recorder::print(const std::string& text) {
  if (output_lost_) return;
  output_lost_ = std::fputs(text.c_str(), stdout) == EOF || std::fflush(stdout) == EOF;
}

void Recorder::end_table(const std::vector<core::Record>& records) {
  progress_.reset();
  if (!table_) return;
  print((has_rows_ ? "" : table_->heading()) + table_->ending(records));
  if (output_lost_) throw core::MachineError("standard output cannot be written to");
}

void Recorder::print_all(const std::vector<core::Record>& records, bool complete) {
  progress_.reset();
  print(reports::find_format(options_.format)
            .print(reports::make_input({results(records, complete)}),
                   {.colour = wants_colour(stdout)}));
  if (output_lost_) throw core::MachineError("standard output cannot be written to");
}

void Recorder::begin(const core::Session& session) {
  const std::string path = options_.results_path();
  if (path.empty() && options_.table.empty() && !options_.probes_machine) return;
  header_ = make_header(options_.command, implementations_, options_.plugins.limits.threads);
  if (!options_.untimed) {
    rooflines_.emplace(options_.plugins.limits.threads);
    header_.environment["limits"] = facts(rooflines_->machine());
  }
  if (path.empty()) return;
  const core::Identity identity = options_.identity(session);
  header_.environment["identity"] = identity;
  if (earlier_.begun()) earlier_.require_same(identity);
  results_.emplace(path, off_t(earlier_.bytes()));
  if (!earlier_.begun()) return results_->write(to_json(header_));
  fmt::print(stderr, "attest: {} records of {} are kept{}\n", earlier_.count(), path,
             earlier_.complete() ? ", and it is complete" : "");
  if (!earlier_.complete())
    results_->write({{"type", "resumed"}, {"started", utc_now()}, {"kept", earlier_.count()}});
}

core::Results Recorder::results(const std::vector<core::Record>& records, bool complete) const {
  core::Results results;
  results.path = options_.results_path();
  results.header = header_;
  results.records = records;
  results.tokens = tokens_;
  results.begun = true;
  results.complete = complete;
  return results;
}

void Recorder::expect(size_t more) {
  if (progress_) progress_->expect(more);
}

void Recorder::tokens(const core::TokenPicture& picture) {
  const bool is_new = tokens_.try_emplace(picture.inputs, picture).second;
  if (is_new && results_) results_->write(to_json(picture));
}

void Recorder::starting(const std::string& what) {
  if (progress_) progress_->start(what);
}

const core::Record* Recorder::earlier(const core::CaseKey& key) {
  const core::Record* record = earlier_.take(key);
  if (record) show(*record);
  has_bad_ |= record && record->outcome.is_bad();
  return record;
}

void Recorder::finished(const core::Job& job, const core::Registry::Entry* entry,
                        core::Record& record) {
  std::string impl = entry ? entry->implementation->name : "";
  // An implementation that shares its name is chosen by that of its plugin too.
  if (entry && implementations_.shared_names().contains(impl))
    impl = entry->own_name + "@" + record.plugin;
  record.repro = repro_line(options_, job, impl, record);
  if (rooflines_) rooflines_->add(record);
  if (results_) results_->write(to_json(record));
  has_bad_ |= record.outcome.is_bad();
  if (progress_) progress_->finish();
  show(record);
}

void Recorder::close(const std::vector<core::Record>& records,
                     const core::NeverJudged& never_judged) {
  if (!results_ || earlier_.complete()) return;
  core::Closing closing = core::Closing::of(records, utc_now());
  closing.never_judged = never_judged;
  results_->write(to_json(closing));
}

}  // namespace attest::cli
