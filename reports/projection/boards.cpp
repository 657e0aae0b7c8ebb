#include "reports/projection/boards.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/datasheets/gpu_architectures.hpp"

namespace attest::reports {
namespace {

constexpr double kMiB = 1 << 20;
// A part that does not exist is not compiled.
consteval const core::BoardModule* of_part(std::string_view part) {
  const core::BoardModule* module = core::module_of_part(part);
  return module ? module : throw "no such part";
}
constexpr const core::BoardModule *kAgx = of_part("p3701-0005"), *kAgx32 = of_part("p3701-0004"),
                                  *kNx = of_part("p3767-0000"), *kNx8 = of_part("p3767-0001"),
                                  *kNano = of_part("p3767-0003"), *kNano4 = of_part("p3767-0004");
constexpr const char* kA78Source = "Arm Cortex-A78AE software optimisation guide: two FMLA a clock";
constexpr std::string_view kAgxConf = "nvpmodel_p3701_0000.conf",
                           kAgx32Conf = "nvpmodel_p3701_0004.conf",
                           kNxConf = "nvpmodel_p3767_0000.conf",
                           kNxSuper = "nvpmodel_p3767_0000_super.conf",
                           kNx8Conf = "nvpmodel_p3767_0001.conf",
                           kNx8Super = "nvpmodel_p3767_0001_super.conf",
                           kNanoConf = "nvpmodel_p3767_0003.conf",
                           kNanoSuper = "nvpmodel_p3767_0003_super.conf",
                           kNano4Conf = "nvpmodel_p3767_0004.conf",
                           kNano4Super = "nvpmodel_p3767_0004_super.conf";

// Modes without a cap have the highest clocks of the module's data sheet. Multiprocessors are two
// for each bit that TPC_PG_MASK leaves.
constexpr BoardMode kModes[] = {
    {"orin-agx64-maxn", kAgx, "MAXN", 16, 1300.5, 3200, 4 * kMiB, 12, 2201.6, kAgxConf},
    {"orin-agx64-50w", kAgx, "50W", 16, 816, 3200, 4 * kMiB, 12, 1497.6, kAgxConf},
    {"orin-agx64-30w", kAgx, "30W", 8, 612, 3200, 4 * kMiB, 8, 1728, kAgxConf},
    {"orin-agx64-15w", kAgx, "15W", 6, 408, 2133, 4 * kMiB, 4, 1113.6, kAgxConf},
    {"orin-agx32-maxn", kAgx32, "MAXN", 14, 930.75, 3200, 0, 8, 2201.6, kAgx32Conf},
    {"orin-agx32-40w", kAgx32, "40W", 14, 816, 3200, 0, 8, 1497.6, kAgx32Conf},
    {"orin-agx32-30w", kAgx32, "30W", 8, 612, 3200, 0, 8, 1728, kAgx32Conf},
    {"orin-agx32-15w", kAgx32, "15W", 6, 408, 2133, 0, 4, 1113.6, kAgx32Conf},
    {"orin-nx16-maxn", kNx, "MAXN", 8, 918, 3200, 2 * kMiB, 8, 1984, kNxConf},
    {"orin-nx16-25w", kNx, "25W", 8, 408, 3200, 2 * kMiB, 8, 1497.6, kNxConf},
    {"orin-nx16-15w", kNx, "15W", 4, 612, 3200, 2 * kMiB, 4, 1651.2, kNxConf},
    {"orin-nx16-10w", kNx, "10W", 4, 612, 2133, 2 * kMiB, 4, 1190.4, kNxConf},
    {"orin-nx16-maxn-super", kNx, "MAXN_SUPER", 8, 1173, 3200, 2 * kMiB, 8, 1984, kNxSuper},
    {"orin-nx16-40w-super", kNx, "40W", 8, 1173, 3200, 2 * kMiB, 8, 1497.6, kNxSuper},
    {"orin-nx8-maxn", kNx8, "MAXN", 8, 765, 3200, 0, 6, 1984, kNx8Conf, false},
    {"orin-nx8-20w", kNx8, "20W", 8, 408, 3200, 0, 6, 1497.6, kNx8Conf},
    {"orin-nx8-15w", kNx8, "15W", 4, 612, 3200, 0, 4, 1420.8, kNx8Conf},
    {"orin-nx8-10w", kNx8, "10W", 4, 612, 2133, 0, 4, 1190.4, kNx8Conf},
    {"orin-nx8-maxn-super", kNx8, "MAXN_SUPER", 8, 1173, 3200, 0, 6, 1984, kNx8Super},
    {"orin-nano8-15w", kNano, "15W", 8, 624.75, 2133, 2 * kMiB, 6, 1510.4, kNanoConf},
    {"orin-nano8-25w-super", kNano, "25W", 8, 918, 3200, 2 * kMiB, 6, 1344, kNanoSuper},
    {"orin-nano8-maxn-super", kNano, "MAXN_SUPER", 8, 1020, 3200, 2 * kMiB, 6, 1728, kNanoSuper},
    {"orin-nano4-10w", kNano4, "10W", 4, 624.75, 2133, 0, 6, 1510.4, kNano4Conf},
    {"orin-nano4-25w-super", kNano4, "25W", 4, 1020, 3200, 0, 6, 1728, kNano4Super},
};

}  // namespace

std::span<const BoardMode> board_modes() { return kModes; }

const BoardMode* find_board_mode(std::string_view name) {
  const auto at = std::ranges::find(kModes, name, &BoardMode::name);
  return at == std::end(kModes) ? nullptr : at;
}

std::vector<Figure> figures(const BoardMode& board) {
  const std::string module = fmt::format("NVIDIA's data sheet of {}", board.module->name),
                    mode = fmt::format("{} of Jetson Linux", board.conf);
  const char* doubt = board.gpu_mhz_seen ? "" : "; the clock is not verified: no document has it";
  const core::GpuArchitecture& sm = *core::find_gpu_architecture(board.module->architecture);
  const double tensor_gflops = board.multiprocessors * board.gpu_mhz * 1e-3 * sm.tensor_f16;
  return {
      {fmt::format("{} multiprocessors at {:g} MHz", board.multiprocessors, board.gpu_mhz),
       fmt::format("{}; {}{}", module, mode, doubt)},
      {fmt::format("{:.1f} TFLOP/s of dense f16 and bf16 products", tensor_gflops * 1e-3),
       fmt::format("multiprocessors x {:g} x clock: {}{}", sm.tensor_f16, sm.source, doubt)},
      {fmt::format("{:.1f} GB/s of memory, which GPU and CPUs share", board.memory_gbs()),
       fmt::format("{:g} MHz x 2 x {} bytes: {}; {}", board.memory_mhz, board.module->bus_bytes,
                   module, mode)},
      {board.l2_bytes > 0 ? fmt::format("{:g} MiB of L2", board.l2_bytes / kMiB)
                          : std::string("L2 not known"),
       board.l2_bytes > 0 ? module : "no document that attest knows says how large it is"},
      {fmt::format("{:g} KiB of shared memory a block", sm.shared_bytes / 1024),
       std::string(sm.source)},
      {fmt::format("{} cores at {:g} MHz", board.cores, board.cpu_mhz),
       fmt::format("{}; {}", module, mode)},
      {fmt::format("{:g} f32 and {:g} f16 operations a clock and core", kA78Flops32, kA78Flops16),
       kA78Source}};
}

}  // namespace attest::reports
