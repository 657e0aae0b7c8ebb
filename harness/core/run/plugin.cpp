#include "core/run/plugin.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/device/device_kinds.hpp"
#include "core/isolation/messages.hpp"
#include "core/measure/memory.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr double kLoadTimeout_s = 60;
constexpr double kMessageTimeout_s = 10;  // from a message's first byte to its last
constexpr double kLinger_s = 0.03;  // for threads that go on after run returned to show themselves
// For the worker's own work between calls, mapping and flushing caches, which is not to be blamed
// on the plugin.
constexpr auto kOwnWork = std::chrono::seconds(60);
constexpr double kMemoryShare = 0.9;  // of what a worker has and what is available

Clock::time_point in_seconds(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

uint64_t hash_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  return hash_text(bytes);
}

}  // namespace

std::string print_dtypes(uint64_t bits) {
  std::string text;
  for (DType dtype = ATTEST_F32; dtype <= ATTEST_F8E5M2; ++dtype)
    if (bits & ATTEST_BIT(dtype)) text += (text.empty() ? "" : ",") + dtype_title(dtype);
  return text;
}

std::string refuses(const Implementation& implementation, const Problem& problem) {
  if (const std::string_view unjudged = unjudged_operation(implementation.operation);
      !unjudged.empty())
    return fmt::format("is an implementation of {}, which is not judged yet", unjudged);
  if (implementation.operation != problem.operation->number())
    return fmt::format("is not an implementation of {}", problem.operation->name());
  const DeviceKind* kind = find_device_kind(implementation.device);
  if (!kind)
    return fmt::format("runs on device {}, which this attest does not know", implementation.device);
  if (const std::string missing = kind->missing(); !missing.empty())
    return fmt::format("runs on {}: {}", kind->title, missing);
  uint64_t dtypes = 0;
  for (const Role& role : problem.operation->roles()) {
    const TensorSpec& spec = problem.tensor[size_t(role.index)];
    if (present(spec) && role.dtype == ATTEST_NONE && is_float(spec.dtype))
      dtypes |= ATTEST_BIT(spec.dtype);
  }
  if (const uint64_t missing = dtypes & ~implementation.dtypes)
    return fmt::format("does not take {} (takes {})", print_dtypes(missing),
                       implementation.dtypes ? print_dtypes(implementation.dtypes) : "none");
  if (const uint64_t missing = problem.features & ~implementation.features)
    return fmt::format("does not list {}", print_features(missing));
  return {};
}

Plugin::Plugin(const fs::path& path, const WorkerOptions& options)
    : path_(fs::absolute(path)), file_name_(path.filename()), options_(options) {
  if (!fs::is_regular_file(path))
    throw Error(fmt::format("{}: no such plugin file", path.string()));
  worker_ = std::make_unique<Worker>(path_, options_);
}

Plugin::~Plugin() = default;

void Plugin::note(std::string text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end())
    notes_.push_back(std::move(text));
}

const std::vector<Implementation>& Plugin::implementations() {
  if (implementations_.empty())
    if (const std::optional<Outcome> failure = greet())
      throw Error(fmt::format("{}: {}", file_name_, failure->reason));
  return implementations_;
}

// Hears a new worker's first message, its list of tables. Throws Error where the library is at
// fault, in its own words.
std::optional<Outcome> Plugin::greet() {
  json greeting;
  std::vector<Descriptor> none;
  const Channel::Status status =
      worker_->channel().receive(greeting, none, in_seconds(kLoadTimeout_s));
  if (status == Channel::Status::kTimeout)
    return Outcome{ReasonCode::kErrorWorker,
                   fmt::format("did not load within {} s", kLoadTimeout_s)};
  if (status != Channel::Status::kMessage) return explain_death(*worker_, nullptr);
  if (greeting.contains(word::kError)) throw Error(greeting[word::kError].get<std::string>());
  if (implementations_.empty()) read_tables(greeting);
  if (const std::string modes = greeting.value(word::kModesAtLoad, ""); !modes.empty())
    note(fmt::format(
        "the library changes the floating-point mode when it is loaded ({}); it was restored",
        modes));
  greeted_ = true;
  return std::nullopt;
}

void Plugin::read_tables(const json& greeting) {
  const uint64_t hash = hash_file(path_);
  for (const json& table : greeting.at(word::kTables)) {
    implementations_.push_back({.name = tidy(table.at("name"), 64),
                                .version = tidy(table.at("version"), 64),
                                .summary = tidy(table.at("summary"), 200),
                                .plugin = file_name_,
                                .binary_hash = hash,
                                .table = implementations_.size(),
                                .operation = table.at("operation"),
                                .device = table.at("device"),
                                .dtypes = table.at("dtypes"),
                                .features = table.at("features")});
  }
}

std::vector<std::string> Plugin::habits() {
  if (worker_ && worker_->cut_output() > 0) note("it floods its output, which is cut");
  return std::exchange(notes_, {});
}

// What became of a worker that should wait for a request: it has ended, or has spoken unasked. A
// thread of the implementation that was asked last did that; where it is another one's turn, or
// somebody else has killed the worker, that is a note.
std::optional<Outcome> Plugin::ended_idle(const Implementation& implementation,
                                          const Problem& problem) {
  const Outcome failure = explain_death(*worker_, &problem);
  const std::optional<int> how = worker_->ended(0);
  const bool killed = how && WIFSIGNALED(*how) && WTERMSIG(*how) == SIGKILL;
  worker_.reset();
  if (!killed && last_table_ == implementation.table) return failure;
  note(fmt::format("its worker had ended before this ({}); another was started", failure.reason));
  return std::nullopt;
}

// A worker that waits for a request. A library that loaded at first and no longer does is an error
// of its own.
std::optional<Outcome> Plugin::ready(const Implementation& implementation, const Problem& problem) {
  if (worker_ && greeted_ && worker_->channel().readable(Clock::now()))
    if (std::optional<Outcome> failure = ended_idle(implementation, problem)) return failure;
  constexpr int kTries = 2;
  std::optional<Outcome> failure;
  for (int tries = 0; tries < kTries; ++tries) {
    if (!worker_) {
      worker_ = std::make_unique<Worker>(path_, options_);
      greeted_ = false;
    }
    if (greeted_) return std::nullopt;
    try {
      failure = greet();
    } catch (const Error& error) {
      failure = Outcome{ReasonCode::kErrorWorker, error.what()};
    }
    if (!failure) return std::nullopt;
    worker_.reset();
  }
  return Outcome{ReasonCode::kErrorWorker,
                 "its worker could not be started again: " + failure->reason};
}

// How long to wait for an answer.
struct Plugin::Waiting {
  double call_s;          // from the begin of one call into the plugin to that of the next
  double all_s;           // whatever happens
  double look_s = 0.01;   // between looks at the worker, which cost it some of its CPU
  uint64_t tensor_bytes;  // that it maps beside its own memory
};

// The most that the worker may have resident.
uint64_t Plugin::memory_limit(uint64_t tensor_bytes, uint64_t resident) const {
  if (options_.limits.memory_bytes > 0) return options_.limits.memory_bytes + tensor_bytes;
  return uint64_t(kMemoryShare * double(read_memory().available_bytes + resident)) + tensor_bytes;
}

// Looks at a worker that is at work: no call may take too long, and memory has its limit.
std::optional<Outcome> Plugin::look(uint64_t& most_bytes, const Waiting& waiting,
                                    Clock::time_point deadline) {
  const StatusPage& page = worker_->status();
  if (options_.cancelled && options_.cancelled())
    return Outcome{ReasonCode::kTimeoutRun, "interrupted"};
  worker_->cut_output();
  const uint64_t resident = worker_->resident_bytes();
  if (most_bytes == 0) most_bytes = memory_limit(waiting.tensor_bytes, resident);
  if (resident > most_bytes)
    return Outcome{
        ReasonCode::kCrashOom,
        fmt::format("had {:.3g} GiB resident {}, more than the {:.3g} GiB that it may",
                    double(resident) / (1u << 30), doing(page), double(most_bytes) / (1u << 30))};
  const bool in_plugin = page.pulse % 2 == 1;
  if (Clock::now() < deadline + (in_plugin ? Clock::duration::zero() : kOwnWork))
    return std::nullopt;
  return Outcome{ReasonCode::kTimeoutRun,
                 fmt::format("was {} for more than {:g} s", doing(page), waiting.call_s)};
}

// Waits for the answer: until no call has begun for too long, or the worker takes too much memory,
// or its end.
std::optional<Outcome> Plugin::await(json& reply, const Problem& problem, const Waiting& waiting) {
  const auto last = in_seconds(waiting.all_s);
  auto deadline = in_seconds(waiting.call_s);
  uint64_t pulse = worker_->status().pulse, most_bytes = 0;
  while (!worker_->channel().readable(in_seconds(waiting.look_s))) {
    if (const uint64_t now = worker_->status().pulse; now != pulse) {
      pulse = now;
      deadline = std::min(last, in_seconds(waiting.call_s));
    }
    if (std::optional<Outcome> failure = look(most_bytes, waiting, deadline)) return failure;
  }
  std::vector<Descriptor> none;
  switch (worker_->channel().receive(reply, none, in_seconds(kMessageTimeout_s))) {
    case Channel::Status::kMessage:
      if (reply.value(word::kSequence, json()) == json(sequence_)) return std::nullopt;
      break;
    case Channel::Status::kClosed: return explain_death(*worker_, &problem);
    case Channel::Status::kTimeout:
    case Channel::Status::kGarbage: break;
  }
  return Outcome{ReasonCode::kErrorProtocol,
                 "the worker's answer is malformed; did the plugin write into its connection?"};
}

// Sends one request and waits. What comes back is not trusted: `read` may throw on anything
// malformed. After a failure the worker may be in any state, so that it is ended.
template <class Read>
std::optional<Outcome> Plugin::call(const char* what, const Implementation& implementation,
                                    const Problem& problem, const Waiting& waiting, json request,
                                    std::span<const int> descriptors, const Read& read) {
  implementations();  // the first message is the worker's list of tables
  if (options_.cancelled && options_.cancelled())
    return Outcome{ReasonCode::kTimeoutRun, "interrupted"};
  if (std::optional<Outcome> failure = ready(implementation, problem)) return failure;
  const WireProblem wire(problem, options_.limits.threads);
  request[word::kDo] = what;
  request[word::kTable] = implementation.table;
  request[word::kSequence] = ++sequence_;
  if (!request.contains(word::kProblem))  // a script has several
    request[word::kProblem] = json::binary(to_bytes(std::span<const WireProblem>(&wire, 1)));
  last_table_ = implementation.table;
  worker_->channel().send(request, descriptors);  // a worker that is gone shows in the answer
  json reply;
  std::optional<Outcome> failure = await(reply, problem, waiting);
  try {
    if (!failure) failure = reported_failure(reply, problem);
    if (!failure) read(reply);
  } catch (const json::exception&) {
    failure = Outcome{ReasonCode::kErrorProtocol, "the worker's answer is malformed"};
  }
  if (failure && failure->code != ReasonCode::kErrorRuntime &&
      failure->code != ReasonCode::kErrorMemory)
    worker_.reset();
  return failure;
}

std::optional<Outcome> Plugin::settle(const Problem& problem) {
  const bool lingering = std::exchange(lingering_, false);
  if (!worker_ || !greeted_ || !worker_->channel().readable(in_seconds(lingering ? kLinger_s : 0)))
    return std::nullopt;
  Outcome failure = explain_death(*worker_, &problem);
  if (failure.code != ReasonCode::kCrashLateWrite) failure.reason += ", after run had returned";
  worker_.reset();
  return failure;
}

QueryResult Plugin::query(const Implementation& implementation, const Problem& problem) {
  QueryResult result;
  result.failure =
      call("query", implementation, problem, waiting(0), {}, {}, [&](const json& reply) {
        const auto support = from_bytes<attest_support>(reply.at(word::kSupport).get_binary());
        if (!support.empty()) result.support = support[0];
        result.status = reply.at(word::kStatus);
        result.message =
            tidy(result.status == ATTEST_UNSUPPORTED ? std::string(result.support.reason)
                                                     : reply.at(word::kMessage).get<std::string>(),
                 300);
      });
  return result;
}

namespace {

// Of a device, where no guard page stops a stray write.
Outcome trespass(const json& found, const Problem& problem) {
  const int32_t number = found.at(0);
  const Role* role = number == kWorkspaceRole ? nullptr : find_role(*problem.operation, number);
  return {found.at(1).get<bool>() ? ReasonCode::kCrashInputWritten : ReasonCode::kCrashCanary,
          fmt::format("{} {}", role ? role->name : "workspace", tidy(found.at(2), 200))};
}

// What the runs did to their process. Throws json::exception where it is nothing of the kind.
Outcome finding_of(const json& finding) {
  const Reason* reason = find_reason(finding.at(0).get<std::string>());
  if (!reason || verdict_of(reason->code) != Verdict::kFail)
    return {ReasonCode::kErrorProtocol, "the worker's answer is malformed"};
  return {reason->code, tidy(finding.at(1), 300)};
}

}  // namespace

// The reply's own failure: a step that returned a status, an exception, or what the runs did to the
// process.
std::optional<Outcome> Plugin::reported_failure(const json& reply, const Problem& problem) {
  const attest_status status = reply.at(word::kStatus);
  for (const json& text : reply.value(word::kNotes, json::array())) note(tidy(text, 300));
  lingering_ |= reply.value(word::kMoreThreads, false);
  if (const std::string exception = reply.value(word::kException, ""); !exception.empty())
    return Outcome{ReasonCode::kCrashException, tidy(exception, 300)};
  if (const std::string fault = reply.value(word::kDeviceFault, ""); !fault.empty())
    return Outcome{ReasonCode::kCrashDevice, tidy(fault, 300)};
  if (const std::string text = reply.value(word::kNoRoom, ""); !text.empty())
    return Outcome{ReasonCode::kSkippedMemory,
                   "the device has no room for the tensors: " + tidy(text, 300)};
  if (reply.contains(word::kTrespass)) return trespass(reply[word::kTrespass], problem);
  for (const json& finding : reply.value(word::kFindings, json::array()))
    return finding_of(finding);
  if (status == ATTEST_OK || !reply.contains("stage")) return std::nullopt;
  const char* meaning = status == ATTEST_UNSUPPORTED       ? "unsupported"
                        : status == ATTEST_INVALID_PROBLEM ? "invalid problem"
                        : status == ATTEST_OUT_OF_MEMORY   ? "out of memory"
                                                           : "runtime error";
  const std::string stage = reply.at("stage"), words = tidy(reply.value(word::kMessage, ""), 300);
  return Outcome{
      status == ATTEST_OUT_OF_MEMORY ? ReasonCode::kErrorMemory : ReasonCode::kErrorRuntime,
      fmt::format("{} gave {} ({}){}{}", stage, status, meaning, words.empty() ? "" : ": ", words)};
}

namespace {

json with_tensors(const SharedTensors& inputs, const SharedTensors& outputs) {
  return {{word::kInputs, json::binary(to_bytes(inputs.slots()))},
          {word::kOutputs, json::binary(to_bytes(outputs.slots()))}};
}

uint64_t mapped_bytes(const SharedTensors& inputs, const SharedTensors& outputs) {
  uint64_t bytes = 0;
  for (const SharedTensors* tensors : {&inputs, &outputs})
    for (const Slot& slot : tensors->slots()) bytes += uint64_t(slot.map_bytes);
  return bytes;
}

}  // namespace

// A few calls, each within the time limit.
Plugin::Waiting Plugin::waiting(uint64_t tensor_bytes) const {
  return {.call_s = options_.limits.timeout_s,
          .all_s = 5 * options_.limits.timeout_s,
          .tensor_bytes = tensor_bytes};
}

RunResult Plugin::run(const Implementation& implementation, const Problem& problem,
                      const SharedTensors& inputs, const SharedTensors& outputs) {
  RunResult result;
  const int descriptors[] = {inputs.descriptor(), outputs.descriptor()};
  result.failure = call("run", implementation, problem, waiting(mapped_bytes(inputs, outputs)),
                        with_tensors(inputs, outputs), descriptors, [&](const json& reply) {
                          result.create_ns = reply.at("create_ns");
                          result.run_ns = reply.at("run_ns");
                          if (reply.contains("pool_peak_bytes"))
                            result.pool_peak_bytes = reply["pool_peak_bytes"].get<uint64_t>();
                          if (reply.contains("peak_bytes"))
                            result.peak_bytes = reply["peak_bytes"].get<uint64_t>();
                        });
  return result;
}

ScriptResult Plugin::script(const Implementation& implementation, const Script& script,
                            double expected_ns) {
  if (script.sets.size() > kMostSets)
    throw std::logic_error(fmt::format("a script of {} sets where {} fit into a message",
                                       script.sets.size(), kMostSets));
  ScriptResult result;
  std::vector<WireProblem> wires;
  for (const Problem* problem : script.plans) wires.emplace_back(*problem, options_.limits.threads);
  std::vector<int> descriptors;
  json sets = json::array();
  uint64_t bytes = 0;
  for (const SharedTensors* set : script.sets) {
    descriptors.push_back(set->descriptor());
    sets.push_back(json::binary(to_bytes(set->slots())));
    for (const Slot& slot : set->slots()) bytes += uint64_t(slot.map_bytes);
  }
  json asked = {{word::kSets, std::move(sets)}};
  asked[word::kSteps] = json::binary(to_bytes(std::span<const ScriptStep>(script.steps)));
  asked[word::kProblem] = json::binary(to_bytes(std::span<const WireProblem>(wires)));
  Waiting patience = waiting(bytes);
  patience.all_s += 10e-9 * expected_ns + options_.limits.timeout_s * double(script.plans.size());
  result.failure = call("script", implementation, *script.plans.at(0), patience, std::move(asked),
                        descriptors, [&](const json& reply) {
                          if (reply.contains(word::kRefusal))
                            result.refusal = tidy(reply[word::kRefusal], 300);
                          if (reply.contains("run_ns"))
                            result.run_ns = reply["run_ns"].get<std::vector<double>>();
                        });
  return result;
}

TimeResult Plugin::time(const Implementation& implementation, const Problem& problem,
                        const TimingTask& task) {
  TimeResult result;
  std::vector<int> descriptors = {task.inputs.descriptor(), task.outputs.descriptor(),
                                  task.differing.descriptor()};
  json asked = with_tensors(task.inputs, task.outputs);
  asked[word::kDiffering] = json::binary(to_bytes(task.differing.slots()));
  if (task.second_inputs) {
    descriptors.insert(descriptors.end(),
                       {task.second_inputs->descriptor(), task.second_outputs->descriptor()});
    asked[word::kSecondInputs] = json::binary(to_bytes(task.second_inputs->slots()));
    asked[word::kSecondOutputs] = json::binary(to_bytes(task.second_outputs->slots()));
  }
  asked["expected_ns"] = task.expected_ns;
  asked["budget_ns"] = task.budget_ns;
  asked["seed"] = task.seed;
  // Outputs are mapped three times, inputs twice.
  Waiting patience = waiting(3 * mapped_bytes(task.inputs, task.outputs));
  // Many runs; and no more looks than a scheduler's tick or two in a hundred.
  patience.all_s += 10e-9 * task.budget_ns;
  patience.look_s = 0.05;
  result.failure =
      call("time", implementation, problem, patience, std::move(asked), descriptors,
           [&](const json& reply) {
             result.samples_ns = reply.at("samples_ns").get<std::vector<double>>();
             result.cold_samples_ns = reply.at("cold_samples_ns").get<std::vector<double>>();
             result.iterations_per_sample = reply.at("iterations_per_sample");
             result.warmup_ns = reply.at("warmup_ns");
             result.create_ns = reply.at("create_ns");
             result.audited_runs = reply.at("audited_runs");
             result.audits_ns = reply.at("audits_ns");
             if (reply.contains("device")) {
               const json& device = reply["device"];
               result.device = DeviceTimeRecord{.replayed_runs = device.at("replayed_runs"),
                                                .discarded_samples = device.at("discarded_samples"),
                                                .launch_ns = device.at("launch_ns"),
                                                .clock_mhz = device.at("clock_mhz")};
             }
             result.differs = reply.at("differs"), result.stale = reply.at("stale"),
             result.late = reply.at("late"), result.inputs_changed = reply.at("inputs_changed");
           });
  return result;
}

}  // namespace attest::core
