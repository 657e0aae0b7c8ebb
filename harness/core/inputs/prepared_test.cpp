// Buffers: where tensors lie, what their surroundings notice, and how little memory a sparse one
// takes.
#include "core/inputs/prepared.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "core/isolation/memory/buffers.hpp"
#include "core/problem/spec.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/runs.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

uint64_t address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// [2, 1, 3, 8] f32, elements 8 apart, rows padded by 2 to 66.
constexpr const char* kStrided = "softmax batch=2 seq_len_q=3 head_dim=8 o.strides=[198,0,66,8]";
// Batches lie 2^31 + 12 elements apart.
constexpr const char* kSparse =
    "softmax batch=2 seq_len_q=5 head_dim=8 q.strides=[2147483660,0,8,1] "
    "k.strides=[2147483660,0,8,1] "
    "v.strides=[2147483660,0,8,1] o.strides=[2147483660,0,8,1]";

TEST(Runs, AreThoseOfTheMemoryInItsOrder) {
  const Problem problem = parse_problem(
      "softmax batch=2 seq_len_q=3 head_dim=4 q.strides=[100,0,4,1] k.strides=[1,0,16,2]");
  std::vector<std::pair<int64_t, int64_t>> runs;
  const auto note = [&runs](int64_t first, int64_t count) { runs.emplace_back(first, count); };
  for_each_run(problem.tensor[ATTEST_Q], note);
  EXPECT_EQ(runs, (std::vector<std::pair<int64_t, int64_t>>{{0, 12}, {100, 12}}));
  runs.clear();
  for_each_run(problem.tensor[ATTEST_K], note);
  EXPECT_EQ(runs, (std::vector<std::pair<int64_t, int64_t>>{{0, 8}, {16, 8}, {32, 8}}));
  runs.clear();
  for_each_run(problem.tensor[ATTEST_V], note);
  EXPECT_EQ(runs, (std::vector<std::pair<int64_t, int64_t>>{{0, 24}}));
}

TEST(Buffers, LieAtThePromisedAlignmentAndNoMore) {
  for (const char* spec : {"softmax seq_len_q=3 head_dim=8", "softmax seq_len_q=16 head_dim=64",
                           "softmax dtype=bf16 seq_len_q=77 head_dim=80 mask"})
    for (const Side side : {Side::kEnd, Side::kFront}) {
      const Problem problem = parse_problem(spec);
      SharedTensors outputs(problem, ATTEST_WRITE, 1000);
      PreparedInputs inputs(problem, {"random", 1}, nullptr, side);
      outputs.place(side);
      EXPECT_EQ(address(outputs.tensors()[ATTEST_O].data) % 128, 64);
      for (const Slot& slot : outputs.slots())
        EXPECT_EQ(slot.data_offset % (2 * slot.alignment), slot.alignment);
      for (const Slot& slot : inputs.shared().slots()) {
        EXPECT_EQ(slot.data_offset % 128, 64);
        const int64_t room = side == Side::kFront
                                 ? slot.data_offset
                                 : slot.map_bytes - slot.data_offset - slot.data_bytes;
        EXPECT_LT(room, 128) << spec;
      }
    }
}

TEST(Buffers, OfUnalignedProblemsLieAtTheirElement) {
  const Problem problem = parse_problem("softmax dtype=f16 seq_len_q=3 head_dim=8 lse unaligned");
  SharedTensors outputs(problem, ATTEST_WRITE, 0);
  for (const Side side : {Side::kEnd, Side::kFront}) {
    outputs.place(side);
    EXPECT_EQ(address(outputs.tensors()[ATTEST_O].data) % 4, 2);
    EXPECT_EQ(address(outputs.tensors()[ATTEST_LSE].data) % 8, 4);
  }
}

// Every byte around the elements of an output: written, it is named with its side and distance.
TEST(Buffers, NoticeEveryByteWrittenAroundTheElements) {
  const Problem problem = parse_problem(kStrided);
  SharedTensors outputs(problem, ATTEST_WRITE, 1000);
  for (const Side side : {Side::kEnd, Side::kFront}) {
    outputs.place(side);
    outputs.poison();
    ASSERT_EQ(outputs.broken_canary(), "");
    for (const Slot& slot : outputs.slots()) {
      const Tensor& o = outputs.tensors()[ATTEST_O];
      std::vector<bool> inside(size_t(slot.map_bytes));
      if (slot.role == kWorkspaceRole)
        std::fill_n(inside.begin() + slot.data_offset, slot.data_bytes, true);
      else
        for_each_run(o.spec, [&](int64_t first, int64_t count) {
          std::fill_n(inside.begin() + slot.data_offset + first * 4, count * 4, true);
        });
      char* data = static_cast<char*>(o.data);
      if (slot.role == kWorkspaceRole) {
        // The workspace lies behind O in the same memory.
        data += outputs.slots()[0].map_bytes - outputs.slots()[0].data_offset + slot.data_offset;
      }
      for (int64_t at = -slot.data_offset; at < slot.map_bytes - slot.data_offset; ++at) {
        data[at] = char(data[at] + 1);
        EXPECT_EQ(outputs.broken_canary().empty(), bool(inside[size_t(at + slot.data_offset)]))
            << at;
        data[at] = char(data[at] - 1);
      }
    }
  }
}

TEST(Buffers, SayWhereACanaryWasBroken) {
  const Problem problem = parse_problem(kStrided);
  SharedTensors outputs(problem, ATTEST_WRITE, 0);
  auto broken_by = [&](int64_t element) {
    outputs.poison();
    static_cast<float*>(outputs.tensors()[ATTEST_O].data)[element] = 0;
    return outputs.broken_canary();
  };
  EXPECT_EQ(broken_by(-1), "o was written 4 bytes before its start");
  EXPECT_EQ(broken_by(1), "o was written between its elements, at byte 4");
  EXPECT_EQ(broken_by(extent(problem.tensor[ATTEST_O])),
            "o was written past its end, at byte 0 behind it");
  EXPECT_EQ(broken_by(8), "");
}

// Whoever reads beyond an input, or between its elements, gets a NaN of every dtype.
TEST(Buffers, HaveNaNAroundInputs) {
  for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16, ATTEST_F64}) {
    const Problem problem =
        parse_problem("softmax dtype=" + std::string(dtype_name(dtype)) +
                      " batch=2 seq_len_q=16 head_dim=64 q.strides=[1040,0,65,1]");
    const PreparedInputs inputs(problem, {"random", 1}, nullptr);
    const Tensor& q = inputs.shared().tensors()[ATTEST_Q];
    for (const int64_t element : {int64_t{-1}, int64_t{64}, int64_t{129}, extent(q.spec)})
      EXPECT_TRUE(std::isnan(load(q.data, dtype, element)))
          << dtype_name(dtype) << " at " << element;
  }
}

// Each is what a bug that takes it for its own looks for.
TEST(Buffers, HoldLeftoversInTheWorkspace) {
  const Problem problem = parse_problem("softmax seq_len_q=3 head_dim=8");
  SharedTensors outputs(problem, ATTEST_WRITE, 1002);
  const Slot& slot = outputs.slots().back();
  ASSERT_EQ(slot.role, kWorkspaceRole);
  const char* workspace = static_cast<const char*>(outputs.tensors()[ATTEST_O].data) +
                          outputs.slots()[0].map_bytes - outputs.slots()[0].data_offset +
                          slot.data_offset;
  const auto holds = [&](Leftover leftover, const std::function<bool(float, int32_t)>& is) {
    outputs.poison(leftover);
    EXPECT_EQ(outputs.broken_canary(), "") << name(leftover);
    for (int64_t at = 0; at + 4 <= slot.data_bytes; at += 4) {
      float number = 0;
      int32_t word = 0;
      std::memcpy(&number, workspace + at, 4);
      std::memcpy(&word, workspace + at, 4);
      ASSERT_TRUE(is(number, word)) << name(leftover) << " at byte " << at;
    }
  };
  holds(Leftover::kNaN, [](float number, int32_t) { return std::isnan(number); });
  holds(Leftover::kFractions, [](float number, int32_t) { return number > 0 && number < 1; });
  holds(Leftover::kLarge, [](float number, int32_t) { return number > 9e29f; });
  holds(Leftover::kOnes, [](float number, int32_t) { return number == 1; });
  holds(Leftover::kZeros, [](float, int32_t word) { return word == 0; });
  holds(Leftover::kIntegerOnes, [](float, int32_t word) { return word == 1; });
}

// Tensors of another set come to lie at the same addresses, and the workspace stays.
TEST(Buffers, ShowOtherTensorsAtTheSameAddresses) {
  const Problem problem = parse_problem("softmax seq_len_q=3 head_dim=8");
  SharedTensors first(problem, ATTEST_WRITE, 100), second(problem, ATTEST_WRITE);
  Mapping mapping(first.descriptor(), first.slots(), true);
  static_cast<float*>(first.tensors()[ATTEST_O].data)[0] = 1;
  static_cast<float*>(second.tensors()[ATTEST_O].data)[0] = 2;
  auto* o = static_cast<float*>(mapping.data(0, first.slots()[0]));
  auto* workspace = static_cast<float*>(mapping.data(1, first.slots()[1]));
  workspace[0] = 3;
  EXPECT_EQ(o[0], 1);
  mapping.show(second.descriptor(), first.slots(), second.slots(), true);
  EXPECT_EQ(o[0], 2);
  EXPECT_EQ(workspace[0], 3);
  const Problem larger = parse_problem("softmax seq_len_q=3000 head_dim=8");
  SharedTensors other(larger, ATTEST_WRITE);
  EXPECT_THROW(mapping.show(other.descriptor(), first.slots(), other.slots(), true), Error);
}

TEST(Buffers, OfSparseTensorsTakeLittleMemory) {
  const Problem problem = parse_problem(kSparse);
  PreparedInputs inputs(problem, {"random", 1}, nullptr);
  SharedTensors outputs(problem, ATTEST_WRITE, 1 << 12);
  outputs.poison();
  EXPECT_EQ(outputs.broken_canary(), "");
  EXPECT_TRUE(inputs.unchanged());
  for (const int fd : {inputs.shared().descriptor(), outputs.descriptor()}) {
    struct stat file{};
    ASSERT_EQ(fstat(fd, &file), 0);
    EXPECT_GT(file.st_size, int64_t{8} << 30);
    EXPECT_LT(file.st_blocks * 512, 256 << 10);
  }
}

// With one key, the lse of a query is its logit.
TEST(PreparedInputs, HaveTheForwardPassOfWhatChanged) {
  const Problem problem = parse_problem(
      "softmax_backward seq_len_q=40 seq_len_kv=1 head_dim=8 head_dim_v=1 softmax_scale=1");
  const PreparedInputs first(problem, {"random", 1}, nullptr),
      second(problem, {"random", 2}, nullptr);
  const int32_t roles[] = {ATTEST_Q};
  const PreparedInputs changed[] = {PreparedInputs(first, second, roles), PreparedInputs(first, 3)};
  for (const PreparedInputs& inputs : changed) {
    const Tensors& tensors = inputs.shared().tensors();
    int moved = 0;
    for (int64_t i = 0; i < 40; ++i) {
      double logit = 0;
      for (int64_t d = 0; d < 8; ++d)
        logit += tensors[ATTEST_Q].at({0, 0, i, d}) * tensors[ATTEST_K].at({0, 0, 0, d});
      EXPECT_NEAR(tensors[ATTEST_LSE].at({0, 0, i}), logit, 1e-6 * (1 + std::fabs(logit))) << i;
      EXPECT_EQ(tensors[ATTEST_O].at({0, 0, i, 0}), tensors[ATTEST_V].at({0, 0, 0, 0})) << i;
      moved +=
          tensors[ATTEST_LSE].at({0, 0, i}) != first.shared().tensors()[ATTEST_LSE].at({0, 0, i});
    }
    EXPECT_GT(moved, 0);
  }
}

}  // namespace
}  // namespace attest::core
