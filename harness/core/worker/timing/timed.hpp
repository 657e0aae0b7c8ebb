// The timed runs of one request, and the audit among them: runs chosen at random whose outputs the
// harness judges.
//
// Nothing tells an implementation which runs these are. Between samples, at random: the outputs are
// scrambled, the inputs become another set at the same addresses and back, and runs are repeated;
// the outputs of such runs go to the harness. During samples up to 64 elements of the inputs change
// from run to run, so that no run has inputs that were seen before.
#pragma once
#include "core/isolation/messages/messages.hpp"
#include "core/tensor/stopwatch.hpp"
#include "core/worker/timing/timed_device.hpp"
#include "core/worker/timing/timed_tensors.hpp"

namespace attest::core {

/// Where the harness gets outputs: of the first set, of another run on it that differs, of the
/// second set (null: there is none).
struct AuditedOutputs {
  const MappedTensors &first, &differing;
  const MappedTensors* second = nullptr;
};

class TimedRuns {
 public:
  /// All must outlive this. `device`: where the implementation's tensors are; null: the host.
  TimedRuns(TimedTensors& tensors, const AuditedOutputs& outputs, const TimeRequest& request,
            TimedDevice* device, FlushFile flush_file);

  /// Runs the plan as long as the request says.
  TimeReply measure(const attest_impl& table, void* plan);
  /// ATTEST_OK, or the status of the first run that failed. No run follows a failed one.
  attest_status status() const { return status_; }
  /// Whether the outputs are as the last run left them. Call it after measure, and again after
  /// destroy.
  bool outputs_stay();

 private:
  void call();
  void call_beside();
  void enqueue();
  attest_status launch();
  DeviceTiming measure_on_device(const TimingRequest& timing);
  std::optional<uint64_t> hash_of_replay();
  bool replay_agrees();
  void maybe_audit();
  void audit(bool second);
  void capture(bool second);
  void plan_audits();
  void audit_the_rest();

  TimedTensors& tensors_;
  AuditedOutputs outputs_;
  Dice dice_;
  double expected_ns_, budget_ns_;
  bool brief_, slow_;  // audited often; every run counts
  TimedDevice* device_;
  FlushFile flush_file_;
  const attest_impl* table_ = nullptr;
  void* plan_ = nullptr;
  attest_status status_ = ATTEST_OK;
  struct Planned {
    double at_ns;
    bool second;
  };
  std::vector<Planned> planned_;  // audits still to be made, the next one last
  Clock::time_point start_;
  int64_t audited_ = 0;
  double audits_ns_ = 0;  // of runs that are none of the samples
  bool captured_ = false, differs_ = false, second_audited_ = false, stale_ = false;
};

}  // namespace attest::core
