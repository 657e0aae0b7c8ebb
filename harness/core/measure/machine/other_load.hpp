// How many CPUs other processes keep busy while this one measures.
//
//   const OtherLoad load(allowed_cpus());
//   measure();
//   warn(load_warning(load.busy_cpus(), 4));
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/measure/machine/files.hpp"

namespace attest::core {

class OtherLoad {
 public:
  /// Begins to count. `cpus`: those that count. Reads proc/stat under `root`.
  explicit OtherLoad(std::vector<int> cpus, std::filesystem::path root = machine_root());
  /// How many of the CPUs worked for other processes, on average since the beginning; what the
  /// hypervisor gave to other guests counts too. Nothing: proc/stat does not say.
  std::optional<double> busy_cpus() const;

 private:
  struct Ticks {
    uint64_t busy = 0, all = 0;  // of all the CPUs together
  };
  Ticks read() const;

  std::vector<int> cpus_;
  std::filesystem::path root_;
  Ticks before_;
  double own_before_s_;
};

/// That so many of `cpus` CPUs worked for other processes, which lowers what was measured; "" where
/// they are at most a quarter of one, or not known.
std::string load_warning(std::optional<double> busy_cpus, int cpus);

}  // namespace attest::core
