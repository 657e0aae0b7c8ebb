// How many blocks of a kernel a multiprocessor holds at a time, from what the kernel needs and what
// the multiprocessor has.
//
// A multiprocessor has four parts. Registers are given to warps of a part, 256 at a time; shared
// memory to blocks, 128 bytes at a time, beside 1 KiB that the system keeps of each. What runs out
// first decides: registers, shared memory, threads or blocks. NVIDIA, "CUDA C++ Programming Guide":
// "Multiprocessor Level" under "Maximize Utilization", technical specifications by compute
// capability; "CUDA C++ Best Practices Guide": "Occupancy".
#pragma once

namespace cuda {

/// Of one multiprocessor.
struct Multiprocessor {
  int threads, blocks, shared_bytes, registers = 65536;
};
constexpr Multiprocessor kOrin{1536, 16, 164 << 10};    // sm_87
constexpr Multiprocessor kHopper{2048, 32, 228 << 10};  // sm_90

struct Kernel {
  int threads, registers, shared_bytes;  // of a block; of a thread; of a block, static and dynamic
};

struct Residency {
  int blocks;
  double occupancy;   // resident warps as a share of those that the multiprocessor has room for
  const char* limit;  // what runs out first
};

constexpr int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

constexpr Residency resident(const Kernel& kernel, const Multiprocessor& on) {
  constexpr int kParts = 4, kWarp = 32, kRegisterUnit = 256, kSharedUnit = 128,
                kReservedBytes = 1024;
  const int threads =
      kernel.threads > 0 ? kernel.threads : 1024;  // what a block may have that nothing bounds
  const int warps = (threads + kWarp - 1) / kWarp;
  const int of_a_warp = round_up(kernel.registers * kWarp, kRegisterUnit);
  const int by_registers =
      kernel.registers > 0 ? on.registers / kParts / of_a_warp * kParts / warps : on.blocks;
  const int by_shared =
      on.shared_bytes / round_up(kernel.shared_bytes + kReservedBytes, kSharedUnit);
  const int by_threads = on.threads / kWarp / warps;
  Residency found{on.blocks, 0, "blocks"};
  if (by_threads < found.blocks) found = {by_threads, 0, "threads"};
  if (by_shared < found.blocks) found = {by_shared, 0, "shared memory"};
  if (by_registers < found.blocks) found = {by_registers, 0, "registers"};
  found.occupancy = static_cast<double>(found.blocks * warps) / (on.threads / kWarp);
  return found;
}

}  // namespace cuda
