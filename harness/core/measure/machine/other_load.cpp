#include "core/measure/machine/other_load.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <sstream>
#include <string>
#include <utility>

namespace attest::core {
namespace {

constexpr double kQuietCpus = 0.25;

// Of all threads of this process.
double own_cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

}  // namespace

OtherLoad::OtherLoad(std::vector<int> cpus, std::filesystem::path root)
    : cpus_(std::move(cpus)), root_(std::move(root)), before_(read()), own_before_s_(own_cpu_s()) {}

// "cpu0 user nice system idle iowait irq softirq steal ...". What follows is part of user and nice.
OtherLoad::Ticks OtherLoad::read() const {
  constexpr int kIdle = 3, kWaiting = 4, kColumns = 8;
  Ticks ticks;
  std::istringstream lines(read_text(root_ / "proc/stat"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (std::ranges::none_of(cpus_, [&](int cpu) { return name == "cpu" + std::to_string(cpu); }))
      continue;
    uint64_t value = 0;
    for (int column = 0; column < kColumns && words >> value; ++column) {
      ticks.all += value;
      if (column != kIdle && column != kWaiting) ticks.busy += value;
    }
  }
  return ticks;
}

std::optional<double> OtherLoad::busy_cpus() const {
  const Ticks now = read();
  if (cpus_.empty() || now.all <= before_.all || now.busy < before_.busy) return std::nullopt;
  const double own_ticks = (own_cpu_s() - own_before_s_) * double(sysconf(_SC_CLK_TCK)),
               others = double(now.busy - before_.busy) - own_ticks,
               each = double(now.all - before_.all) / double(cpus_.size());
  return std::clamp(others / each, 0.0, double(cpus_.size()));
}

std::string load_warning(std::optional<double> busy_cpus, int cpus) {
  if (!busy_cpus || *busy_cpus <= kQuietCpus) return "";
  return fmt::format(
      "other processes kept {:.1f} of {} CPU{} busy meanwhile, which lowers these figures; run it "
      "again on a quiet machine",
      *busy_cpus, cpus, cpus == 1 ? "" : "s");
}

}  // namespace attest::core
