// The harness's side of a plugin: a worker process that loads it, started again when it dies.
#pragma once
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/isolation/death.hpp"
#include "core/isolation/messages/messages.hpp"
#include "core/isolation/messages/script.hpp"
#include "core/isolation/worker_process.hpp"

namespace attest::core {

/// One table of a plugin, as a value of the harness.
struct Implementation {
  std::string name, version, summary;
  std::string plugin;        // file name of the library
  uint64_t binary_hash = 0;  // XXH3 of the library file
  size_t table = 0;
  int32_t operation = 0, device = ATTEST_CPU;
  uint64_t dtypes = 0, features = 0;
};

/// Returns the shell command that compiles a C, C++ or CUDA source into a plugin. `folder` is the
/// folder of attest.h, quoted for the shell if it needs that.
std::string compile_command(const std::filesystem::path& source, const std::string& folder);

/// "f32,f16" for a set of ATTEST_BIT(dtype).
std::string print_dtypes(uint64_t bits);

/// "" when the table lists all that the problem needs, else what it lacks, by name. The host
/// refuses by this alone, so that an old plugin is never asked about a feature that it does not
/// know.
std::string refuses(const Implementation& implementation, const Problem& problem);

/// A reply of the worker, or why there is none.
template <class Said>
struct ResultOf : Said {
  std::optional<Outcome> failure;
};
using QueryResult = ResultOf<QueryReply>;
using RunResult = ResultOf<RunReply>;
using TimeResult = ResultOf<TimeReply>;
using ScriptResult = ResultOf<ScriptReply>;
using PacedResult = ResultOf<PacedReply>;

/// The tensors of runs some of which are audited.
struct AuditedTensors {
  const SharedTensors &inputs, &outputs;
  const SharedTensors& differing;  // for outputs of a second run on `inputs`, should they differ
  const SharedTensors* second_inputs = nullptr;  // and their outputs; or neither
  const SharedTensors* second_outputs = nullptr;
};

/// What is timed.
struct TimingTask {
  double expected_ns = 0;  // of one run, as measured
  double budget_ns = 0;    // of all samples
  uint64_t seed = 0;       // of what is audited when
};

/// Runs that follow one another, or that a clock releases. See PacedRequest.
struct PacedTask {
  double expected_ns = 0;  // of one run, as measured
  double period_ns = 0, window_ns = 0;
  uint64_t frames = 0, seed = 0;
  const std::atomic<bool>* stopped = nullptr;  // if not null: runs end soon after it turned true
};

class Plugin {
 public:
  /// Starts a worker for the library at `path`, without waiting for it.
  Plugin(const std::filesystem::path& path, const WorkerOptions& options);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  /// Tells the worker to end, after which only the destructor may be called, and that soon: it
  /// waits for what is left of the end.
  void dismiss() {
    if (worker_) worker_->dismiss();
  }

  /// Waits for the worker to have loaded it. Throws Error: what is wrong with the library, in one
  /// line.
  const std::vector<Implementation>& implementations();
  const std::string& file_name() const { return file_name_; }
  const std::filesystem::path& path() const { return path_; }
  const WorkerOptions& options() const { return options_; }
  /// Notes on what is no failure but worth knowing, since the last call of this: modes changed at
  /// load, a flood of output (which is cut), children that it started before it ran, a worker that
  /// ended between two requests.
  std::vector<std::string> habits();
  /// What its worker has loaded now (libraries.hpp); 0: it is gone.
  uint64_t libraries_hash() { return worker_ ? worker_->libraries_hash() : 0; }

  QueryResult query(const Implementation& implementation, const Problem& problem);
  /// `trims`: the worker first gives memory that earlier runs have freed back to the system, so
  /// that RunReply::peak_bytes does not miss what is taken from it.
  RunResult run(const Implementation& implementation, const Problem& problem,
                const SharedTensors& inputs, const SharedTensors& outputs, bool trims = false);
  TimeResult time(const Implementation& implementation, const Problem& problem,
                  const AuditedTensors& tensors, const TimingTask& task);
  PacedResult pace(const Implementation& implementation, const Problem& problem,
                   const AuditedTensors& tensors, const PacedTask& task);
  /// `expected_ns`: of all its runs.
  ScriptResult script(const Implementation& implementation, const Script& script,
                      double expected_ns);
  /// Seconds that calls into the plugin took since the last call of this, in all processes of its
  /// own, but for timed and paced runs: their results tell.
  double take_calls_s() { return std::exchange(calls_s_, 0); }
  /// Counts as its own what calls took in another process with this plugin.
  void count_calls_of(Plugin& other) { calls_s_ += other.take_calls_s(); }
  /// What has been tried with this plugin, where once is enough for all of its cases.
  bool has_tried(const std::string& what) const { return tried_.contains(what); }
  void note_tried(const std::string& what) { tried_.insert(what); }
  /// The failure that has ended the worker since its last reply, if any. A thread that uses the
  /// tensors after run returned ends it, even while a later run goes on.
  std::optional<Outcome> ended_since_reply(const Problem& problem);
  /// The same, when nothing more will be asked about `problem`. Where a call has left new threads,
  /// this waits until they have had 30 ms to use the tensors.
  std::optional<Outcome> settle(const Problem& problem);

 private:
  struct Waiting;
  std::optional<Outcome> ready(const Implementation& implementation, const Problem& problem);
  std::optional<Outcome> ended_idle(const Implementation& implementation, const Problem& problem);
  std::optional<Outcome> greet();
  void keep_tables(const std::vector<PluginTable>& tables);
  Waiting waiting(uint64_t tensor_bytes) const;
  Waiting waiting_for_many(const AuditedTensors& tensors, double runs_ns) const;
  uint64_t memory_limit(uint64_t tensor_bytes, uint64_t resident) const;
  template <class Said>
  ResultOf<Said> call(const Implementation& implementation,
                      const std::vector<const Problem*>& problems, const Waiting& waiting,
                      decltype(Request::wanted) wanted, std::span<const int> descriptors);
  std::optional<Outcome> exchange(Request request, std::span<const int> descriptors, Reply& reply,
                                  const Problem& problem, const Waiting& waiting);
  void count_calls(const Reply& reply);
  std::optional<Outcome> await(Reply& reply, const Problem& problem, const Waiting& waiting);
  std::optional<Outcome> look(uint64_t& most_bytes, const Waiting& waiting,
                              Clock::time_point deadline);
  std::optional<Outcome> reported_failure(const Reply& reply, const Problem& problem);
  std::optional<Outcome> ended_by(Clock::time_point deadline, const Problem& problem);
  void note(std::string text);

  std::filesystem::path path_;
  std::string file_name_;
  WorkerOptions options_;
  std::vector<Implementation> implementations_;
  std::unique_ptr<Worker> worker_;  // null after its end, until the next call
  bool greeted_ = false;
  Clock::time_point settled_at_{};  // until then threads may go on after run returned
  uint64_t sequence_ = 0;
  uint64_t plan_ns_ = 0;  // of the worker, as its status page told last
  double calls_s_ = 0;
  size_t last_table_ = 0;  // that a request was about
  std::vector<std::string> notes_;
  std::set<std::string> tried_;
};

}  // namespace attest::core
