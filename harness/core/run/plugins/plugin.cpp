#include "core/run/plugins/plugin.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <stdexcept>

#include "core/device/device_kinds.hpp"
#include "core/isolation/libraries.hpp"
#include "core/isolation/messages/messages.hpp"
#include "core/measure/machine/caches.hpp"
#include "core/measure/machine/memory.hpp"
#include "core/measure/time.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {

namespace fs = std::filesystem;

namespace {

constexpr double kLoadTimeout_s = 60;
constexpr double kMessageTimeout_s = 10;  // from a message's first byte to its last
constexpr double kLinger_s = 0.03;  // in which a thread that goes on after run may use the tensors
// For the worker's own work between calls, mapping and flushing caches, which is not to be blamed
// on the plugin.
constexpr auto kOwnWork = std::chrono::seconds(60);
constexpr double kMemoryShare = 0.9;  // of what a worker has and what is available

Clock::time_point in_seconds(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Outcome malformed() {
  return {ReasonCode::kErrorProtocol,
          "the worker's answer is malformed; did the plugin write into its connection?"};
}

/// Throws Error if the file is the source of a plugin.
void require_library(const fs::path& path) {
  static const std::string kSources[] = {".c", ".cc", ".cpp", ".cxx", ".cu"};
  static const std::string kHeaders[] = {".h", ".hh", ".hpp", ".cuh"};
  const std::string extension = path.extension().string();
  if (std::ranges::find(kHeaders, extension) != std::end(kHeaders))
    throw Error(fmt::format("{}: is a header, and --plugin takes a library, e.g. ./mine.so",
                            path.string()));
  if (std::ranges::find(kSources, extension) != std::end(kSources))
    throw Error(fmt::format(
        "{}: is a source file, and --plugin takes the library that is built from it: {}",
        path.string(), compile_command(path.string(), "FOLDER_OF_ATTEST_H")));
}

}  // namespace

std::string compile_command(const fs::path& source, const std::string& folder) {
  const std::string extension = source.extension().string();
  const char* compiler = "c++ -std=c++17 -O3 -shared -fPIC -fvisibility=hidden";
  if (extension == ".c") compiler = "cc -O2 -shared -fPIC -fvisibility=hidden";
  if (extension == ".cu")
    compiler =
        "nvcc -std=c++17 -O3 -arch=native --expt-relaxed-constexpr -shared "
        "-Xcompiler -fPIC,-fvisibility=hidden";
  return fmt::format("{} -I{} {} -o {}{}", compiler, folder, source.string(),
                     fs::path(source).replace_extension(".so").string(),
                     extension == ".c" ? " -lm" : "");
}

std::string print_dtypes(uint64_t bits) {
  std::string text;
  for (DType dtype = ATTEST_F32; dtype <= ATTEST_F8E5M2; ++dtype)
    if (bits & ATTEST_BIT(dtype)) text.append(text.empty() ? "" : ",").append(dtype_name(dtype));
  return text;
}

std::string refuses(const Implementation& implementation, const Problem& problem) {
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
    return fmt::format("does not support {}",
                       fmt::join(feature_names(missing, problem.operation), "+"));
  return {};
}

Plugin::Plugin(const fs::path& path, const WorkerOptions& options)
    : path_(fs::absolute(path)), file_name_(path.filename()), options_(options) {
  if (!fs::is_regular_file(path))
    throw Error(
        fmt::format("{}: no such plugin file; name a shared library, e.g. ./mine.so, which attest "
                    "new shows how to build",
                    path.string()));
  require_library(path);
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
  std::vector<std::byte> message;
  std::vector<Descriptor> none;
  const Channel::Status status =
      worker_->channel().receive(message, none, in_seconds(kLoadTimeout_s));
  if (status == Channel::Status::kTimeout)
    return Outcome{ReasonCode::kErrorWorker,
                   fmt::format("did not load within {} s", kLoadTimeout_s)};
  if (status != Channel::Status::kMessage) return explain_death(*worker_, nullptr);
  Greeting greeting;
  try {
    greeting = unpack_greeting(message);
  } catch (const Error&) {
    return malformed();
  }
  if (greeting.error) throw Error(*greeting.error);
  if (implementations_.empty()) keep_tables(greeting.tables);
  if (!greeting.modes_at_load.empty())
    note(fmt::format(
        "the library changes the floating-point mode when it is loaded ({}); it was restored",
        greeting.modes_at_load));
  greeted_ = true;
  return std::nullopt;
}

void Plugin::keep_tables(const std::vector<PluginTable>& tables) {
  const uint64_t hash = hash_file(path_);
  for (const PluginTable& table : tables)
    implementations_.push_back({.name = tidy(table.name, 64),
                                .version = tidy(table.version, 64),
                                .summary = tidy(table.summary, 200),
                                .plugin = file_name_,
                                .binary_hash = hash,
                                .table = implementations_.size(),
                                .operation = table.operation,
                                .device = table.device,
                                .dtypes = table.dtypes,
                                .features = table.features});
}

std::vector<std::string> Plugin::habits() {
  if (worker_ && worker_->take_output() > 0) note("it floods its output, which is cut");
  return std::exchange(notes_, {});
}

// What became of a worker that should wait for a request: it has ended, or has spoken unasked. A
// thread of the implementation that was asked last did that; where it is another one's turn, or
// somebody else has killed the worker, that is a note.
std::optional<Outcome> Plugin::ended_idle(const Implementation& implementation,
                                          const Problem& problem) {
  Outcome failure = explain_death(*worker_, &problem);
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
  implementations();  // the first message is the worker's list of tables
  if (options_.cancelled && options_.cancelled())
    return Outcome{ReasonCode::kTimeoutRun, "interrupted"};
  if (worker_ && greeted_ && worker_->channel().readable(Clock::now()))
    if (std::optional<Outcome> failure = ended_idle(implementation, problem)) return failure;
  constexpr int kTries = 2;
  std::optional<Outcome> failure;
  for (int tries = 0; tries < kTries; ++tries) {
    if (!worker_) {
      worker_ = std::make_unique<Worker>(path_, options_);
      greeted_ = false;
      plan_ns_ = 0;
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
  const std::atomic<bool>* stopped = nullptr;  // of PacedTask
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
  worker_->take_output();
  const uint64_t all = worker_->resident_bytes(),
                 resident = all - std::min<uint64_t>(all, page.kept_bytes);
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
std::optional<Outcome> Plugin::await(Reply& reply, const Problem& problem, const Waiting& waiting) {
  const auto last = in_seconds(waiting.all_s);
  auto deadline = in_seconds(waiting.call_s);
  uint64_t pulse = worker_->status().pulse, most_bytes = 0;
  while (!worker_->channel().readable(in_seconds(waiting.look_s))) {
    if (const uint64_t now = worker_->status().pulse; now != pulse) {
      pulse = now;
      deadline = std::min(last, in_seconds(waiting.call_s));
    }
    if (waiting.stopped && *waiting.stopped) worker_->ask_to_stop(true);
    if (std::optional<Outcome> failure = look(most_bytes, waiting, deadline)) return failure;
  }
  std::vector<std::byte> message;
  std::vector<Descriptor> none;
  const auto received = worker_->channel().receive(message, none, in_seconds(kMessageTimeout_s));
  if (received == Channel::Status::kClosed) return explain_death(*worker_, &problem);
  if (received != Channel::Status::kMessage) return malformed();
  try {
    reply = unpack_reply(message);
  } catch (const Error&) {
    return malformed();
  }
  if (reply.sequence != sequence_) return malformed();
  return std::nullopt;
}

// Sends a request, waits for the reply, and says which failure it reports.
std::optional<Outcome> Plugin::exchange(Request request, std::span<const int> descriptors,
                                        Reply& reply, const Problem& problem,
                                        const Waiting& waiting) {
  request.sequence = ++sequence_;
  last_table_ = request.table;
  worker_->ask_to_stop(false);
  // A worker that is gone shows in the answer.
  worker_->channel().send(pack_message(request), descriptors);
  if (std::optional<Outcome> failure = await(reply, problem, waiting)) return failure;
  return reported_failure(reply, problem);
}

// Adds what the calls for a request took. Runs that failed have told no time; paced ones are
// counted by who asked for them, as a whole.
void Plugin::count_calls(const Reply& reply) {
  const uint64_t plan_ns = worker_->status().plan_ns;
  double ns = double(plan_ns - std::exchange(plan_ns_, plan_ns));
  if (std::holds_alternative<PacedReply>(reply.result)) return;
  if (const auto* run = std::get_if<RunReply>(&reply.result)) ns += run->run_ns;
  if (const auto* script = std::get_if<ScriptReply>(&reply.result))
    for (const double run_ns : script->run_ns) ns += run_ns;
  calls_s_ += ns * 1e-9;
}

// One request and its reply. After a failure the worker may be in any state, so that it is ended.
template <class Said>
ResultOf<Said> Plugin::call(const Implementation& implementation,
                            const std::vector<const Problem*>& problems, const Waiting& waiting,
                            decltype(Request::wanted) wanted, std::span<const int> descriptors) {
  const Problem& problem = *problems.at(0);
  ResultOf<Said> result;
  result.failure = ready(implementation, problem);
  if (result.failure) return result;
  Request request{.table = implementation.table, .problems = {}, .wanted = std::move(wanted)};
  for (const Problem* one : problems) request.problems.emplace_back(*one, options_.limits.threads);
  Reply reply;
  result.failure = exchange(std::move(request), descriptors, reply, problem, waiting);
  count_calls(reply);
  if (!result.failure) {
    if (Said* const said = std::get_if<Said>(&reply.result))
      static_cast<Said&>(result) = std::move(*said);
    else
      result.failure = malformed();
  }
  if (result.failure && result.failure->code != ReasonCode::kErrorRuntime &&
      result.failure->code != ReasonCode::kErrorMemory)
    worker_.reset();
  return result;
}

std::optional<Outcome> Plugin::ended_since_reply(const Problem& problem) {
  return ended_by(Clock::now(), problem);
}

std::optional<Outcome> Plugin::settle(const Problem& problem) {
  return ended_by(std::exchange(settled_at_, {}), problem);
}

std::optional<Outcome> Plugin::ended_by(Clock::time_point deadline, const Problem& problem) {
  if (!worker_ || !greeted_ || !worker_->channel().readable(deadline)) return std::nullopt;
  Outcome failure = explain_death(*worker_, &problem);
  if (failure.code != ReasonCode::kCrashLateWrite) failure.reason += ", after run had returned";
  worker_.reset();
  return failure;
}

QueryResult Plugin::query(const Implementation& implementation, const Problem& problem) {
  QueryResult result = call<QueryReply>(implementation, {&problem}, waiting(0), QueryRequest{}, {});
  const char* const reason = result.support.reason;
  if (result.status == ATTEST_UNSUPPORTED || result.status == ATTEST_OK)
    result.message.assign(reason, strnlen(reason, sizeof(result.support.reason)));
  result.message = tidy(std::move(result.message), 300);
  return result;
}

namespace {

Outcome outcome_of(const DeviceTrespass& trespass, const Problem& problem) {
  const Role* role =
      trespass.role == kWorkspaceRole ? nullptr : find_role(*problem.operation, trespass.role);
  return {trespass.input_written ? ReasonCode::kCrashInputWritten : ReasonCode::kCrashCanary,
          fmt::format("{} {}", role ? role->name : "workspace", tidy(trespass.text, 200))};
}

Outcome outcome_of(const FailedStep& failed) {
  const attest_status status = failed.status;
  const char* meaning = status == ATTEST_UNSUPPORTED       ? "unsupported"
                        : status == ATTEST_INVALID_PROBLEM ? "invalid problem"
                        : status == ATTEST_OUT_OF_MEMORY   ? "out of memory"
                                                           : "runtime error";
  const std::string words = tidy(failed.message, 300);
  return {status == ATTEST_OUT_OF_MEMORY ? ReasonCode::kErrorMemory : ReasonCode::kErrorRuntime,
          fmt::format("{} gave {} ({}){}{}", tidy(failed.stage, 64), status, meaning,
                      words.empty() ? "" : ": ", words)};
}

}  // namespace

// The reply's own failure: an exception, a fault of the device, what the runs did to the process,
// or a step that returned a status.
std::optional<Outcome> Plugin::reported_failure(const Reply& reply, const Problem& problem) {
  for (const std::string& text : reply.notes) note(tidy(text, 300));
  if (reply.more_threads) settled_at_ = in_seconds(kLinger_s);
  if (reply.exception) return Outcome{ReasonCode::kCrashException, tidy(*reply.exception, 300)};
  if (reply.device_fault) return Outcome{ReasonCode::kCrashDevice, tidy(*reply.device_fault, 300)};
  if (reply.no_room)
    return Outcome{ReasonCode::kSkippedMemory,
                   "the device has no room for the tensors: " + tidy(*reply.no_room, 300)};
  if (reply.trespass) return outcome_of(*reply.trespass, problem);
  if (!reply.findings.empty()) {
    const Outcome& first = reply.findings.front();
    if (first.verdict() != Verdict::kFail) return malformed();
    return Outcome{first.code, tidy(first.reason, 300)};
  }
  if (const auto* failed = std::get_if<FailedStep>(&reply.result)) return outcome_of(*failed);
  return std::nullopt;
}

namespace {

std::vector<Slot> slots_of(const SharedTensors& tensors) {
  return {tensors.slots().begin(), tensors.slots().end()};
}

RunSlots slots_of(const SharedTensors& inputs, const SharedTensors& outputs) {
  return {slots_of(inputs), slots_of(outputs)};
}

uint64_t mapped_bytes(const std::vector<const SharedTensors*>& sets) {
  uint64_t bytes = 0;
  for (const SharedTensors* tensors : sets)
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
                      const SharedTensors& inputs, const SharedTensors& outputs, bool trims) {
  const int descriptors[] = {inputs.descriptor(), outputs.descriptor()};
  return call<RunReply>(implementation, {&problem}, waiting(mapped_bytes({&inputs, &outputs})),
                        RunRequest{slots_of(inputs, outputs), trims}, descriptors);
}

ScriptResult Plugin::script(const Implementation& implementation, const Script& script,
                            double expected_ns) {
  if (script.sets.size() > kMostSets)
    throw std::logic_error(fmt::format("a script of {} sets where {} fit into a message",
                                       script.sets.size(), kMostSets));
  ScriptRequest wanted{.sets = {}, .steps = script.steps};
  std::vector<int> descriptors;
  for (const SharedTensors* set : script.sets) {
    descriptors.push_back(set->descriptor());
    wanted.sets.push_back(slots_of(*set));
  }
  Waiting patience = waiting(mapped_bytes(script.sets));
  patience.all_s += 10e-9 * expected_ns + options_.limits.timeout_s * double(script.plans.size());
  ScriptResult result =
      call<ScriptReply>(implementation, script.plans, patience, std::move(wanted), descriptors);
  if (result.refusal) result.refusal = tidy(*result.refusal, 300);
  return result;
}

namespace {

// All workers of this process read the same.
int flush_file() {
  static const Descriptor file(make_flush_file().descriptor);
  return file.get();
}

// `flush_descriptor`: that of the flush file; below 0: caches are not emptied.
std::vector<int> descriptors_of(const AuditedTensors& tensors, int flush_descriptor) {
  std::vector<int> descriptors = {tensors.inputs.descriptor(), tensors.outputs.descriptor(),
                                  tensors.differing.descriptor()};
  if (tensors.second_inputs)
    descriptors.insert(descriptors.end(),
                       {tensors.second_inputs->descriptor(), tensors.second_outputs->descriptor()});
  if (flush_descriptor >= 0) descriptors.push_back(flush_descriptor);
  return descriptors;
}

// Puts the slots into a TimeRequest or PacedRequest.
template <class Wanted>
Wanted with_slots(Wanted wanted, const AuditedTensors& tensors, int flush_descriptor) {
  wanted.slots = slots_of(tensors.inputs, tensors.outputs);
  wanted.differing = slots_of(tensors.differing);
  wanted.has_flush_file = flush_descriptor >= 0;
  if (tensors.second_inputs)
    wanted.second = slots_of(*tensors.second_inputs, *tensors.second_outputs);
  return wanted;
}

}  // namespace

// Many runs, some `runs_ns` together. Outputs are mapped three times, inputs twice. No more looks
// than a scheduler's tick or two in a hundred.
Plugin::Waiting Plugin::waiting_for_many(const AuditedTensors& tensors, double runs_ns) const {
  Waiting patience = waiting(3 * mapped_bytes({&tensors.inputs, &tensors.outputs}));
  patience.all_s += 10e-9 * runs_ns;
  patience.look_s = 0.05;
  return patience;
}

TimeResult Plugin::time(const Implementation& implementation, const Problem& problem,
                        const AuditedTensors& tensors, const TimingTask& task) {
  TimeRequest wanted{
      .expected_ns = task.expected_ns, .budget_ns = task.budget_ns, .seed = task.seed};
  const int flush_descriptor = takes_cold_samples(task.budget_ns) ? flush_file() : -1;
  return call<TimeReply>(implementation, {&problem}, waiting_for_many(tensors, task.budget_ns),
                         with_slots(std::move(wanted), tensors, flush_descriptor),
                         descriptors_of(tensors, flush_descriptor));
}

PacedResult Plugin::pace(const Implementation& implementation, const Problem& problem,
                         const AuditedTensors& tensors, const PacedTask& task) {
  PacedRequest wanted{.period_ns = task.period_ns,
                      .window_ns = task.window_ns,
                      .frames = task.frames,
                      .seed = task.seed};
  constexpr double kNoEnd_ns = 1e15;  // eleven days: longer than any series of frames
  const double runs_ns =
      task.stopped
          ? kNoEnd_ns
          : task.window_ns + double(task.frames) * std::max(task.period_ns, task.expected_ns);
  Waiting patience = waiting_for_many(tensors, runs_ns);
  patience.stopped = task.stopped;
  return call<PacedReply>(implementation, {&problem}, patience,
                          with_slots(std::move(wanted), tensors, flush_file()),
                          descriptors_of(tensors, flush_file()));
}

}  // namespace attest::core
