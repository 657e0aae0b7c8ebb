#include "core/isolation/messages/messages.hpp"

#include <fmt/format.h>

#include "core/isolation/messages/packing.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {

// Both processes are of one build, so these types have the same layout in each.
template <>
inline constexpr bool kPacksAsBytes<WireProblem> = true;
template <>
inline constexpr bool kPacksAsBytes<Slot> = true;
template <>
inline constexpr bool kPacksAsBytes<ScriptStep> = true;
template <>
inline constexpr bool kPacksAsBytes<attest_support> = true;

// As tensor/walk.hpp says.
template <class Visit>
void walk(PluginTable& table, Visit&& visit) {
  visit("name", table.name);
  visit("version", table.version);
  visit("summary", table.summary);
  visit("operation", table.operation);
  visit("device", table.device);
  visit("dtypes", table.dtypes);
  visit("features", table.features);
}

template <class Visit>
void walk(Greeting& greeting, Visit&& visit) {
  visit("tables", greeting.tables);
  visit("modes_at_load", greeting.modes_at_load);
  visit("error", greeting.error);
}

template <class Visit>
void walk(RunSlots& slots, Visit&& visit) {
  visit("inputs", slots.inputs);
  visit("outputs", slots.outputs);
}

template <class Visit>
void walk(QueryRequest& /*request*/, Visit&& /*visit*/) {}

template <class Visit>
void walk(RunRequest& request, Visit&& visit) {
  visit("slots", request.slots);
  visit("trims", request.trims);
}

template <class Visit>
void walk(TimeRequest& request, Visit&& visit) {
  visit("slots", request.slots);
  visit("differing", request.differing);
  visit("second", request.second);
  visit("expected_ns", request.expected_ns);
  visit("budget_ns", request.budget_ns);
  visit("seed", request.seed);
  visit("has_flush_file", request.has_flush_file);
}

template <class Visit>
void walk(PacedRequest& request, Visit&& visit) {
  visit("slots", request.slots);
  visit("differing", request.differing);
  visit("second", request.second);
  visit("period_ns", request.period_ns);
  visit("window_ns", request.window_ns);
  visit("frames", request.frames);
  visit("seed", request.seed);
  visit("has_flush_file", request.has_flush_file);
}

template <class Visit>
void walk(ScriptRequest& request, Visit&& visit) {
  visit("sets", request.sets);
  visit("steps", request.steps);
}

template <class Visit>
void walk(Request& request, Visit&& visit) {
  visit("sequence", request.sequence);
  visit("table", request.table);
  visit("problems", request.problems);
  visit("wanted", request.wanted);
}

template <class Visit>
void walk(FailedStep& failed, Visit&& visit) {
  visit("stage", failed.stage);
  visit("status", failed.status);
  visit("message", failed.message);
}

template <class Visit>
void walk(QueryReply& reply, Visit&& visit) {
  visit("status", reply.status);
  visit("support", reply.support);
  visit("message", reply.message);
}

template <class Visit>
void walk(RunReply& reply, Visit&& visit) {
  visit("create_ns", reply.create_ns);
  visit("run_ns", reply.run_ns);
  visit("pool_peak_bytes", reply.pool_peak_bytes);
  visit("peak_bytes", reply.peak_bytes);
}

template <class Visit>
void walk(TimeReply& reply, Visit&& visit) {
  visit("samples_ns", reply.samples_ns);
  visit("cold_samples_ns", reply.cold_samples_ns);
  visit("iterations_per_sample", reply.iterations_per_sample);
  visit("warmup_ns", reply.warmup_ns);
  visit("create_ns", reply.create_ns);
  visit("audited_runs", reply.audited_runs);
  visit("audits_ns", reply.audits_ns);
  visit("device", reply.device);
  visit("usage", reply.usage);
  visit("differs", reply.differs);
  visit("stale", reply.stale);
  visit("late", reply.late);
  visit("inputs_changed", reply.inputs_changed);
}

template <class Visit>
void walk(PacedReply& reply, Visit&& visit) {
  visit("create_ns", reply.create_ns);
  visit("first_ns", reply.first_ns);
  visit("runs", reply.runs);
  visit("starts_ns", reply.starts_ns);
  visit("ends_ns", reply.ends_ns);
  visit("clock_held_ns", reply.clock_held_ns);
  visit("audited_runs", reply.audited_runs);
  visit("differs", reply.differs);
  visit("stale", reply.stale);
  visit("inputs_changed", reply.inputs_changed);
}

template <class Visit>
void walk(ScriptReply& reply, Visit&& visit) {
  visit("run_ns", reply.run_ns);
  visit("refusal", reply.refusal);
}

template <class Visit>
void walk(DeviceTrespass& trespass, Visit&& visit) {
  visit("role", trespass.role);
  visit("input_written", trespass.input_written);
  visit("text", trespass.text);
}

template <class Visit>
void walk(Reply& reply, Visit&& visit) {
  visit("sequence", reply.sequence);
  visit("result", reply.result);
  visit("exception", reply.exception);
  visit("device_fault", reply.device_fault);
  visit("no_room", reply.no_room);
  visit("trespass", reply.trespass);
  visit("findings", reply.findings);
  visit("notes", reply.notes);
  visit("more_threads", reply.more_threads);
}

std::vector<std::byte> pack_message(const Greeting& greeting) { return pack(greeting); }
std::vector<std::byte> pack_message(const Request& request) { return pack(request); }
std::vector<std::byte> pack_message(const Reply& reply) { return pack(reply); }

Greeting unpack_greeting(std::span<const std::byte> message) { return unpack<Greeting>(message); }
Request unpack_request(std::span<const std::byte> message) { return unpack<Request>(message); }
Reply unpack_reply(std::span<const std::byte> message) {
  Reply reply = unpack<Reply>(message);
  // A results file may hold the codes of a newer attest; this worker is of the same version.
  for (const Outcome& finding : reply.findings)
    if (is_newer(finding.code))
      throw Error(fmt::format("a reply with the unknown reason code '{}'", name(finding.code)));
  return reply;
}

}  // namespace attest::core
