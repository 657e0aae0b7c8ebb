#include "core/worker/executor.hpp"

#include <malloc.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/device/device_kinds.hpp"
#include "core/measure/machine/memory.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/stopwatch.hpp"
#include "core/worker/device_tensors.hpp"
#include "core/worker/float_mode.hpp"
#include "core/worker/guarded_table.hpp"
#include "core/worker/mapped.hpp"
#include "core/worker/scripted.hpp"
#include "core/worker/timing/paced.hpp"
#include "core/worker/timing/timed.hpp"
#include "core/worker/timing/timed_device.hpp"

namespace attest::core {

namespace {

constexpr const char* kRunStage = "run";  // of a FailedStep

template <class Request>
FlushFile flush_file(const Request& request, const std::vector<Descriptor>& descriptors) {
  return request.has_flush_file && !descriptors.empty() ? FlushFile{descriptors.back().get()}
                                                        : FlushFile{};
}

}  // namespace

/// One request's problem, or the problems of its plans, as the plugin gets them, in rooms of the
/// contract's sizes.
struct Executor::Call {
  struct Given {
    WireProblem wire;
    alignas(64) std::byte room[ATTEST_ROOM]{};

    explicit Given(const WireProblem& from) : wire(from) {
      auto& problem = *reinterpret_cast<attest_problem*>(room);
      problem.struct_size = sizeof(attest_problem);
      problem.operation = wire.operation;
      problem.device_id = wire.device_id;
      problem.threads = wire.threads;
      problem.params = wire.params;
      problem.tensor = wire.tensor;
      problem.features = wire.features;
    }
  };
  std::vector<std::unique_ptr<Given>> given;
  attest_impl table;
  const DeviceKind* kind;

  Call(const Request& request, const std::vector<attest_impl>& tables, StatusPage& status,
       Watch& watch) {
    if (request.problems.empty() || request.table >= tables.size())
      throw Error("malformed request");
    for (const WireProblem& wire : request.problems) given.push_back(std::make_unique<Given>(wire));
    table = guarded(tables[request.table], status, watch);
    kind = find_device_kind(table.device);
    watch.begin(request.table, wire().threads);
  }
  const WireProblem& wire() const { return given[0]->wire; }
  bool on_device() const { return kind && kind->own_memory; }
  const attest_problem* problem(size_t i = 0) const {
    return reinterpret_cast<const attest_problem*>(given[i]->room);
  }
  // last_error belongs to the plugin: it may be NULL or unending.
  std::string last_error() const {
    const char* text = table.last_error();
    return text ? std::string(text, strnlen(text, 1000)) : std::string();
  }
};

Executor::Executor(const std::string& plugin_path, StatusPage& status)
    : status_(status), plugin_([&] {
        const FloatModeGuard guard;
        LoadedPlugin plugin(plugin_path);
        modes_changed_at_load_ = guard.changes();
        return plugin;
      }()) {}

Reply::Result Executor::perform(Call& call, const QueryRequest& /*request*/,
                                const Descriptors& /*descriptors*/) {
  alignas(64) std::byte room[ATTEST_ROOM]{};
  auto& support = *reinterpret_cast<attest_support*>(room);
  support.struct_size = sizeof(attest_support);
  status_.stage = Stage::kQuery;
  const attest_status status = call.table.query(call.problem(), &support);
  support.reason[sizeof(support.reason) - 1] = 0;
  const bool answered = status == ATTEST_OK || status == ATTEST_UNSUPPORTED;
  return QueryReply{status, support, answered ? std::string() : call.last_error()};
}

/// Creates the plan, lets `body(plan, create_ns)` run it, and destroys it.
template <class Body>
Reply::Result Executor::with_plan(Call& call, const Body& body) {
  void* plan = nullptr;
  status_.stage = Stage::kCreate;
  const auto start = Clock::now();
  if (const attest_status status = call.table.create(call.problem(), &plan); status != ATTEST_OK) {
    if (call.on_device())
      finish_on_device(call, status);  // a fault of the device outlives the call
    return FailedStep{"create", status, call.last_error()};
  }
  const double create_ns = nanoseconds_since(start);
  Reply::Result result = body(plan, create_ns);
  status_.stage = Stage::kDestroy;
  call.table.destroy(plan);
  return result;
}

Device& Executor::device(const Call& call) {
  std::unique_ptr<Device>& device = devices_[call.table.device];
  if (!device) device = call.kind->open();
  return *device;
}

// What a device says of work that was enqueued comes when it is waited for, and ends the use of the
// device in this process.
attest_status Executor::finish_on_device(const Call& call, attest_status status) {
  try {
    device(call).synchronize();
  } catch (const DeviceError& error) {
    reply_.device_fault = error.what();
    return ATTEST_RUNTIME_ERROR;
  }
  return status;
}

Reply::Result Executor::run_on_device(Call& call, const MappedTensors& inputs,
                                      const MappedTensors& outputs) {
  std::vector<DeviceTensors::Source> sources;
  for (const MappedTensors* tensors : {&inputs, &outputs})
    for (size_t i = 0; i < tensors->slots.size(); ++i)
      sources.push_back(
          {tensors->slots[i], static_cast<char*>(tensors->data(i)), tensors == &outputs});
  DeviceTensors tensors(call.wire().tensor, sources, device(call), DeviceTensors::Place::kOdd);
  tensors.upload();
  device(call).watch_pool();
  return with_plan(call, [&](void* plan, double create_ns) -> Reply::Result {
    status_.stage = Stage::kRun;
    const auto start = Clock::now();
    const Arguments& arguments = tensors.arguments();
    const attest_status status = finish_on_device(
        call, call.table.run(plan, arguments.data, arguments.workspace, device(call).stream()));
    const double run_ns = nanoseconds_since(start);
    if (status != ATTEST_OK) return FailedStep{kRunStage, status, call.last_error()};
    tensors.download_outputs();
    reply_.trespass = tensors.trespass();
    return RunReply{.create_ns = create_ns,
                    .run_ns = run_ns,
                    .pool_peak_bytes = device(call).pool_growth_bytes(),
                    .peak_bytes = std::nullopt};
  });
}

namespace {

// malloc keeps what was freed; a run that takes it again shows no growth. Allocators other than
// glibc's keep it all the same.
void trim_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace

Reply::Result Executor::perform(Call& call, const RunRequest& request,
                                const Descriptors& descriptors) {
  status_.slot_count = status_.returned = 0;
  MappedTensors inputs(request.slots.inputs, descriptors.at(0), false, status_);
  MappedTensors outputs(request.slots.outputs, descriptors.at(1), true, status_);
  if (call.on_device()) return run_on_device(call, inputs, outputs);
  Arguments arguments;
  for (MappedTensors* tensors : {&inputs, &outputs}) {
    tensors->touch(
        call.wire().tensor);  // now, so that the run's own growth is measured, not the tensors'
    for (size_t i = 0; i < tensors->slots.size(); ++i)
      arguments.add(tensors->slots[i], tensors->data(i));
  }

  if (request.trims) trim_memory();
  const PeakMemory peak;
  Reply::Result result = with_plan(call, [&](void* plan, double create_ns) -> Reply::Result {
    status_.stage = Stage::kRun;
    const auto start = Clock::now();
    const attest_status status = call.table.run(plan, arguments.data, arguments.workspace, nullptr);
    const double run_ns = nanoseconds_since(start);
    // From here on the tensors are the harness's: a thread that goes on with them faults.
    retire(inputs.mapping);
    retire(outputs.mapping);
    status_.returned = 1;
    if (status != ATTEST_OK) return FailedStep{kRunStage, status, call.last_error()};
    return RunReply{.create_ns = create_ns,
                    .run_ns = run_ns,
                    .pool_peak_bytes = std::nullopt,
                    .peak_bytes = std::nullopt};
  });
  if (auto* const done = std::get_if<RunReply>(&result); done && peak.available())
    done->peak_bytes = peak.growth_bytes();
  return result;
}

/// The tensors of a TimeRequest or a PacedRequest: mapped ones, and those that runs use.
struct Executor::Audited {
  MappedTensors inputs, outputs, differing;
  std::optional<MappedTensors> second_inputs, second_outputs;
  std::optional<TimedTensors> tensors;
  std::optional<TimedDevice> on_device;

  template <class Request>
  Audited(Executor& executor, Call& call, const Request& request, const Descriptors& descriptors)
      : inputs(request.slots.inputs, descriptors.at(0), false, executor.status_),
        outputs(request.slots.outputs, descriptors.at(1), true, executor.status_),
        differing(request.differing, descriptors.at(2), true, executor.status_) {
    if (request.second) {
      second_inputs.emplace(request.second->inputs, descriptors.at(3), false, executor.status_);
      second_outputs.emplace(request.second->outputs, descriptors.at(4), true, executor.status_);
    }
    tensors.emplace(call.wire().tensor, inputs, second_inputs ? &*second_inputs : nullptr, outputs,
                    executor.status_);
    if (call.on_device())
      on_device.emplace(call.wire().tensor, tensors->sources(), executor.device(call));
  }
  AuditedOutputs audited() const {
    return {outputs, differing, second_outputs ? &*second_outputs : nullptr};
  }
  TimedDevice* device() { return on_device ? &*on_device : nullptr; }
};

Reply::Result Executor::perform(Call& call, const TimeRequest& request,
                                const Descriptors& descriptors) {
  status_.slot_count = status_.returned = 0;
  Audited audited(*this, call, request, descriptors);
  TimedRuns timed(*audited.tensors, audited.audited(), request, audited.device(),
                  flush_file(request, descriptors));
  Reply::Result result = measure(call, audited, timed, [&](void* plan) -> TimeReply {
    return timed.measure(call.table, plan);
  });
  if (auto* const measured = std::get_if<TimeReply>(&result))
    measured->late = measured->late || !timed.outputs_stay();
  return result;
}

Reply::Result Executor::perform(Call& call, const PacedRequest& request,
                                const Descriptors& descriptors) {
  status_.slot_count = status_.returned = 0;
  Audited audited(*this, call, request, descriptors);
  PacedRuns paced(*audited.tensors, audited.audited(), request, audited.device(),
                  flush_file(request, descriptors), status_);
  return measure(call, audited, paced, [&](void* plan) { return paced.measure(call.table, plan); });
}

/// Lets `measure_plan(plan)` make many runs, of which `runs` knows the status.
template <class Runs, class MeasurePlan>
Reply::Result Executor::measure(Call& call, Audited& audited, const Runs& runs,
                                const MeasurePlan& measure_plan) {
  return with_plan(call, [&](void* plan, double create_ns) -> Reply::Result {
    status_.stage = Stage::kTime;
    auto measured = measure_plan(plan);
    measured.create_ns = create_ns;
    if (audited.on_device) note_device(*audited.on_device);
    if (runs.status() != ATTEST_OK) return FailedStep{kRunStage, runs.status(), call.last_error()};
    if (audited.on_device) reply_.trespass = audited.on_device->trespass();
    return measured;
  });
}

void Executor::note_device(const TimedDevice& device) {
  if (!device.fault().empty()) reply_.device_fault = device.fault();
  for (const std::string& note : device.notes()) reply_.notes.push_back(note);
  if (device.waits())
    reply_.notes.push_back(
        "run waits for the stream, which it should not: its times hold those of the host");
}

Reply::Result Executor::perform(Call& call, const ScriptRequest& request,
                                const Descriptors& descriptors) {
  status_.slot_count = status_.returned = 0;
  Scripted::Surroundings around{.table = call.table, .problems = {}, .status = status_};
  for (size_t i = 0; i < call.given.size(); ++i) around.problems.push_back(call.problem(i));
  if (call.on_device()) around.device = &device(call);
  around.finish = [&](attest_status status) { return finish_on_device(call, status); };
  around.retire = [this](Mapping& mapping) { retire(mapping); };
  Scripted scripted(std::move(around), request, descriptors);
  Reply::Result result = scripted.play();
  reply_.trespass = scripted.trespass();
  return result;
}

void Executor::retire(Mapping& mapping) {
  const size_t at = status_.retired_count++ % kRetired;
  retired_[at] = std::move(mapping);
  ++newly_retired_;
  const auto [begin, bytes] = retired_[at].close();
  status_.retired[at] = {uint64_t(begin), uint64_t(begin) + bytes};
}

void Executor::clean_up() {
  size_t at = status_.retired_count;
  for (size_t left = std::min(std::exchange(newly_retired_, 0), kRetired); left > 0; --left)
    retired_[--at % kRetired].withdraw();
  KeptMaps::instance().release();
}

Reply Executor::execute(const Request& request, const Descriptors& descriptors) {
  Call call(request, tables(), status_, watch_);
  reply_ = {};
  try {
    reply_.result = std::visit(
        [&](const auto& wanted) { return perform(call, wanted, descriptors); }, request.wanted);
  } catch (const DeviceError& error) {  // while tensors went there or came back
    const bool no_room = error.out_of_memory();
    (no_room ? reply_.no_room : reply_.device_fault) = error.what();
    reply_.result = FailedStep{.status = no_room ? ATTEST_OUT_OF_MEMORY : ATTEST_RUNTIME_ERROR};
  }
  if (!escaped_exception().empty()) reply_.exception = escaped_exception();
  status_.kept_bytes = PrivateMemory::kept_bytes();
  reply_.findings = watch_.findings();
  reply_.notes.insert(reply_.notes.begin(), watch_.notes().begin(), watch_.notes().end());
  reply_.more_threads = watch_.more_threads();
  return std::move(reply_);
}

}  // namespace attest::core
