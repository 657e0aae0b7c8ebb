#include "core/worker/executor.hpp"
#include "core/device/device_kinds.hpp"

#include <nlohmann/json.hpp>
#include <optional>

#include "core/isolation/messages.hpp"
#include "core/measure/memory.hpp"
#include "core/tensor/error.hpp"
#include "core/worker/device_tensors.hpp"
#include "core/worker/float_mode.hpp"
#include "core/worker/guarded_table.hpp"
#include "core/worker/mapped.hpp"
#include "core/worker/scripted.hpp"
#include "core/worker/timed.hpp"
#include "core/worker/timed_device.hpp"

namespace attest::core {

using nlohmann::json;

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

  Call(const json& request, const std::vector<attest_impl>& tables, StatusPage& status,
       Watch& watch) {
    const auto wires = from_bytes<WireProblem>(request.at(word::kProblem).get_binary());
    const auto index = request.at(word::kTable).get<size_t>();
    if (wires.empty() || index >= tables.size()) throw Error("malformed request");
    for (const WireProblem& wire : wires) given.push_back(std::make_unique<Given>(wire));
    table = guarded(tables[index], status, watch);
    kind = find_device_kind(table.device);
    watch.begin(index, wire().threads);
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

namespace {

double nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

}  // namespace

Executor::Executor(const std::string& plugin_path, StatusPage& status)
    : status_(status), plugin_([&] {
        const FloatModeGuard guard;
        LoadedPlugin plugin(plugin_path);
        modes_changed_at_load_ = guard.changes();
        return plugin;
      }()) {}

json Executor::query(Call& call) {
  alignas(64) std::byte room[ATTEST_ROOM]{};
  auto& support = *reinterpret_cast<attest_support*>(room);
  support.struct_size = sizeof(attest_support);
  status_.stage = Stage::kQuery;
  const attest_status status = call.table.query(call.problem(), &support);
  support.reason[sizeof(support.reason) - 1] = 0;
  return {
      {word::kStatus, status},
      {word::kSupport, json::binary(to_bytes(std::span<const attest_support>(&support, 1)))},
      {word::kMessage,
       status == ATTEST_OK || status == ATTEST_UNSUPPORTED ? std::string() : call.last_error()}};
}

namespace {

json failed(const char* stage, attest_status status, const std::string& message) {
  return {{word::kStatus, status}, {"stage", stage}, {word::kMessage, message}};
}

}  // namespace

/// Creates the plan, lets `body` run it, destroys it; the reply says which step failed.
template <class Body>
json Executor::with_plan(Call& call, const Body& body) {
  void* plan = nullptr;
  status_.stage = Stage::kCreate;
  const auto start = Clock::now();
  if (const attest_status status = call.table.create(call.problem(), &plan); status != ATTEST_OK) {
    if (call.on_device())
      finish_on_device(call, status);  // a fault of the device outlives the call
    return failed("create", status, call.last_error());
  }
  const double create_ns = nanoseconds_since(start);
  json reply = body(plan);
  status_.stage = Stage::kDestroy;
  call.table.destroy(plan);
  reply["create_ns"] = create_ns;
  return reply;
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
    device_fault_ = error.what();
    return ATTEST_RUNTIME_ERROR;
  }
  return status;
}

namespace {

void note_trespass(const std::optional<DeviceTensors::Trespass>& found, json& reply) {
  if (found) reply[word::kTrespass] = {found->role, found->input_written, found->text};
}

}  // namespace

json Executor::run_on_device(Call& call, const MappedTensors& inputs,
                             const MappedTensors& outputs) {
  std::vector<DeviceTensors::Source> sources;
  for (const MappedTensors* tensors : {&inputs, &outputs})
    for (size_t i = 0; i < tensors->slots.size(); ++i)
      sources.push_back(
          {tensors->slots[i], static_cast<char*>(tensors->data(i)), tensors == &outputs});
  DeviceTensors tensors(call.wire().tensor, std::move(sources), device(call));
  tensors.upload();
  device(call).watch_pool();
  return with_plan(call, [&](void* plan) -> json {
    status_.stage = Stage::kRun;
    const auto start = Clock::now();
    const Arguments& arguments = tensors.arguments();
    const attest_status status = finish_on_device(
        call, call.table.run(plan, arguments.data, arguments.workspace, device(call).stream()));
    const double run_ns = nanoseconds_since(start);
    if (status != ATTEST_OK) return failed("run", status, call.last_error());
    tensors.download_outputs();
    json reply{{word::kStatus, status}, {"run_ns", run_ns}};
    note_trespass(tensors.trespass(), reply);
    if (const std::optional<uint64_t> bytes = device(call).pool_growth_bytes())
      reply["pool_peak_bytes"] = *bytes;
    return reply;
  });
}

json Executor::run(Call& call, const json& request, const std::vector<Descriptor>& descriptors) {
  status_.slot_count = status_.returned = 0;
  MappedTensors inputs(request, word::kInputs, descriptors.at(0), false, status_);
  MappedTensors outputs(request, word::kOutputs, descriptors.at(1), true, status_);
  if (call.on_device()) return run_on_device(call, inputs, outputs);
  Arguments arguments;
  for (const MappedTensors* tensors : {&inputs, &outputs}) {
    tensors->touch(
        call.wire().tensor);  // now, so that the run's own growth is measured, not the tensors'
    for (size_t i = 0; i < tensors->slots.size(); ++i)
      arguments.add(tensors->slots[i], tensors->data(i));
  }

  const PeakMemory peak;
  json reply = with_plan(call, [&](void* plan) -> json {
    status_.stage = Stage::kRun;
    const auto start = Clock::now();
    const attest_status status = call.table.run(plan, arguments.data, arguments.workspace, nullptr);
    const double run_ns = nanoseconds_since(start);
    // From here on the tensors are the harness's: a thread that goes on with them faults.
    retire(inputs.mapping), retire(outputs.mapping);
    status_.returned = 1;
    if (status != ATTEST_OK) return failed("run", status, call.last_error());
    return {{word::kStatus, status}, {"run_ns", run_ns}};
  });
  if (peak.available()) reply["peak_bytes"] = peak.growth_bytes();
  return reply;
}

json Executor::time(Call& call, const json& request, const std::vector<Descriptor>& descriptors) {
  status_.slot_count = status_.returned = 0;
  auto map = [&](const char* key, size_t descriptor, bool writable) {
    return MappedTensors(request, key, descriptors.at(descriptor), writable, status_);
  };
  const MappedTensors inputs = map(word::kInputs, 0, false), outputs = map(word::kOutputs, 1, true);
  const MappedTensors differing = map(word::kDiffering, 2, true);
  std::optional<MappedTensors> second_inputs, second_outputs;
  if (request.contains(word::kSecondInputs))
    second_inputs.emplace(map(word::kSecondInputs, 3, false)),
        second_outputs.emplace(map(word::kSecondOutputs, 4, true));
  TimedTensors tensors(call.wire().tensor, inputs, second_inputs ? &*second_inputs : nullptr,
                       outputs, status_);
  std::optional<TimedDevice> on_device;
  if (call.on_device()) on_device.emplace(call.wire().tensor, tensors.sources(), device(call));
  TimedRuns timed(tensors, {outputs, differing, second_outputs ? &*second_outputs : nullptr},
                  request.at("seed").get<uint64_t>(), request.at("expected_ns").get<double>(),
                  on_device ? &*on_device : nullptr);
  json reply = with_plan(call, [&](void* plan) -> json {
    status_.stage = Stage::kTime;
    json measured = timed.measure(call.table, plan, request.at("budget_ns").get<double>());
    const attest_status status = measured.at(word::kStatus);
    if (on_device) device_fault_ = on_device->fault();
    if (on_device && on_device->waits()) waits_for_device_ = true;
    if (on_device)
      note_trespass(on_device->trespass(), measured), device_notes_ = on_device->notes();
    return status == ATTEST_OK ? measured : failed("run", status, call.last_error());
  });
  if (reply.contains("late")) reply["late"] = reply["late"].get<bool>() || !timed.outputs_stay();
  return reply;
}

json Executor::script(Call& call, const json& request, const std::vector<Descriptor>& descriptors) {
  status_.slot_count = status_.returned = 0;
  Scripted::Surroundings around{.table = call.table, .problems = {}, .status = status_};
  for (size_t i = 0; i < call.given.size(); ++i) around.problems.push_back(call.problem(i));
  if (call.on_device()) around.device = &device(call);
  around.finish = [&](attest_status status) { return finish_on_device(call, status); };
  around.retire = [this](Mapping& mapping) { retire(mapping); };
  Scripted scripted(std::move(around), request, descriptors);
  return scripted.play();
}

void Executor::retire(Mapping& mapping) {
  const size_t at = status_.retired_count++ % kRetired;
  retired_[at] = std::move(mapping);
  const auto [begin, bytes] = retired_[at].withdraw();
  status_.retired[at] = {uint64_t(begin), uint64_t(begin) + bytes};
}

json Executor::execute(const json& request, const std::vector<Descriptor>& descriptors) {
  Call call(request, tables(), status_, watch_);
  const auto what = request.at(word::kDo).get<std::string>();
  json reply;
  try {
    reply = what == "query"    ? query(call)
            : what == "run"    ? run(call, request, descriptors)
            : what == "time"   ? time(call, request, descriptors)
            : what == "script" ? script(call, request, descriptors)
                               : throw Error("malformed request");
  } catch (const DeviceError& error) {  // while tensors went there or came back
    reply =
        failed("worker", error.out_of_memory() ? ATTEST_OUT_OF_MEMORY : ATTEST_RUNTIME_ERROR, "");
    if (error.out_of_memory())
      reply[word::kNoRoom] = error.what();
    else
      device_fault_ = error.what();
  }
  if (!escaped_exception().empty()) reply[word::kException] = escaped_exception();
  if (!device_fault_.empty()) reply[word::kDeviceFault] = std::exchange(device_fault_, {});
  for (const Outcome& finding : watch_.findings())
    reply[word::kFindings].push_back({name(finding.code), finding.reason});
  reply[word::kNotes] = watch_.notes();
  for (std::string& note : std::exchange(device_notes_, {}))
    reply[word::kNotes].push_back(std::move(note));
  if (std::exchange(waits_for_device_, false))
    reply[word::kNotes].push_back(
        "run waits for the stream, which it should not: its times hold those of the host");
  reply[word::kMoreThreads] = watch_.more_threads();
  return reply;
}

}  // namespace attest::core
