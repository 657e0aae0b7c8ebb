// What a worker does on request: query, one judged run, timed runs.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.hpp"
#include "core/isolation/memory/buffers.hpp"
#include "core/isolation/messages/messages.hpp"
#include "core/isolation/status_page.hpp"
#include "core/worker/loader.hpp"
#include "core/worker/mapped.hpp"
#include "core/worker/watch.hpp"

namespace attest::core {

class TimedDevice;

class Executor {
 public:
  /// Loads the plugin. Floating-point modes that it changes while loading are restored and noted.
  Executor(const std::string& plugin_path, StatusPage& status);

  const std::vector<attest_impl>& tables() const { return plugin_.tables(); }
  /// Which floating-point modes the library changed when it was loaded: "flush-to-zero"; "": none.
  const std::string& modes_changed_at_load() const { return modes_changed_at_load_; }

  /// One request, one reply. Throws what mapping tensors throws.
  Reply execute(const Request& request, const std::vector<Descriptor>& descriptors);
  /// Gives back memory that `execute` has put out of reach, and maps that it has kept. Called when
  /// the reply has been sent, so that the harness judges meanwhile.
  void clean_up();

 private:
  struct Call;
  using Descriptors = std::vector<Descriptor>;
  Reply::Result perform(Call& call, const QueryRequest& request, const Descriptors& descriptors);
  Reply::Result perform(Call& call, const RunRequest& request, const Descriptors& descriptors);
  Reply::Result perform(Call& call, const TimeRequest& request, const Descriptors& descriptors);
  Reply::Result perform(Call& call, const ScriptRequest& request, const Descriptors& descriptors);
  Reply::Result perform(Call& call, const PacedRequest& request, const Descriptors& descriptors);
  Reply::Result run_on_device(Call& call, const MappedTensors& inputs,
                              const MappedTensors& outputs);
  template <class Body>
  Reply::Result with_plan(Call& call, const Body& body);
  struct Audited;
  template <class Runs, class MeasurePlan>
  Reply::Result measure(Call& call, Audited& audited, const Runs& runs,
                        const MeasurePlan& measure_plan);

  /// Puts into the reply what a device said of timed runs.
  void note_device(const TimedDevice& device);
  /// Takes a run's tensors out of reach and keeps their addresses from new ones for some time.
  /// clean_up unmaps them, which takes time.
  void retire(Mapping& mapping);

  /// The device of a call, opened when first needed.
  Device& device(const Call& call);
  /// Waits for it; a status of its own where that fails.
  attest_status finish_on_device(const Call& call, attest_status status);

  StatusPage& status_;
  std::map<int32_t, std::unique_ptr<Device>> devices_;  // by the number of their kind
  Reply reply_;                                         // to the request at hand
  std::string modes_changed_at_load_;
  Watch watch_;
  Mapping retired_[kRetired];
  size_t newly_retired_ = 0;  // since the last clean_up
  LoadedPlugin plugin_;
};

}  // namespace attest::core
