// What a worker does for a script: maps its tensors, follows its steps, and destroys what is still
// alive.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/isolation/messages/messages.hpp"
#include "core/worker/device_tensors.hpp"
#include "core/worker/mapped.hpp"

namespace attest::core {

class Scripted {
 public:
  struct Surroundings {
    const attest_impl& table;
    std::vector<const attest_problem*> problems;  // of the plans
    StatusPage& status;
    Device* device = nullptr;                            // null: the host
    std::function<attest_status(attest_status)> finish;  // waits for the device
    std::function<void(Mapping&)> retire;                // takes tensors out of reach
  };

  /// All must outlive this. Throws Error where the request is malformed.
  Scripted(Surroundings around, const ScriptRequest& request,
           const std::vector<Descriptor>& descriptors);
  ~Scripted();
  Scripted(const Scripted&) = delete;

  /// A ScriptReply, or the step that failed.
  Reply::Result play();
  /// What the last run did on the device, after which no other was made.
  const std::optional<DeviceTrespass>& trespass() const { return trespass_; }

 private:
  // Where a plan's tensors lie in some of its runs.
  struct Place {
    std::optional<MappedTensors> inputs, outputs;
    int32_t shown_inputs = -1, shown_outputs = -1;
    std::optional<DeviceTensors> on_device;
  };
  struct Plan {
    void* plan = nullptr;
    bool alive = false;
    int runs = 0;
    std::map<int32_t, Place> places;
  };
  attest_status create(const ScriptStep& step);
  attest_status run(const ScriptStep& step);
  attest_status run_on_device(const Plan& plan, Place& place, const attest_problem& problem);
  void destroy(Plan& plan);
  void show(const attest_problem& problem, Place& place, const ScriptStep& step);
  MappedTensors map(int32_t set, bool writable) const;
  std::string last_error() const;

  Surroundings around_;
  const ScriptRequest& request_;
  const std::vector<Descriptor>& descriptors_;
  std::vector<Plan> plans_;
  std::vector<double> run_ns_;
  std::optional<DeviceTrespass> trespass_;
};

}  // namespace attest::core
