#include "core/measure/neighbours.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <deque>
#include <latch>
#include <thread>
#include <utility>

#include "core/measure/limits/probe_kernels.hpp"
#include "core/measure/machine/affinity.hpp"
#include "core/measure/machine/caches.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

struct KindName {
  NeighbourKind kind;
  std::string_view name, unit;
  double unit_amount;  // of bytes, flops, frames
};
constexpr KindName kKinds[] = {
    {NeighbourKind::kStream, "stream", "GB/s", 1e9},
    {NeighbourKind::kCache, "cache", "GB/s", 1e9},
    {NeighbourKind::kCompute, "compute", "GFLOP/s", 1e9},
    {NeighbourKind::kCamera, "camera", "frames/s", 1},
    {NeighbourKind::kSame, "same", "runs/s", 1},
};

const KindName& named(NeighbourKind kind) {
  return *std::ranges::find(kKinds, kind, &KindName::kind);
}

constexpr int kMostThreads = 256;
constexpr double kFrame_bytes = 3840.0 * 2160 * 1.5, kFrames_hz = 30;
constexpr size_t kChunk_bytes = 1 << 20;  // of a stream, between two looks at the clock
constexpr size_t kStream_bytes = 64 << 20;

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(fmt::format("neighbour '{}': {}", text, why));
}

template <class Number>
Number number_in(std::string_view text, std::string_view all, Number least, Number most) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least) ||
      !(value <= most))
    refuse(all, fmt::format("'{}' must be a number from {} to {}", text, least, most));
  return value;
}

NeighbourKind kind_in(std::string_view name, std::string_view all) {
  std::string names;
  for (const KindName& kind : kKinds) {
    if (kind.name == name) return kind.kind;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
  }
  refuse(all, fmt::format("no such kind; there are {}", names));
}

}  // namespace

std::string NeighbourSpec::print() const {
  return fmt::format("{}:{}{}", named(kind).name, count, gbs ? fmt::format("@{:g}", *gbs) : "");
}

NeighbourSpec parse_neighbours(std::string_view text) {
  NeighbourSpec spec;
  const size_t at = text.find('@'), colon = text.substr(0, at).find(':');
  spec.kind = kind_in(text.substr(0, std::min(at, colon)), text);
  if (colon != text.npos)
    spec.count = number_in(text.substr(colon + 1, at == text.npos ? at : at - colon - 1), text, 1,
                           kMostThreads);
  if (at == text.npos) return spec;
  if (spec.kind != NeighbourKind::kStream) refuse(text, "only stream has a rate (@GB/s)");
  spec.gbs = number_in(text.substr(at + 1), text, 1e-3, 1e4);
  return spec;
}

namespace {

// Sleeps until `amount` at `rate` a second is due.
void keep_to(double rate, double amount, Clock::time_point start) {
  const auto due = start + std::chrono::duration_cast<Clock::duration>(
                               std::chrono::duration<double>(amount / rate));
  if (due > Clock::now()) std::this_thread::sleep_until(due);
}

// One step of a thread's work. Returns how much it was.
class Step {
 public:
  Step(const NeighbourSpec& spec, PageBuffer& buffer) : spec_(spec), buffer_(buffer) {}

  double operator()() {
    switch (spec_.kind) {
      case NeighbourKind::kStream: return stream();
      case NeighbourKind::kCache:
        sink_ = sink_ + run_reads(buffer_.data(), buffer_.size());
        return double(buffer_.size());
      case NeighbourKind::kCompute: return run_multiply_adds(kRounds);
      case NeighbourKind::kCamera:
        std::memcpy(buffer_.data() + buffer_.size() / 2, buffer_.data(), buffer_.size() / 2);
        return 1;
      case NeighbourKind::kSame: break;
    }
    return 0;
  }
  // How much is due in a second; 0: as much as it gets.
  double rate() const {
    if (spec_.kind == NeighbourKind::kCamera) return kFrames_hz;
    return spec_.gbs.value_or(0) * 1e9;
  }

 private:
  static constexpr int64_t kRounds = 10'000;

  // Reads a chunk and writes it to the other half of the buffer.
  double stream() {
    const size_t half = buffer_.size() / 2, chunk = std::min(kChunk_bytes, half);
    std::memcpy(buffer_.data() + half + offset_, buffer_.data() + offset_, chunk);
    offset_ = offset_ + 2 * chunk <= half ? offset_ + chunk : 0;
    return 2.0 * double(chunk);
  }

  const NeighbourSpec& spec_;
  PageBuffer& buffer_;
  size_t offset_ = 0;
  volatile uint32_t sink_ = 0;  // what is read has to be used
};

size_t buffer_bytes(const NeighbourSpec& spec) {
  const auto cache = size_t(last_level_cache_bytes(allowed_cpus()));
  switch (spec.kind) {
    case NeighbourKind::kStream: return std::max(2 * cache, kStream_bytes);
    case NeighbourKind::kCache: return cache;
    case NeighbourKind::kCamera: return size_t(2 * kFrame_bytes);
    default: return 4096;
  }
}

}  // namespace

struct Neighbours::Group {
  struct Worker {  // one thread
    explicit Worker(size_t bytes) : buffer(bytes) {}
    PageBuffer buffer;
    double rate = 0;  // bytes, flops or frames a second, known when the thread has ended
    std::thread thread;
  };

  explicit Group(const NeighbourSpec& given) : spec(given) {}

  NeighbourSpec spec;
  std::atomic<bool> stopped = false;
  std::deque<Worker> workers;

  void work(Worker& worker, std::latch& begun) {
    Step step(spec, worker.buffer);
    step();
    begun.count_down();
    const auto start = Clock::now();
    double done = 0;
    while (!stopped) {
      done += step();
      if (step.rate() > 0) keep_to(step.rate(), done, start);
    }
    worker.rate = done / seconds_since(start);
  }
  void stop() {
    stopped = true;
    for (Worker& worker : workers)
      if (worker.thread.joinable()) worker.thread.join();
  }
};

Neighbours::Neighbours(const std::vector<NeighbourSpec>& specs) {
  int count = 0;
  for (const NeighbourSpec& spec : specs) {
    if (spec.kind == NeighbourKind::kSame) continue;
    groups_.push_back(std::make_unique<Group>(spec));
    for (int i = 0; i < spec.count; ++i) groups_.back()->workers.emplace_back(buffer_bytes(spec));
    count += spec.count;
  }
  std::latch begun(count);
  for (const auto& group : groups_)
    for (Group::Worker& worker : group->workers)
      worker.thread = std::thread([&] { group->work(worker, begun); });
  begun.wait();
}

Neighbours::~Neighbours() { stop(); }

std::vector<NeighbourWork> Neighbours::stop() {
  std::vector<NeighbourWork> works;
  for (const auto& group : groups_) group->stopped = true;
  for (const auto& group : groups_) {
    group->stop();
    const KindName& kind = named(group->spec.kind);
    NeighbourWork work{.name = group->spec.print(), .rate = 0, .unit = std::string(kind.unit)};
    for (const Group::Worker& worker : group->workers) work.rate += worker.rate / kind.unit_amount;
    works.push_back(std::move(work));
  }
  return works;
}

}  // namespace attest::core
