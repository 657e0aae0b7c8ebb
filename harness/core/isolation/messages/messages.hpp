// What the harness and its worker say to each other: a greeting, requests, replies.
//
// Each message is a struct with one `walk` (messages.cpp), by which it is packed and unpacked
// (packing.hpp). The worker knows no operation: it gets params and specifications as bytes and
// hands them to the plugin as they are. Neither side trusts the other: a message with too few or
// too many bytes, or with a length or an index that cannot be, throws Error where it is unpacked.
#pragma once
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/device/device_times.hpp"
#include "core/device/host_usage.hpp"
#include "core/isolation/memory/buffers.hpp"
#include "core/isolation/messages/script.hpp"
#include "core/judge/verdict.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

/// One table of a plugin.
struct PluginTable {
  std::string name, version, summary;
  int32_t operation = 0, device = ATTEST_CPU;
  uint64_t dtypes = 0, features = 0;
};

/// What a worker says first, unasked.
struct Greeting {
  std::vector<PluginTable> tables;
  std::string modes_at_load;         // floating-point modes that the library changed, or ""
  std::optional<std::string> error;  // what is wrong with the library; there are no tables then
};

/// attest_problem with everything it points to. Trivially copyable: it crosses as bytes.
struct WireProblem {
  int32_t operation = 0, device_id = 0, threads = 1, reserved = 0;
  uint64_t features = 0;
  alignas(64) std::byte params[ATTEST_ROOM]{};
  attest_tensor tensor[ATTEST_ROLES]{};

  WireProblem() = default;
  WireProblem(const Problem& problem, int32_t thread_count)
      : operation(problem.operation->number()), threads(thread_count), features(problem.features) {
    std::memcpy(params, problem.params.data(), sizeof(params));
    std::memcpy(tensor, problem.tensor.data(), sizeof(tensor));
  }
};
static_assert(std::is_trivially_copyable_v<WireProblem>);

/// Where the tensors of a run lie in two files.
struct RunSlots {
  std::vector<Slot> inputs, outputs;
};

struct QueryRequest {};

/// One judged run. With it come the descriptors of inputs and outputs.
struct RunRequest {
  RunSlots slots;
  bool trims = false;  // memory that earlier runs have freed goes back to the system first
};

/// Timed runs. With it come the descriptors of inputs, outputs, differing, and of the second set,
/// and that of a flush file (caches.hpp) last.
struct TimeRequest {
  RunSlots slots;
  std::vector<Slot> differing;     // for outputs of another run on the same inputs that differ
  std::optional<RunSlots> second;  // another set of inputs, and for its outputs
  double expected_ns = 0;          // of one run, as measured
  double budget_ns = 0;            // of all samples
  uint64_t seed = 0;               // of what is audited when
  bool has_flush_file = false;
};

/// Runs one after the other, or one a period. With it come the descriptors as with TimeRequest.
struct PacedRequest {
  RunSlots slots;
  std::vector<Slot> differing;     // as in TimeRequest
  std::optional<RunSlots> second;  // likewise
  double period_ns = 0;            // from one arrival to the next; 0: right after the other
  double window_ns = 0;            // no run begins later; 0: it has no end
  uint64_t frames = 0;             // at most; 0: any number. StatusPage::stop ends them too
  uint64_t seed = 0;               // of what is audited when
  bool has_flush_file = false;
};

/// Several plans (script.hpp). With it come the descriptors of all sets.
struct ScriptRequest {
  std::vector<std::vector<Slot>> sets;
  std::vector<ScriptStep> steps;
};

struct Request {
  uint64_t sequence = 0;              // its reply has the same
  uint64_t table = 0;                 // the number of the implementation's table
  std::vector<WireProblem> problems;  // one; of a script the problem of each plan
  std::variant<QueryRequest, RunRequest, TimeRequest, ScriptRequest, PacedRequest> wanted;
};

/// The step that ended a request before its end.
struct FailedStep {
  std::string stage = "worker";  // "create", "run 3" ...; "worker": no step of the plugin's
  attest_status status = ATTEST_RUNTIME_ERROR;
  std::string message;  // in the plugin's words
};

struct QueryReply {
  attest_status status = ATTEST_OK;
  attest_support support{};
  std::string message;  // why not, where status is not ATTEST_OK
};

struct RunReply {
  double create_ns = 0, run_ns = 0;
  // Of a device: growth of what was allocated in the order of the stream
  std::optional<uint64_t> pool_peak_bytes;
  // Growth of resident memory over create and run, tensors not counted
  std::optional<uint64_t> peak_bytes;
};

struct TimeReply {
  std::vector<double> samples_ns, cold_samples_ns;
  int64_t iterations_per_sample = 1;
  double warmup_ns = 0, create_ns = 0;
  int64_t audited_runs = 0;
  double audits_ns = 0;               // of runs beside the samples, for the audits
  std::optional<DeviceTimes> device;  // where it was the device's clock that was read
  std::optional<HostUsage> usage;     // where it was the host's
  bool differs = false;  // the outputs of a second run on the same inputs went into `differing`
  bool stale = false;    // a run left an output as it was before the run
  bool late = false;     // outputs changed after run had returned
  bool inputs_changed = false;  // by the implementation
};

struct PacedReply {
  double create_ns = 0;
  double first_ns = 0;  // arrival of the first frame, by the steady clock of both processes
  uint64_t runs = 0;    // beside the audits
  // Of each run, from the first arrival, by the clock that releases frames. Where any number of
  // runs was wanted: the start of the first and the end of the last one.
  std::vector<double> starts_ns, ends_ns;
  double clock_held_ns = 0;  // how long that clock stood still, because attest held up a frame
  int64_t audited_runs = 0;
  bool differs = false;  // as in TimeReply
  bool stale = false;
  bool inputs_changed = false;
};

struct ScriptReply {
  std::vector<double> run_ns;          // of each run
  std::optional<std::string> refusal;  // of a create while another plan was alive, in the plugin's
                                       // words; the rest was not done
};

/// Of a device, where no guard page stops a stray write: the tensor or workspace whose canaries
/// were written ("was written past its end, at byte 4 behind it"), or the input that was ("was
/// changed").
struct DeviceTrespass {
  int32_t role = 0;
  bool input_written = false;
  std::string text;
};

/// What a request gave, and what its calls did to the process and the device besides.
struct Reply {
  using Result = std::variant<FailedStep, QueryReply, RunReply, TimeReply, ScriptReply, PacedReply>;

  uint64_t sequence = 0;
  Result result;
  std::optional<std::string> exception;              // that left a call
  std::optional<std::string> device_fault, no_room;  // of tensors on the device; its driver's words
  std::optional<DeviceTrespass> trespass;
  std::vector<Outcome> findings;  // what the runs may not do to their process
  std::vector<std::string> notes;
  bool more_threads = false;  // the process has more threads than before the runs
};

std::vector<std::byte> pack_message(const Greeting& greeting);
std::vector<std::byte> pack_message(const Request& request);
std::vector<std::byte> pack_message(const Reply& reply);
/// They throw Error, which says what is wrong with the message.
Greeting unpack_greeting(std::span<const std::byte> message);
Request unpack_request(std::span<const std::byte> message);
Reply unpack_reply(std::span<const std::byte> message);

}  // namespace attest::core
