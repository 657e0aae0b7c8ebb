// A session: every job of a plan on every implementation, record by record into a sink.
//
//   Implementations implementations(selection, options.limits);
//   Session session(plan_suites({"vit"}, {}), implementations, options);
//   session.run(sink);
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/session/coverage.hpp"
#include "core/session/implementations.hpp"
#include "core/session/open_job.hpp"

namespace attest::core {

/// Takes the records of a session as they are made.
class Sink {
 public:
  virtual ~Sink() = default;
  /// What is begun now: "vit/vit_b_16_224/self f16 flash_cpu".
  virtual void starting(const std::string& /*what*/) {}
  /// What an earlier part of the run says of that, which is not done again; null: nothing.
  virtual const Record* earlier(const CaseKey& /*key*/) { return nullptr; }
  /// A new record, which the sink may complete. `entry` is null for a reference.
  virtual void finished(const Job& job, const Registry::Entry* entry, Record& record) = 0;
};

/// Where the time of a session went.
struct Shares {
  double total_s = 0, implementations_s = 0, judging_s = 0, inputs_s = 0;
};

class Session {
 public:
  /// `implementations` must outlive it. `cancelled` is asked between records and may be null.
  /// Throws Error: a token file that makes no sense; a case is for implementations that are not
  /// loaded.
  Session(Plan plan, const Implementations& implementations, const RunOptions& options,
          const std::vector<std::string>& token_files = {}, bool (*cancelled)() = nullptr);

  const Plan& plan() const { return plan_; }
  /// Records that a whole run has at most.
  size_t most_records() const;
  /// What makes it the run that it is, for whoever goes on with it.
  Identity identity() const;

  /// Runs all. Throws Error: tokens that cannot be loaded.
  void run(Sink& sink);
  /// In the order of the plan; those that the sink had earlier among them.
  const std::vector<Record>& records() const { return records_; }
  NeverJudged never_judged() const;
  const Shares& shares() const { return shares_; }

  /// One record by itself: of an implementation, or of a vector's reference (`entry` null). Jobs
  /// and entries in the order of a run share their inputs. Never throws for what can be a record.
  Record run_one(size_t job, const Registry::Entry* entry);

 private:
  void run_case(const Job& job, Sink& sink);
  void run_vector(const Job& job, Sink& sink);
  std::vector<Registry::Entry> left_to_do(const Job& job, const std::string& dtype, Sink& sink);
  void run_entries(const Job& job, const std::string& dtype,
                   const std::vector<Registry::Entry>& entries, OpenJob& open, Sink& sink);
  bool add_earlier(const CaseKey& key, Sink& sink);
  void add(const Job& job, const Registry::Entry* entry, Record record, Sink& sink);
  void note_shares(const OpenJob& open);
  void check_impls() const;

  Plan plan_;
  const Implementations& implementations_;
  RunOptions options_;
  TokenStore tokens_;
  bool (*cancelled_)();
  Rates rates_;
  std::vector<Record> records_;
  Shares shares_;

  // The job that run_one had last.
  size_t open_index_ = 0;
  std::unique_ptr<OpenJob> open_;
  std::optional<Record> open_reference_;
};

}  // namespace attest::core
