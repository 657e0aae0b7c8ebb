// What the harness and its worker say to each other: a problem without its operation, requests,
// replies.
//
// The worker knows no operation: it gets params and specifications as bytes and hands them to the
// plugin as they are.
#pragma once
#include <cstring>
#include <type_traits>

#include "core/operations/operation.hpp"

namespace attest::core {

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

/// Words of the requests ("do") and of the answers.
namespace word {
inline constexpr const char *kDo = "do", *kTable = "table", *kProblem = "problem",
                            *kSupport = "support", *kStatus = "status";
inline constexpr const char *kInputs = "inputs", *kOutputs = "outputs", *kError = "error",
                            *kMessage = "message", *kTables = "tables", *kSequence = "sequence";
inline constexpr const char *kException = "exception", *kFindings = "findings", *kNotes = "notes",
                            *kMoreThreads = "more_threads", *kModesAtLoad = "modes_at_load";
// Of a device: what went wrong on it, in its driver's words; whose surroundings were written (role,
// whether an input was, how).
inline constexpr const char *kDeviceFault = "device_fault", *kTrespass = "trespass";
// The device has no room for the tensors, in its driver's words.
inline constexpr const char* kNoRoom = "no_room";
// Of a script: its steps, the slots of each set of tensors; a create that was refused while another
// plan was alive, in words.
inline constexpr const char *kSteps = "steps", *kSets = "sets", *kRefusal = "refusal";
// Of timed runs: outputs of a second run on the same inputs that differ; a second set of inputs,
// and its outputs.
inline constexpr const char *kDiffering = "differing", *kSecondInputs = "second_inputs",
                            *kSecondOutputs = "second_outputs";
}  // namespace word

}  // namespace attest::core
