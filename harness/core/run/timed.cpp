#include "core/run/timed.hpp"

#include <sys/mman.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/measure/time.hpp"
#include "core/run/wire.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {

using nlohmann::json;

PrivateBuffer::PrivateBuffer(size_t bytes, size_t offset) : bytes_(bytes + offset + (size_t{2} << 20)), offset_(offset) {
  base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base_ == MAP_FAILED) throw Error("out of memory for the timed tensors");
  if (bytes >= size_t{1} << 20) madvise(base_, bytes_, MADV_HUGEPAGE);
}
PrivateBuffer::~PrivateBuffer() {
  if (base_) munmap(base_, bytes_);
}

TimedRuns::TimedRuns(const MappedTensors& inputs, const MappedTensors& outputs) : inputs_(inputs), outputs_(outputs) {
  for (const MappedTensors* tensors : {&inputs_, &outputs_}) {
    for (size_t i = 0; i < tensors->slots.size(); ++i) {
      const Slot& slot = tensors->slots[i];
      buffers_.emplace_back(size_t(slot.data_bytes), slot.role == kWorkspaceRole ? 256 : size_t(64 + slot.data_offset % 64));
      if (slot.role != kWorkspaceRole) std::memcpy(buffers_.back().data(), tensors->mapping.data(i), size_t(slot.data_bytes));
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
      std::memcpy(outputs_.mapping.data(i), buffers_[next].data(), size_t(outputs_.slots[i].data_bytes));
  }
}

}  // namespace attest::core
