#include "core/run/timed.hpp"

#include <sys/mman.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/measure/time.hpp"
#include "core/run/wire.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/runs.hpp"

namespace attest::core {

using nlohmann::json;

namespace {

void copy_elements(const attest_tensor& spec, void* to, const void* from) {
  const auto width = int64_t(dtype_bytes(spec.dtype));
  for_each_run(spec, [&](int64_t first, int64_t count) {
    std::memcpy(static_cast<char*>(to) + first * width, static_cast<const char*>(from) + first * width, size_t(count * width));
  });
}

// A sparse tensor would get a huge page for every few elements.
bool is_sparse(const attest_tensor& spec) { return extent(spec) > 8 * element_count(spec); }

}  // namespace

PrivateBuffer::PrivateBuffer(size_t bytes, size_t offset, bool sparse)
    : bytes_(bytes + offset + (size_t{2} << 20)), offset_(offset) {
  base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (sparse ? MAP_NORESERVE : 0), -1, 0);
  if (base_ == MAP_FAILED) throw Error("out of memory for the timed tensors");
  if (bytes >= size_t{1} << 20) madvise(base_, bytes_, sparse ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
}
PrivateBuffer::~PrivateBuffer() {
  if (base_) munmap(base_, bytes_);
}

TimedRuns::TimedRuns(const attest_tensor* tensor, const MappedTensors& inputs, const MappedTensors& outputs)
    : tensor_(tensor), inputs_(inputs), outputs_(outputs) {
  for (const MappedTensors* tensors : {&inputs_, &outputs_}) {
    for (size_t i = 0; i < tensors->slots.size(); ++i) {
      const Slot& slot = tensors->slots[i];
      const bool workspace = slot.role == kWorkspaceRole;
      buffers_.emplace_back(size_t(slot.data_bytes), size_t(slot.alignment), !workspace && is_sparse(tensor[slot.role]));
      if (!workspace) copy_elements(tensor[slot.role], buffers_.back().data(), tensors->data(i));
      arguments_.add(slot, buffers_.back().data());
    }
  }
}

json TimedRuns::measure(const attest_impl& table, void* plan, const json& request) {
  attest_status status = ATTEST_OK;
  TimingRequest timing{.run = [&] {
    if (status == ATTEST_OK) status = table.run(plan, arguments_.data, arguments_.workspace, nullptr);
  }};
  timing.budget_ns = request.at("budget_ns").get<double>();
  timing.expected_ns = request.at("expected_ns").get<double>();
  const Timing measured = measure_time(timing);
  return {{word::kStatus, status},
          {"samples_ns", measured.warm_ns},
          {"cold_samples_ns", measured.cold_ns},
          {"iterations_per_sample", measured.iterations_per_sample},
          {"warmup_ns", measured.warmup_ns}};
}

void TimedRuns::return_outputs() const {
  size_t next = inputs_.slots.size();
  for (size_t i = 0; i < outputs_.slots.size(); ++i, ++next) {
    if (outputs_.slots[i].role != kWorkspaceRole)
      copy_elements(tensor_[outputs_.slots[i].role], outputs_.data(i), buffers_[next].data());
  }
}

}  // namespace attest::core
