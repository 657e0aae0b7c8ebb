// Every message arrives as it was sent; one that lacks a key, or has a value of another type or
// bytes of another length, is refused.
#include "core/isolation/messages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

json through_cbor(const json& message) { return json::from_cbor(json::to_cbor(message)); }

Greeting sample_greeting() {
  return {.tables = {{.name = "mine",
                      .version = "2",
                      .summary = "as it is",
                      .operation = ATTEST_SOFTMAX,
                      .device = ATTEST_CUDA,
                      .dtypes = 5,
                      .features = uint64_t(1) << 63}},
          .modes_at_load = "flush-to-zero",
          .error = "is no library"};
}

RunSlots sample_slots(int32_t role) {
  Slot slot{};
  slot.role = role;
  slot.map_bytes = int64_t(1) << 40;
  return {.inputs = {slot, slot}, .outputs = {slot}};
}

// One request of each kind.
std::vector<Request> sample_requests() {
  WireProblem problem;
  problem.features = uint64_t(3) << 62;
  problem.params[17] = std::byte{5};
  problem.tensor[2].rank = 4;
  std::vector<Request> requests(
      5, {.sequence = uint64_t(1) << 60, .table = 3, .problems = {problem}, .wanted = {}});
  requests[0].wanted = QueryRequest{};
  requests[1].wanted = RunRequest{sample_slots(1)};
  requests[2].wanted = TimeRequest{.slots = sample_slots(1),
                                   .differing = sample_slots(2).outputs,
                                   .second = sample_slots(3),
                                   .expected_ns = 1.5,
                                   .budget_ns = 2.5,
                                   .seed = ~uint64_t(0),
                                   .has_flush_file = true};
  requests[3].wanted =
      ScriptRequest{.sets = {sample_slots(1).inputs, sample_slots(2).outputs},
                    .steps = {{.kind = ScriptStep::kCreate, .plan = 1},
                              {.kind = ScriptStep::kRun, .plan = 1, .inputs = 0, .outputs = 1}}};
  requests[3].problems.push_back(problem);
  requests[4].wanted = PacedRequest{.slots = sample_slots(1),
                                    .differing = sample_slots(2).outputs,
                                    .second = sample_slots(3),
                                    .period_ns = 1.5,
                                    .window_ns = 2.5,
                                    .frames = 3,
                                    .seed = ~uint64_t(0),
                                    .has_flush_file = true};
  return requests;
}

// One reply of each kind, with all that a reply can have.
std::vector<Reply> sample_replies() {
  std::vector<Reply> replies(6, {.sequence = 7,
                                 .result = {},
                                 .exception = "run threw",
                                 .device_fault = "illegal address",
                                 .no_room = "out of memory",
                                 .trespass = DeviceTrespass{3, true, "was changed"},
                                 .findings = {{ReasonCode::kFailThreads, "one more"}},
                                 .notes = {"a note", "another"},
                                 .more_threads = true});
  replies[0].result = FailedStep{"run 3", ATTEST_OUT_OF_MEMORY, "too much"};
  QueryReply query{.status = ATTEST_UNSUPPORTED, .support = {}, .message = "no"};
  query.support.workspace_bytes = 12345;
  replies[1].result = query;
  replies[2].result = RunReply{.create_ns = 1, .run_ns = 2, .pool_peak_bytes = 3, .peak_bytes = 4};
  replies[3].result =
      TimeReply{.samples_ns = {1, 2.5},
                .cold_samples_ns = {3},
                .iterations_per_sample = 4,
                .warmup_ns = 5,
                .create_ns = 6,
                .audited_runs = 7,
                .audits_ns = 8,
                .device = DeviceTimes{1, 2, 3, 4},
                .usage = HostUsage{1, 2, 3, 4, {0, 1}, 5, "none", HardwareCounts{1, 2, 3, 0.5}, ""},
                .differs = true,
                .stale = true,
                .late = true,
                .inputs_changed = true};
  replies[4].result = ScriptReply{.run_ns = {1, 2}, .refusal = "one plan at a time"};
  replies[5].result = PacedReply{.create_ns = 1,
                                 .first_ns = 2,
                                 .starts_ns = {3, 4},
                                 .ends_ns = {5, 6},
                                 .audited_runs = 7,
                                 .differs = true,
                                 .stale = true,
                                 .inputs_changed = true};
  return replies;
}

// All paths to values in a message: objects and lists, and what is in them.
std::vector<json::json_pointer> paths(const json& message) {
  std::vector<json::json_pointer> all;
  const std::function<void(const json&, const json::json_pointer&)> visit =
      [&](const json& value, const json::json_pointer& path) {
        if (!value.is_structured()) return;
        for (const auto& [key, inner] : value.items()) {
          const json::json_pointer at =
              value.is_array() ? path / size_t(std::stoul(key)) : path / key;
          all.push_back(at);
          visit(inner, at);
        }
      };
  visit(message, json::json_pointer());
  return all;
}

// Changes each value of a message to one of another type, and each byte string's length; `read`
// must refuse all of that. Then without the key: `read` must refuse, but for the keys named.
template <class Read>
void expect_distrust(const json& message, const std::vector<std::string>& optional,
                     const Read& read) {
  for (const json::json_pointer& path : paths(message)) {
    const json& value = message.at(path);
    json bad = message;
    bad[path] = value.is_structured() ? json(1) : json::array({json::object()});
    EXPECT_THROW(read(bad), Error) << path;
    if (value.is_binary()) {
      bad[path] = message.at(path);
      bad[path].get_binary().pop_back();
      EXPECT_THROW(read(bad), Error) << path;
    }
    if (message.at(path.parent_pointer()).is_array()) continue;
    bad = message;
    bad[path.parent_pointer()].erase(path.back());
    if (std::find(optional.begin(), optional.end(), path.back()) == optional.end())
      EXPECT_THROW(read(bad), Error) << path;
    else
      EXPECT_NO_THROW(read(bad)) << path;
  }
  EXPECT_THROW(read(json::array()), Error);
}

TEST(Messages, GreetingsArrive) {
  const json sent = to_json(sample_greeting());
  const Greeting got = greeting_from_json(through_cbor(sent));
  EXPECT_EQ(to_json(got), sent);
  EXPECT_EQ(got.error, "is no library");
  EXPECT_EQ(got.tables.at(0).features, uint64_t(1) << 63);
  EXPECT_FALSE(greeting_from_json(to_json(Greeting{})).error);
}

TEST(Messages, RequestsArrive) {
  for (const Request& request : sample_requests()) {
    const json sent = to_json(request);
    const Request got = request_from_json(through_cbor(sent));
    EXPECT_EQ(to_json(got), sent);
    EXPECT_EQ(got.wanted.index(), request.wanted.index());
    EXPECT_EQ(got.problems.at(0).tensor[2].rank, 4);
  }
  const Request timed = request_from_json(to_json(sample_requests()[2]));
  EXPECT_EQ(std::get<TimeRequest>(timed.wanted).second.value().inputs.at(1).role, 3);
  EXPECT_EQ(std::get<TimeRequest>(timed.wanted).seed, ~uint64_t(0));
  EXPECT_TRUE(std::get<TimeRequest>(timed.wanted).has_flush_file);
  const Request script = request_from_json(to_json(sample_requests()[3]));
  EXPECT_EQ(std::get<ScriptRequest>(script.wanted).steps.at(1).outputs, 1);
  EXPECT_EQ(std::get<ScriptRequest>(script.wanted).sets.at(1).size(), 1u);
}

TEST(Messages, RepliesArrive) {
  for (const Reply& reply : sample_replies()) {
    const json sent = to_json(reply);
    const Reply got = reply_from_json(through_cbor(sent));
    EXPECT_EQ(to_json(got), sent);
    EXPECT_EQ(got.result.index(), reply.result.index());
    EXPECT_EQ(got.findings.at(0).code, ReasonCode::kFailThreads);
    EXPECT_EQ(got.trespass.value().role, 3);
  }
  const Reply query = reply_from_json(to_json(sample_replies()[1]));
  EXPECT_EQ(std::get<QueryReply>(query.result).support.workspace_bytes, 12345u);
  const Reply timed = reply_from_json(to_json(sample_replies()[3]));
  EXPECT_EQ(std::get<TimeReply>(timed.result).device.value().clock_mhz, 4);
}

TEST(Messages, WhatNeedNotBeThereIsAbsent) {
  const Reply got = reply_from_json(to_json(Reply{.sequence = 1, .result = RunReply{}}));
  EXPECT_FALSE(got.exception || got.device_fault || got.no_room || got.trespass);
  EXPECT_FALSE(std::get<RunReply>(got.result).peak_bytes);
}

TEST(Messages, NeitherSideTrustsTheOther) {
  expect_distrust(to_json(sample_greeting()), {"error"}, greeting_from_json);
  for (const Request& request : sample_requests())
    expect_distrust(to_json(request), {"second"}, request_from_json);
  for (const Reply& reply : sample_replies())
    expect_distrust(to_json(reply),
                    {"exception", "device_fault", "no_room", "trespass", "pool_peak_bytes",
                     "peak_bytes", "device", "usage", "migrations", "counters", "cycles",
                     "instructions", "cache_misses", "no_counters", "refusal"},
                    reply_from_json);
}

TEST(Messages, AReplyHasAReasonCodeThatThereIs) {
  json reply = to_json(sample_replies()[0]);
  reply["findings"][0]["code"] = "fail:fantasy";
  EXPECT_THROW(reply_from_json(reply), Error);
  reply["findings"][0]["code"] = "crash:signal";  // whose verdict is not "fail"
  EXPECT_THROW(reply_from_json(reply), Error);
}

TEST(Messages, AResultIsOneOfItsKinds) {
  json reply = to_json(sample_replies()[0]);
  reply["result"] = {{"unheard", json::object()}};
  EXPECT_THROW(reply_from_json(reply), Error);
  reply["result"] = json::object();
  EXPECT_THROW(reply_from_json(reply), Error);
}

}  // namespace
}  // namespace attest::core
