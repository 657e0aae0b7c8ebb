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

/// A float32 tensor of rows, mapped from a file of its own.
struct Rows {
  TensorSpec spec;
  Slot slot{.data_offset = 64};
  Descriptor file{memfd_create("mapped_test", MFD_CLOEXEC)};
  std::unique_ptr<StatusPage> status = std::make_unique<StatusPage>();
  attest_tensor tensor[ATTEST_ROLES]{};

  Rows(std::initializer_list<int64_t> dims, int64_t row_stride)
      : spec(dense_tensor(ATTEST_F32, ATTEST_READ, dims)) {
    spec.stride[0] = row_stride;
    slot.data_bytes = extent(spec) * 4;
    slot.map_bytes = (slot.data_bytes + 2 * 64 + kPage_bytes - 1) / kPage_bytes * kPage_bytes;
    EXPECT_EQ(ftruncate(file.get(), slot.map_bytes), 0);
    tensor[0] = spec;
  }
  MappedTensors map() const { return {{slot}, file, false, *status}; }
};

/// How many of the pages that elements lie in fault when they are read.
long faults(const MappedTensors& mapped, const TensorSpec& spec) {
  rusage before{}, after{};
  getrusage(RUSAGE_THREAD, &after);  // so that this function's own pages are there
  getrusage(RUSAGE_THREAD, &before);
  const auto* const data = static_cast<const char*>(mapped.data(0));
  for (int64_t row = 0; row < spec.dim[0]; ++row)
    for (const int64_t at : {int64_t{0}, spec.dim[1] * 4 - 1})
      (void)*static_cast<const volatile char*>(data + row * spec.stride[0] * 4 + at);
  getrusage(RUSAGE_THREAD, &after);
  return after.ru_minflt - before.ru_minflt;
}

long faults_after_touch(std::initializer_list<int64_t> dims, int64_t row_stride) {
  const Rows rows(dims, row_stride);
  MappedTensors mapped = rows.map();
  mapped.touch(rows.tensor);
  return faults(mapped, rows.spec);
}

/// After the tensor was mapped, touched and put away before.
long faults_when_mapped_again(std::initializer_list<int64_t> dims, int64_t row_stride) {
  const Rows rows(dims, row_stride);
  MappedTensors before = rows.map();
  before.touch(rows.tensor);
  before.mapping.close();
  const MappedTensors again = rows.map();
  const long count = faults(again, rows.spec);
  KeptMaps::instance().release();
  return count;
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

TEST(MappedTensors, HaveTheirPagesWhenTheyAreMappedAgain) {
  if (!KeptMaps::instance().can_keep()) GTEST_SKIP() << "Linux before 5.13 does not move such maps";
  EXPECT_EQ(faults_when_mapped_again({10'000, 64}, 64), 0);
  EXPECT_GT(faults_when_mapped_again({10'000, 64}, 128), 0) << "one that has gaps is not kept";
}

}  // namespace
}  // namespace attest::core
