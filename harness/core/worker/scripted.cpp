#include "core/worker/scripted.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/tensor/error.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {

Scripted::Scripted(Surroundings around, const ScriptRequest& request,
                   const std::vector<Descriptor>& descriptors)
    : around_(std::move(around)),
      request_(request),
      descriptors_(descriptors),
      plans_(around_.problems.size()) {
  if (request.sets.size() != descriptors.size()) throw Error("malformed request");
  for (const ScriptStep& step : request.steps)
    if (size_t(step.plan) >= plans_.size()) throw Error("malformed request");
}

// Tensors go out of reach before plans are destroyed: a thread that goes on with them faults, and
// destroy has no use for them.
Scripted::~Scripted() {
  for (Plan& plan : plans_)
    for (auto& [number, place] : plan.places) {
      if (place.inputs) around_.retire(place.inputs->mapping);
      if (place.outputs) around_.retire(place.outputs->mapping);
    }
  around_.status.returned = 1;
  for (Plan& plan : plans_)
    if (plan.alive) destroy(plan);
}

std::string Scripted::last_error() const {
  const char* text = around_.table.last_error();  // it belongs to the plugin: NULL or unending
  return text ? std::string(text, strnlen(text, 1000)) : std::string();
}

Reply::Result Scripted::play() {
  for (const ScriptStep& step : request_.steps) {
    Plan& plan = plans_[size_t(step.plan)];
    if (step.kind == ScriptStep::kDestroy) {
      if (plan.alive) destroy(plan);
      continue;
    }
    const bool creates = step.kind == ScriptStep::kCreate;
    const bool others =
        std::any_of(plans_.begin(), plans_.end(), [](const Plan& one) { return one.alive; });
    const attest_status status = creates ? create(step) : run(step);
    if (creates && others && (status == ATTEST_UNSUPPORTED || status == ATTEST_OUT_OF_MEMORY))
      return ScriptReply{.run_ns = {}, .refusal = last_error()};
    if (status != ATTEST_OK)
      return FailedStep{creates ? "create" : fmt::format("run {}", plan.runs), status,
                        last_error()};
    if (trespass_) break;
  }
  return ScriptReply{.run_ns = run_ns_, .refusal = std::nullopt};
}

attest_status Scripted::create(const ScriptStep& step) {
  Plan& plan = plans_[size_t(step.plan)];
  if (plan.alive) throw Error("malformed request");
  around_.status.stage = Stage::kCreate;
  const attest_status status =
      around_.table.create(around_.problems[size_t(step.plan)], &plan.plan);
  plan.alive = status == ATTEST_OK;
  return plan.alive || !around_.device
             ? status
             : around_.finish(status);  // a fault of the device outlives the call
}

void Scripted::destroy(Plan& plan) {
  around_.status.stage = Stage::kDestroy;
  plan.alive = false;
  around_.table.destroy(plan.plan);
}

MappedTensors Scripted::map(int32_t set, bool writable) const {
  return {request_.sets.at(size_t(set)), descriptors_.at(size_t(set)), writable, around_.status};
}

// The step's sets at this place: at the addresses of those that were there before.
void Scripted::show(const attest_problem& problem, Place& place, const ScriptStep& step) {
  const auto put = [&](std::optional<MappedTensors>& tensors, int32_t& shown, int32_t set,
                       bool writable) {
    if (shown == set) return;
    if (!tensors)
      tensors.emplace(map(set, writable));
    else
      tensors->show(descriptors_.at(size_t(set)), request_.sets.at(size_t(set)), writable);
    tensors->touch(problem.tensor);
    shown = set;
  };
  put(place.inputs, place.shown_inputs, step.inputs, false);
  put(place.outputs, place.shown_outputs, step.outputs, true);
}

attest_status Scripted::run(const ScriptStep& step) {
  Plan& plan = plans_[size_t(step.plan)];
  if (!plan.alive) throw Error("malformed request");
  const attest_problem& problem = *around_.problems[size_t(step.plan)];
  Place& place = plan.places[step.place];
  show(problem, place, step);
  ++plan.runs;
  around_.status.stage = Stage::kRun;
  if (around_.device) return run_on_device(plan, place, problem);
  Arguments arguments;
  for (const auto* tensors : {&place.inputs, &place.outputs})
    for (size_t i = 0; i < (*tensors)->slots.size(); ++i)
      arguments.add((*tensors)->slots[i], (*tensors)->data(i));
  const auto start = Clock::now();
  const attest_status status =
      around_.table.run(plan.plan, arguments.data, arguments.workspace, nullptr);
  run_ns_.push_back(nanoseconds_since(start));
  return status;
}

// The host's tensors, which show the sets one after another, are copied there and back at each run.
attest_status Scripted::run_on_device(const Plan& plan, Place& place,
                                      const attest_problem& problem) {
  const bool first = !place.on_device;
  if (first) {
    std::vector<DeviceTensors::Source> sources;
    for (const auto* tensors : {&place.inputs, &place.outputs})
      for (size_t i = 0; i < (*tensors)->slots.size(); ++i)
        sources.push_back({(*tensors)->slots[i], static_cast<char*>((*tensors)->data(i)),
                           tensors == &place.outputs});
    place.on_device.emplace(problem.tensor, sources, *around_.device, DeviceTensors::Place::kOdd);
  }
  place.on_device->upload(first);
  const Arguments& arguments = place.on_device->arguments();
  const auto start = Clock::now();
  const attest_status status = around_.finish(
      around_.table.run(plan.plan, arguments.data, arguments.workspace, around_.device->stream()));
  run_ns_.push_back(nanoseconds_since(start));
  if (status != ATTEST_OK) return status;
  place.on_device->download_outputs();
  trespass_ = place.on_device->trespass();
  return status;
}

}  // namespace attest::core
