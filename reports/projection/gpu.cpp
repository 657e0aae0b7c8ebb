#include "reports/projection/gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "core/record/least_bytes.hpp"
#include "reports/machine.hpp"
#include "reports/sizes.hpp"
#include "reports/table.hpp"

namespace attest::reports {
namespace {

constexpr double kStagedKeys = 2 * 64;  // in shared memory beside a tile
constexpr double kL2Share = 0.5;        // what K and V of a head can have of L2

// GPUs whose records may be projected from.
struct KnownGpu {
  std::string_view name;  // as the driver has it
  const MultiprocessorRates& rates;
  double memory_gbs;  // NVIDIA's data sheets of H100 SXM, H200 SXM and A100 SXM
};
constexpr KnownGpu kGpus[] = {{"NVIDIA H100 80GB HBM3", kSm90, 3352},
                              {"NVIDIA H200", kSm90, 4800},
                              {"NVIDIA A100-SXM4-80GB", kSm80, 2039}};

struct Sizes {
  int64_t batch, heads, kv_heads, queries, keys, head_dim, head_dim_v;
};

std::optional<Sizes> sizes_of(const core::Record& record) {
  const SpecWords words = spec_words(record.spec);
  const auto size = [&](std::string_view name, int64_t otherwise) {
    const auto at = words.find(name);
    return at == words.end() ? otherwise : int64_t(std::strtoll(at->second.c_str(), nullptr, 10));
  };
  Sizes s{.batch = size("batch", 1),
          .heads = size("num_heads", 1),
          .kv_heads = 0,
          .queries = size("seq_len_q", 1),
          .keys = 0,
          .head_dim = size("head_dim", 0),
          .head_dim_v = 0};
  s.kv_heads = size("num_kv_heads", s.heads);
  s.keys = size("seq_len_kv", s.queries);
  s.head_dim_v = size("head_dim_v", s.head_dim);
  for (const int64_t one : {s.batch, s.heads, s.kv_heads, s.queries, s.keys, s.head_dim})
    if (one <= 0) return std::nullopt;
  return s;
}

// "qk=bf16,pv=bf16,score=f32": whether both products have factors of 16 bits.
bool multiplies_16_bits(const std::string& arithmetic) {
  const std::string words = "," + arithmetic + ",";
  const auto is_16 = [&](const std::string& stage) {
    return words.find("," + stage + "=f16,") != words.npos ||
           words.find("," + stage + "=bf16,") != words.npos;
  };
  return is_16("qk") && is_16("pv");
}

// The share of the multiprocessors that work, over all waves.
double fullness(const GpuLimits& gpu, const Sizes& s, int rows) {
  const double blocks = double(s.batch * s.heads) * std::ceil(double(s.queries) / rows),
               waves = std::ceil(blocks / gpu.multiprocessors);
  return blocks / (waves * gpu.multiprocessors);
}

// Of the tensors, and of K and V as often as waves read them.
double bytes_read(const GpuLimits& gpu, const Sizes& s, int rows, double least, double element) {
  const double kv = double(s.keys * (s.head_dim + s.head_dim_v)) * element;  // of one head
  if (kv <= kL2Share * gpu.l2_bytes) return least;
  const double group = double(s.heads) / double(s.kv_heads),
               passes = std::ceil(double(s.queries) * group / (double(rows) * gpu.multiprocessors));
  return least + (passes - 1) * kv * double(s.batch * s.kv_heads);
}

double number_in(const core::Results& file, const char* group, const char* name) {
  return std::strtod(fact(file, group, name).c_str(), nullptr);
}

}  // namespace

GpuLimits gpu_of(const BoardMode& board) {
  return {.name = std::string(board.board),
          .rates = kSm87,
          .multiprocessors = board.multiprocessors,
          .mhz = board.gpu_mhz,
          .l2_bytes = board.l2_bytes,
          .memory_gbs = board.memory_gbs()};
}

std::optional<GpuLimits> gpu_of(const core::Results& file, const core::Record& record,
                                std::string& why) {
  const std::string name = fact(file, "cuda", "name");
  const auto* known = std::ranges::find(kGpus, name, &KnownGpu::name);
  const double board_gbs = number_in(file, "board", "memory_cap_gbs");
  if (known == std::end(kGpus) && board_gbs <= 0) {
    why = fmt::format("the limits of {} are not known", name.empty() ? "its GPU" : name);
    return std::nullopt;
  }
  GpuLimits gpu{.name = name,
                .rates = known == std::end(kGpus) ? kSm87 : known->rates,
                .multiprocessors = int(number_in(file, "cuda", "multiprocessors")),
                .mhz = record.time && record.time->device ? record.time->device->clock_mhz : 0,
                .l2_bytes = number_in(file, "cuda", "cache_bytes"),
                .memory_gbs = known == std::end(kGpus) ? board_gbs : known->memory_gbs};
  if (gpu.mhz <= 0 || gpu.multiprocessors <= 0) {
    why = "the clock of its GPU was not seen";
    return std::nullopt;
  }
  return gpu;
}

int tile_rows(double shared_bytes, int64_t head_dim, int64_t head_dim_v, double element_bytes) {
  const double staged = kStagedKeys * double(head_dim + head_dim_v) * element_bytes;
  for (const int rows : {128, 64, 32, 16})
    if (rows * double(head_dim) * element_bytes + staged <= shared_bytes) return rows;
  return 0;
}

MaybeBound bound_on(const GpuLimits& gpu, const core::Record& record) {
  if (record.operation != "softmax")
    return MaybeBound::none(fmt::format("what limits {} on a GPU is not known", record.operation));
  if (!multiplies_16_bits(record.arithmetic))
    return MaybeBound::none(
        fmt::format("its products are not in f16 or bf16 ({}), and the rate of "
                    "others is not known",
                    record.arithmetic));
  if (double(record.memory.workspace_bytes) > record.min_bytes)
    return MaybeBound::none(fmt::format("how often it reads its workspace of {} is not known",
                                        print_bytes(double(record.memory.workspace_bytes))));
  const double peak_gflops = gpu.multiprocessors * gpu.mhz * 1e-3 * gpu.rates.tensor_flops;
  Bound arithmetic{.ns = record.flops / peak_gflops, .limit = record.dtype + " tensor cores"};
  const double bytes = core::least_bytes(record);
  if (bytes <= 0) {  // windows: how tiles lie in them is not known
    if (record.min_bytes / gpu.memory_gbs <= arithmetic.ns) return {arithmetic, {}};
    return MaybeBound::none(fmt::format(
        "whether products or reads limit it on {} is not known: it need not read all of its "
        "tensors ({})",
        gpu.name, record.features));
  }
  const std::optional<Sizes> sizes = sizes_of(record);
  constexpr double kElement = 2;
  const int rows =
      sizes ? tile_rows(gpu.rates.shared_bytes, sizes->head_dim, sizes->head_dim_v, kElement) : 0;
  if (rows == 0)
    return MaybeBound::none(fmt::format("no tile of it fits the {:g} KiB of shared memory of {}",
                                        gpu.rates.shared_bytes / 1024, gpu.name));
  arithmetic.ns /= fullness(gpu, *sizes, rows);
  const Bound reads{.ns = bytes_read(gpu, *sizes, rows, bytes, kElement) / gpu.memory_gbs,
                    .limit = "memory reads",
                    .reads = true};
  if (reads.ns <= arithmetic.ns) return {arithmetic, {}};
  if (gpu.l2_bytes <= 0 && bytes / gpu.memory_gbs <= arithmetic.ns)
    return MaybeBound::none(
        fmt::format("the L2 of {} is not known, and whether it holds the keys decides", gpu.name));
  return {reads, {}};
}

}  // namespace attest::reports
