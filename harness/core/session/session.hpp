// A session runs every job of a plan on every implementation and passes the records to a sink.
//
//   Implementations implementations(selection, options.limits);
//   Session session(plan_suites({"vit"}, {}), implementations, options);
//   session.run(sink);
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/record/races.hpp"
#include "core/record/token_picture.hpp"
#include "core/session/coverage.hpp"
#include "core/session/implementations.hpp"
#include "core/session/open_job.hpp"

namespace attest::core {

/// Receives the records of a session.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Called before work begins. `what`: "vit/vit_b_16_224/self f16 flash_cpu".
  virtual void starting(const std::string& /*what*/) {}
  /// The record of a run that is being resumed; the session then does not make it again. Null:
  /// there is none.
  virtual const Record* earlier(const CaseKey& /*key*/) { return nullptr; }
  /// Called with the tokens of a sweep before the records that have them.
  virtual void tokens(const TokenPicture& /*picture*/) {}
  /// Called with each new record; the sink may add to it. `entry` is null for a reference.
  virtual void finished(const Job& job, const Registry::Entry* entry, Record& record) = 0;
  /// Asked between records; if false, the session makes no more of them.
  virtual bool wants_more() const { return true; }
};

/// How a session spent its time, in seconds.
struct Shares {
  double total_s = 0, implementations_s = 0, judging_s = 0, inputs_s = 0;
  /// Frames by a clock and windows of energy, with the waits that belong to them.
  double pacing_s = 0;

  void add(const Shares& other);
  /// What the harness itself took: the rest.
  double harness_s() const;
};

class Session {
 public:
  /// `implementations` must outlive this object. The session calls `cancelled` between records and
  /// stops if it returns true; it may be null. Throws Error: an invalid token file, or a case for
  /// implementations of which none is loaded.
  Session(Plan plan, const Implementations& implementations, const RunOptions& options,
          const std::vector<std::string>& token_files = {}, bool (*cancelled)() = nullptr);

  const Plan& plan() const { return plan_; }
  /// A line for each implementation that a case is for, beside others, and that is not loaded.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// The largest number of records that a complete run can have.
  size_t most_records() const;
  /// The identity of this run. A results file can only be resumed by a run with the same identity.
  Identity identity() const;

  /// Adds jobs to the plan, for the next call of run().
  void extend(Plan&& more);
  /// Runs all jobs that were not run yet. One whose inputs cannot be made gets records with
  /// kErrorInputs. Throws Error if one of `token_files` cannot be read; it is then thrown before
  /// the first job.
  void run(Sink& sink);
  /// All records in the order of the plan, including those of Sink::earlier. One that passes after
  /// a race of its implementation is suspect; overrule_races does the same to those before.
  const std::vector<Record>& records() const { return records_; }
  /// Whether run() has made all records of the plan; false if it stopped before.
  bool completed() const { return completed_; }
  NeverJudged never_judged() const;
  const Shares& shares() const { return shares_; }

  /// Makes one record, of an implementation or of a vector's reference (`entry` null). Consecutive
  /// calls with the same job share its inputs. Throws only if no record can be made.
  Record run_one(size_t job, const Registry::Entry* entry);

 private:
  void run_case(const Job& job, Sink& sink);
  void run_vector(const Job& job, Sink& sink);
  std::vector<Registry::Entry> left_to_do(const Job& job, const std::string& dtype, Sink& sink);
  void run_entries(const Job& job, const std::string& dtype,
                   const std::vector<Registry::Entry>& entries, OpenJob& open, Sink& sink);
  void show_tokens(const std::string& line, Sink& sink);
  bool add_earlier(const CaseKey& key, Sink& sink);
  bool stops(const Sink& sink);
  Record without_luck(Record record);
  void add(const Job& job, const Registry::Entry* entry, Record record, Sink& sink);
  void note_shares(const OpenJob& open);
  void check_impls();
  void note_warning(std::string text);
  void read_users_files();

  Plan plan_;
  size_t next_job_ = 0;  // the first that run() has not run
  const Implementations& implementations_;
  RunOptions options_;
  TokenStore tokens_;
  bool (*cancelled_)();
  Rates rates_;
  Races races_;
  std::vector<Record> records_;
  std::vector<std::string> warnings_;
  std::set<std::string> shown_tokens_;  // TokenPicture::inputs
  bool completed_ = false;
  Shares shares_;

  // The job of the last call of run_one.
  size_t open_index_ = 0;
  std::unique_ptr<OpenJob> open_;
  std::optional<Record> open_reference_;
};

}  // namespace attest::core
