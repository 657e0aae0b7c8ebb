// Every message arrives as it was sent; one that was cut, or whose bytes were changed, is refused
// or read as another, and never harms who reads it.
#include "core/isolation/messages/messages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string_view>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using Bytes = std::vector<std::byte>;

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
  requests[1].wanted = RunRequest{.slots = sample_slots(1), .trims = true};
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
                                 .runs = 9,
                                 .starts_ns = {3, 4},
                                 .ends_ns = {5, 6},
                                 .clock_held_ns = 1.5,
                                 .audited_runs = 7,
                                 .differs = true,
                                 .stale = true,
                                 .inputs_changed = true};
  return replies;
}

// Cuts a message at every byte, which `unpack` must refuse. Then changes bytes in 4,000 ways, which
// it may refuse or read; a sanitizer sees whether it reads or allocates what it should not.
template <class Unpack>
void expect_distrust(const Bytes& message, const Unpack& unpack) {
  for (size_t size = 0; size < message.size(); ++size)
    EXPECT_THROW(unpack(std::span(message).first(size)), Error) << size;
  Bytes longer = message;
  longer.push_back(std::byte(0));
  EXPECT_THROW(unpack(longer), Error);
  std::mt19937 random(1);
  int refused = 0;
  for (int n = 0; n < 4000; ++n) {
    Bytes changed = message;
    for (auto bytes = 1 + random() % 3; bytes > 0; --bytes)
      changed[random() % changed.size()] = std::byte(random() % 2 ? 0xff : random());
    try {
      unpack(changed);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(Messages, GreetingsArrive) {
  const Bytes sent = pack_message(sample_greeting());
  const Greeting got = unpack_greeting(sent);
  EXPECT_EQ(pack_message(got), sent);
  EXPECT_EQ(got.error, "is no library");
  EXPECT_EQ(got.tables.at(0).features, uint64_t(1) << 63);
  EXPECT_FALSE(unpack_greeting(pack_message(Greeting{})).error);
}

TEST(Messages, RequestsArrive) {
  for (const Request& request : sample_requests()) {
    const Bytes sent = pack_message(request);
    const Request got = unpack_request(sent);
    EXPECT_EQ(pack_message(got), sent);
    EXPECT_EQ(got.wanted.index(), request.wanted.index());
    EXPECT_EQ(got.problems.at(0).tensor[2].rank, 4);
  }
  const Request timed = unpack_request(pack_message(sample_requests()[2]));
  EXPECT_EQ(std::get<TimeRequest>(timed.wanted).second.value().inputs.at(1).role, 3);
  EXPECT_EQ(std::get<TimeRequest>(timed.wanted).seed, ~uint64_t(0));
  EXPECT_TRUE(std::get<TimeRequest>(timed.wanted).has_flush_file);
  const Request script = unpack_request(pack_message(sample_requests()[3]));
  EXPECT_EQ(std::get<ScriptRequest>(script.wanted).steps.at(1).outputs, 1);
  EXPECT_EQ(std::get<ScriptRequest>(script.wanted).sets.at(1).size(), 1u);
}

TEST(Messages, RepliesArrive) {
  for (const Reply& reply : sample_replies()) {
    const Bytes sent = pack_message(reply);
    const Reply got = unpack_reply(sent);
    EXPECT_EQ(pack_message(got), sent);
    EXPECT_EQ(got.result.index(), reply.result.index());
    EXPECT_EQ(got.findings.at(0).code, ReasonCode::kFailThreads);
    EXPECT_EQ(got.trespass.value().role, 3);
  }
  const Reply query = unpack_reply(pack_message(sample_replies()[1]));
  EXPECT_EQ(std::get<QueryReply>(query.result).support.workspace_bytes, 12345u);
  const Reply timed = unpack_reply(pack_message(sample_replies()[3]));
  EXPECT_EQ(std::get<TimeReply>(timed.result).device.value().clock_mhz, 4);
}

TEST(Messages, WhatNeedNotBeThereIsAbsent) {
  const Reply got = unpack_reply(pack_message(Reply{.sequence = 1, .result = RunReply{}}));
  EXPECT_FALSE(got.exception || got.device_fault || got.no_room || got.trespass);
  EXPECT_FALSE(std::get<RunReply>(got.result).peak_bytes);
}

TEST(Messages, NeitherSideTrustsTheOther) {
  expect_distrust(pack_message(sample_greeting()), unpack_greeting);
  for (const Request& request : sample_requests())
    expect_distrust(pack_message(request), unpack_request);
  for (const Reply& reply : sample_replies()) expect_distrust(pack_message(reply), unpack_reply);
}

// A reply in which other letters stand where the first `text` stood.
Bytes reworded(std::string_view text, std::string_view other) {
  Bytes message = pack_message(sample_replies()[0]);
  const auto letter = [](std::byte byte, char wanted) { return char(byte) == wanted; };
  const auto at = std::search(message.begin(), message.end(), text.begin(), text.end(), letter);
  std::transform(other.begin(), other.end(), at, [](char c) { return std::byte(c); });
  return message;
}

TEST(Messages, AReplyHasAReasonCodeThatThereIs) {
  EXPECT_NO_THROW(unpack_reply(reworded("fail:threads", "fail:threads")));
  EXPECT_THROW(unpack_reply(reworded("fail:threads", "fail:fantasy")), Error);
  EXPECT_THROW(unpack_reply(reworded("fail:threads", "crash:signal")), Error);  // not "fail"
}

}  // namespace
}  // namespace attest::core
