// What a worker does on request: query, one judged run, timed runs.
#pragma once
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/device/device.hpp"
#include "core/isolation/buffers.hpp"
#include "core/isolation/channel.hpp"
#include "core/isolation/status_page.hpp"
#include "core/worker/loader.hpp"
#include "core/worker/mapped.hpp"
#include "core/worker/watch.hpp"

namespace attest::core {

class Executor {
 public:
  /// Loads the plugin. Floating-point modes that it changes while loading are restored and noted.
  Executor(const std::string& plugin_path, StatusPage& status);

  const std::vector<attest_impl>& tables() const { return plugin_.tables(); }
  /// Which floating-point modes the library changed when it was loaded: "flush-to-zero"; "": none.
  const std::string& modes_changed_at_load() const { return modes_changed_at_load_; }

  /// One request, one reply. "query": status, support (bytes), message. "run": inputs and outputs
  /// by descriptor; status, stage, message, create_ns, run_ns, peak_bytes. "time": the same with
  /// samples; the last outputs lie in the shared ones. "script": several plans, by the steps of
  /// script.hpp. Every reply has what the calls did to the process besides: exception, findings,
  /// notes, more_threads.
  nlohmann::json execute(const nlohmann::json& request, const std::vector<Descriptor>& descriptors);

 private:
  struct Call;
  nlohmann::json query(Call& call);
  nlohmann::json run(Call& call, const nlohmann::json& request,
                     const std::vector<Descriptor>& descriptors);
  nlohmann::json run_on_device(Call& call, const MappedTensors& inputs,
                               const MappedTensors& outputs);
  nlohmann::json time(Call& call, const nlohmann::json& request,
                      const std::vector<Descriptor>& descriptors);
  nlohmann::json script(Call& call, const nlohmann::json& request,
                        const std::vector<Descriptor>& descriptors);
  template <class Body>
  nlohmann::json with_plan(Call& call, const Body& body);

  /// Takes a run's tensors out of reach and keeps their addresses from new ones for some time.
  void retire(Mapping& mapping);

  /// The device of a call, opened when first needed.
  Device& device(const Call& call);
  /// Waits for it; a status of its own where that fails.
  attest_status finish_on_device(const Call& call, attest_status status);

  StatusPage& status_;
  std::map<int32_t, std::unique_ptr<Device>> devices_;  // by the number of their kind
  std::string device_fault_;                            // of this request, in the driver's words
  bool waits_for_device_ = false;
  std::vector<std::string> device_notes_;  // of this request
  std::string modes_changed_at_load_;
  Watch watch_;
  Mapping retired_[kRetired];
  LoadedPlugin plugin_;
};

}  // namespace attest::core
