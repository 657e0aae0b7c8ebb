// After `touch`, reads of elements take no page fault: their pages count as the tensors', and not
// as what a run has taken.
#include "core/worker/mapped.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <initializer_list>
#include <memory>

#include "core/tensor/tensor.hpp"

namespace attest::core {
namespace {

constexpr int64_t kPage_bytes = 4096;

/// How many of the pages that elements of a float32 tensor lie in fault after `touch`.
long faults_after_touch(std::initializer_list<int64_t> dims, int64_t row_stride) {
  TensorSpec spec = dense_tensor(ATTEST_F32, ATTEST_READ, dims);
  spec.stride[0] = row_stride;
  Slot slot{.data_offset = 64, .data_bytes = extent(spec) * 4};
  slot.map_bytes = (slot.data_bytes + 2 * 64 + kPage_bytes - 1) / kPage_bytes * kPage_bytes;
  const Descriptor file(memfd_create("mapped_test", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(file.get(), slot.map_bytes), 0);
  const auto status = std::make_unique<StatusPage>();
  const MappedTensors mapped({slot}, file, false, *status);
  attest_tensor tensor[ATTEST_ROLES]{};
  tensor[0] = spec;
  mapped.touch(tensor);

  rusage before{}, after{};
  getrusage(RUSAGE_THREAD, &after);  // so that this function's own pages are there
  getrusage(RUSAGE_THREAD, &before);
  const auto* const data = static_cast<const char*>(mapped.data(0));
  for (int64_t row = 0; row < spec.dim[0]; ++row)
    for (const int64_t at : {int64_t{0}, spec.dim[1] * 4 - 1})
      (void)*static_cast<const volatile char*>(data + row * row_stride * 4 + at);
  getrusage(RUSAGE_THREAD, &after);
  return after.ru_minflt - before.ru_minflt;
}

TEST(MappedTensors, HaveEveryPageOfTheirElementsAfterATouch) {
  faults_after_touch({1, 64}, 64);  // loads what is loaded at its first call
  EXPECT_EQ(faults_after_touch({1, 64}, 64), 0) << "less than a page";
  EXPECT_EQ(faults_after_touch({16, 64}, 64), 0) << "a page, and the first bytes of the next";
  EXPECT_EQ(faults_after_touch({100'000, 64}, 64), 0) << "24 MiB at once";
  EXPECT_EQ(faults_after_touch({100'013, 61}, 61), 0) << "rows that begin anywhere in a page";
  EXPECT_EQ(faults_after_touch({4, 64}, 1 << 20), 0) << "rows 4 MiB apart";
  EXPECT_EQ(faults_after_touch({4, 64 << 10}, 1 << 20), 0) << "rows of many pages 4 MiB apart";
}

}  // namespace
}  // namespace attest::core
