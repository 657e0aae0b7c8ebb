#include "core/run/executor.hpp"

#include <sys/mman.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "core/measure/memory.hpp"
#include "core/measure/time.hpp"
#include "core/run/float_mode.hpp"
#include "core/run/wire.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {

using nlohmann::json;

/// One request's problem as the plugin gets it, in rooms of the contract's sizes.
struct Executor::Call {
  WireProblem wire;
  attest_impl table;
  alignas(64) std::byte problem_room[ATTEST_ROOM]{};

  Call(const json& request, const std::vector<attest_impl>& tables) {
    const auto wires = from_bytes<WireProblem>(request.at(word::kProblem).get_binary());
    const auto index = request.at(word::kTable).get<size_t>();
    if (wires.size() != 1 || index >= tables.size()) throw Error("malformed request");
    wire = wires[0], table = tables[index];
    auto& problem = *reinterpret_cast<attest_problem*>(problem_room);
    problem.struct_size = sizeof(attest_problem);
    problem.operation = wire.operation, problem.device_id = wire.device_id, problem.threads = wire.threads;
    problem.params = wire.params, problem.tensor = wire.tensor, problem.features = wire.features;
  }
  const attest_problem* problem() const { return reinterpret_cast<const attest_problem*>(problem_room); }
  // last_error belongs to the plugin: it may be NULL or unending.
  std::string last_error() const {
    const char* text = table.last_error();
    return text ? std::string(text, strnlen(text, 1000)) : std::string();
  }
};

namespace {

double nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

/// Shared tensors of one direction, mapped, with their addresses noted on the status page.
struct Shared {
  std::vector<Slot> slots;
  Mapping mapping;

  Shared(const json& request, const char* key, const Descriptor& file, bool writable, StatusPage& status)
      : slots(from_bytes<Slot>(request.at(key).get_binary())), mapping(file.get(), slots, writable) {
    int32_t next = status.slot_count;
    for (size_t i = 0; i < slots.size() && next < int32_t(std::size(status.slots)); ++i) {
      const auto begin = reinterpret_cast<uint64_t>(mapping.data(i));
      const uint64_t map = begin - uint64_t(slots[i].data_offset);
      status.slots[next++] = {
          slots[i].role, 0, map, map + uint64_t(slots[i].map_bytes), begin, begin + uint64_t(slots[i].data_bytes)};
      // Touched now, so that the run's own growth is measured, not the tensors'. The workspace is the run's own.
      if (slots[i].role == kWorkspaceRole) continue;
      for (int64_t at = 0; at < slots[i].map_bytes; at += 4096) (void)*(reinterpret_cast<const volatile char*>(map) + at);
    }
    status.slot_count = next;
  }
};

/// Memory of this process alone, in huge pages where there are any, 64 bytes off a page.
class PrivateBuffer {
 public:
  explicit PrivateBuffer(size_t bytes, size_t offset) : bytes_(bytes + offset + (size_t{2} << 20)), offset_(offset) {
    base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) throw Error("out of memory for the timed tensors");
    if (bytes >= size_t{1} << 20) madvise(base_, bytes_, MADV_HUGEPAGE);
  }
  PrivateBuffer(PrivateBuffer&& other) noexcept : base_(other.base_), bytes_(other.bytes_), offset_(other.offset_) {
    other.base_ = nullptr;
  }
  ~PrivateBuffer() {
    if (base_) munmap(base_, bytes_);
  }
  void* data() const { return static_cast<char*>(base_) + offset_; }

 private:
  void* base_;
  size_t bytes_, offset_;
};

struct Arguments {
  void* data[ATTEST_ROLES]{};
  void* workspace = nullptr;

  void add(const Slot& slot, void* at) {
    if (slot.role == kWorkspaceRole)
      workspace = at;
    else
      data[slot.role] = at;
  }
};

}  // namespace

Executor::Executor(const std::string& plugin_path, StatusPage& status)
    : status_(status), plugin_([&] {
        const FloatModeGuard guard;
        LoadedPlugin plugin(plugin_path);
        flushed_at_load_ = guard.changed();
        return plugin;
      }()) {}

json Executor::query(Call& call) {
  alignas(64) std::byte room[ATTEST_ROOM]{};
  auto& support = *reinterpret_cast<attest_support*>(room);
  support.struct_size = sizeof(attest_support);
  status_.stage = Stage::kQuery;
  const attest_status status = call.table.query(call.problem(), &support);
  support.reason[sizeof(support.reason) - 1] = 0;
  return {{word::kStatus, status},
          {word::kSupport, json::binary(to_bytes(std::span<const attest_support>(&support, 1)))},
          {word::kMessage, status == ATTEST_OK || status == ATTEST_UNSUPPORTED ? std::string() : call.last_error()}};
}

namespace {

json failed(const char* stage, attest_status status, const std::string& message) {
  return {{word::kStatus, status}, {"stage", stage}, {word::kMessage, message}};
}

}  // namespace

/// Creates the plan, lets `body` run it, destroys it; the reply says which step failed.
template <class Body>
json Executor::with_plan(Call& call, const Body& body) {
  void* plan = nullptr;
  status_.stage = Stage::kCreate;
  const auto start = Clock::now();
  if (const attest_status status = call.table.create(call.problem(), &plan); status != ATTEST_OK)
    return failed("create", status, call.last_error());
  const double create_ns = nanoseconds_since(start);
  json reply = body(plan);
  status_.stage = Stage::kDestroy;
  call.table.destroy(plan);
  reply["create_ns"] = create_ns;
  return reply;
}

json Executor::run(Call& call, const json& request, const std::vector<Descriptor>& descriptors) {
  status_.slot_count = 0;
  const Shared inputs(request, word::kInputs, descriptors.at(0), false, status_);
  const Shared outputs(request, word::kOutputs, descriptors.at(1), true, status_);
  Arguments arguments;
  for (const Shared* shared : {&inputs, &outputs})
    for (size_t i = 0; i < shared->slots.size(); ++i) arguments.add(shared->slots[i], shared->mapping.data(i));

  const PeakMemory peak;
  json reply = with_plan(call, [&](void* plan) -> json {
    const FloatModeGuard guard;
    status_.stage = Stage::kRun;
    const auto start = Clock::now();
    const attest_status status = call.table.run(plan, arguments.data, arguments.workspace, nullptr);
    const double run_ns = nanoseconds_since(start);
    if (status != ATTEST_OK) return failed("run", status, call.last_error());
    return {{word::kStatus, status}, {"run_ns", run_ns}, {"float_mode_changed", guard.changed()}};
  });
  if (peak.available()) reply["peak_bytes"] = peak.growth_bytes();
  return reply;
}

json Executor::time(Call& call, const json& request, const std::vector<Descriptor>& descriptors) {
  status_.slot_count = 0;
  const Shared inputs(request, word::kInputs, descriptors.at(0), false, status_);
  const Shared outputs(request, word::kOutputs, descriptors.at(1), true, status_);
  // Private copies: what is timed are ordinary pages of this process, huge where the system has them.
  Arguments arguments;
  std::vector<PrivateBuffer> buffers;
  for (const Shared* shared : {&inputs, &outputs}) {
    for (size_t i = 0; i < shared->slots.size(); ++i) {
      const Slot& slot = shared->slots[i];
      buffers.emplace_back(size_t(slot.data_bytes), slot.role == kWorkspaceRole ? 256 : size_t(64 + slot.data_offset % 64));
      if (slot.role != kWorkspaceRole) std::memcpy(buffers.back().data(), shared->mapping.data(i), size_t(slot.data_bytes));
      arguments.add(slot, buffers.back().data());
    }
  }
  json reply = with_plan(call, [&](void* plan) -> json {
    status_.stage = Stage::kTime;
    attest_status status = ATTEST_OK;
    TimingRequest timing{.run = [&] {
      if (status == ATTEST_OK) status = call.table.run(plan, arguments.data, arguments.workspace, nullptr);
    }};
    timing.budget_ns = request.at("budget_ns").get<double>();
    timing.expected_ns = request.at("expected_ns").get<double>();
    const Timing measured = measure_time(timing);
    if (status != ATTEST_OK) return failed("run", status, call.last_error());
    return {{word::kStatus, status},
            {"samples_ns", measured.warm_ns},
            {"cold_samples_ns", measured.cold_ns},
            {"iterations_per_sample", measured.iterations_per_sample},
            {"warmup_ns", measured.warmup_ns}};
  });
  size_t next = inputs.slots.size();
  for (size_t i = 0; i < outputs.slots.size(); ++i, ++next) {
    if (outputs.slots[i].role != kWorkspaceRole)
      std::memcpy(outputs.mapping.data(i), buffers[next].data(), size_t(outputs.slots[i].data_bytes));
  }
  return reply;
}

json Executor::execute(const json& request, const std::vector<Descriptor>& descriptors) {
  Call call(request, tables());
  const auto what = request.at(word::kDo).get<std::string>();
  if (what == "query") return query(call);
  if (what == "run") return run(call, request, descriptors);
  if (what == "time") return time(call, request, descriptors);
  throw Error("malformed request");
}

}  // namespace attest::core
