// Other work on the machine while an implementation is measured: threads that use up memory
// bandwidth, caches or arithmetic units, or that copy camera frames.
//
//   Neighbours neighbours(parse_neighbours("stream:2@5"));  // two threads, 5 GB/s each
//   measure();
//   for (const NeighbourWork& work : neighbours.stop())
//     fmt::print("{}: {} {}\n", work.name, work.rate, work.unit);
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attest::core {

enum class NeighbourKind {
  kStream,   // reads and writes memory beyond the caches
  kCache,    // reads as much memory as the last-level cache holds
  kCompute,  // multiply-adds in registers
  kCamera,   // copies a frame of 3840 x 2160 pixels (NV12, 12.4 MB) 30 times a second
  kSame,     // the implementation itself, in another process
};

struct NeighbourSpec {
  NeighbourKind kind = NeighbourKind::kStream;
  int count = 1;              // threads; of kSame: processes
  std::optional<double> gbs;  // of kStream: 10^9 bytes a second, each; none: as many as it gets

  /// "stream:2@5"; the inverse of parse_neighbours.
  std::string print() const;
};

/// "KIND", "KIND:N" or "stream:N@GBS". Throws Error: what is wrong, and which kinds there are.
NeighbourSpec parse_neighbours(std::string_view text);

/// What the neighbours of one spec have done.
struct NeighbourWork {
  std::string name;  // NeighbourSpec::print
  double rate = 0;   // of all its threads together
  std::string unit;  // "GB/s", "GFLOP/s", "frames/s", "runs/s"
};

/// Threads that work until they are stopped. kSame is not theirs: the caller has the plugin.
class Neighbours {
 public:
  /// Returns when all have begun to work. Throws Error if there is no memory for them.
  explicit Neighbours(const std::vector<NeighbourSpec>& specs);
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
  ~Neighbours();

  /// Stops them. One for each spec whose kind is not kSame, in their order.
  std::vector<NeighbourWork> stop();

 private:
  struct Group;
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace attest::core
