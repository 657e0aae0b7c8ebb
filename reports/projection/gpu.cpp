#include "reports/projection/gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "core/record/least_bytes.hpp"
#include "reports/words/machine.hpp"
#include "reports/words/sizes.hpp"
#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

constexpr double kStagedKeys = 2 * 64;  // in shared memory beside a tile
constexpr double kL2Share = 0.5;        // what K and V of a head can have of L2

constexpr double kManyWaves = 20;  // with so many the last one is 5 % of the time at most
constexpr int kLargestTile = 128;  // rows
constexpr int kMostMultiprocessors = 1024;

// GPUs whose records may be projected from, beside Jetson boards.
struct KnownGpu {
  std::string_view name;  // as the driver has it
  double memory_gbs;      // NVIDIA's data sheets of H100 SXM, H200 SXM and A100 SXM
};
constexpr KnownGpu kGpus[] = {
    {"NVIDIA H100 80GB HBM3", 3352}, {"NVIDIA H200", 4800}, {"NVIDIA A100-SXM4-80GB", 2039}};

struct Sizes {
  int64_t batch, heads, kv_heads, queries, keys, head_dim, head_dim_v;

  double tiles(int rows) const {
    return double(batch) * double(heads) * std::ceil(double(queries) / rows);
  }
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

// "qk=bf16,pv=bf16,score=f32": the dtype of the factors of QK if both products have factors of 16
// bits; else "".
std::string dtype_of_products(const std::string& arithmetic) {
  const std::string words = "," + arithmetic + ",";
  const auto of_16_bits = [&](const std::string& stage) -> std::string {
    for (const char* dtype : {"f16", "bf16"})
      if (words.find("," + stage + "=" + dtype + ",") != words.npos) return dtype;
    return {};
  };
  return of_16_bits("pv").empty() ? std::string() : of_16_bits("qk");
}

// Which keys a row of Q sees: the amount of work in each tile follows from it.
enum class Pattern {
  kAll,
  kCausal,    // as many queries as keys, and row i sees keys 0 to i
  kElsewhere  // windows, patches, masks: how tiles lie in them is not known
};
// Nothing: the lengths of sequences are data, so that the number of tiles is not known.
std::optional<Pattern> pattern_of(const core::Record& record, const Sizes& s) {
  if (core::least_bytes(record) > 0) return Pattern::kAll;
  const std::string features = "+" + record.features + "+";
  const auto has = [&](const char* one) {
    return features.find(std::string("+") + one + "+") != features.npos;
  };
  for (const char* of_data : {"VARLEN", "SEQ_LENS", "PAGES"})
    if (has(of_data)) return std::nullopt;
  for (const char* other : {"WINDOW", "DIAGONAL", "MASK", "ORDER", "PATCHES", "GRID", "SINKS",
                            "BLOCK_MASK", "GLOBAL", "TOP_K"})
    if (has(other)) return Pattern::kElsewhere;
  return has("CAUSAL") && s.queries == s.keys ? Pattern::kCausal : Pattern::kElsewhere;
}

// The least time of tiles on the multiprocessors, over that of the same work evenly spread. With
// the tiles sorted by work, the largest first, some multiprocessor has k of the first
// (k - 1) * multiprocessors + 1 of them (Graham, "Bounds on multiprocessing timing anomalies", SIAM
// J. Appl. Math. 17, 1969). For tiles of the same size it is the share of empty places in waves.
double unevenness(const GpuLimits& gpu, const Sizes& s, int rows, Pattern pattern) {
  const double tiles = s.tiles(rows), waves = std::ceil(tiles / gpu.multiprocessors);
  if (pattern != Pattern::kCausal) return waves * gpu.multiprocessors / tiles;
  const double levels = std::ceil(double(s.queries) / rows), in_level = tiles / levels,
               even = in_level * levels * levels / gpu.multiprocessors;
  double least = even;
  for (double k = 1; k <= std::min(waves, kManyWaves); ++k) {
    const double level = levels - 1 - std::floor((k - 1) * gpu.multiprocessors / in_level);
    least = std::max(least, k * (2 * level + 1));  // a tile's keys grow by two half tiles a level
  }
  return least / even;
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

std::string not_known_what_limits(const GpuLimits& gpu, const core::Record& record) {
  return fmt::format(
      "whether products or reads limit it on {} is not known: it need not read all of its tensors "
      "({})",
      gpu.name, record.features);
}

// Where it is not known how tiles lie, the share of empty places in the last wave is not either. It
// counts for little where the largest tiles make many waves.
MaybeBound bound_of_pattern(const GpuLimits& gpu, const core::Record& record, const Sizes& s,
                            const Bound& arithmetic) {
  if (record.min_bytes / gpu.memory_gbs > arithmetic.ns)
    return MaybeBound::none(not_known_what_limits(gpu, record));
  if (s.tiles(kLargestTile) < kManyWaves * gpu.multiprocessors)
    return MaybeBound::none(
        fmt::format("how full its waves are on {} is not known: it has few tiles, and how they lie "
                    "is not known ({})",
                    gpu.name, record.features));
  return {arithmetic, {}};
}

MaybeBound bound_of_tiles(const GpuLimits& gpu, const core::Record& record, const Sizes& s,
                          Pattern pattern, Bound arithmetic) {
  const double element = record.dtype == "f32" ? 4 : 2;  // bytes, as stored
  const int rows = tile_rows(gpu.architecture->shared_bytes, s.head_dim, s.head_dim_v, element);
  if (rows == 0)
    return MaybeBound::none(fmt::format("no tile of it fits the {:g} KiB of shared memory of {}",
                                        gpu.architecture->shared_bytes / 1024, gpu.name));
  arithmetic.ns *= unevenness(gpu, s, rows, pattern);
  const Bound reads{.ns = bytes_read(gpu, s, rows, record.min_bytes, element) / gpu.memory_gbs,
                    .limit = "memory reads",
                    .reads = true};
  if (reads.ns <= arithmetic.ns) return {arithmetic, {}};
  // Causal tiles read K and V in part only.
  if (pattern == Pattern::kCausal) return MaybeBound::none(not_known_what_limits(gpu, record));
  if (gpu.l2_bytes <= 0 && record.min_bytes / gpu.memory_gbs <= arithmetic.ns)
    return MaybeBound::none(
        fmt::format("the L2 of {} is not known, and whether it holds the keys decides", gpu.name));
  return {reads, {}};
}

}  // namespace

GpuLimits gpu_of(const BoardMode& board) {
  return {.name = board.module->name,
          .architecture = core::find_gpu_architecture(board.module->architecture),
          .multiprocessors = board.multiprocessors,
          .mhz = board.gpu_mhz,
          .l2_bytes = board.l2_bytes,
          .memory_gbs = board.memory_gbs()};
}

std::optional<GpuLimits> gpu_of(const core::Results& file, const core::Record& record,
                                std::string& why) {
  const std::string name = fact(file, "cuda", "name"),
                    architecture = fact(file, "cuda", "architecture");
  const core::GpuArchitecture* known_architecture = core::find_gpu_architecture(architecture);
  const auto* known = std::ranges::find(kGpus, name, &KnownGpu::name);
  const double board_gbs = number_in(file, "board", "memory_cap_gbs");
  if (known == std::end(kGpus) && board_gbs <= 0) {
    why = fmt::format("the limits of {} are not known", name.empty() ? "its GPU" : name);
    return std::nullopt;
  }
  if (!known_architecture || known_architecture->shared_bytes <= 0) {
    why = fmt::format("the rates of {} are not known",
                      architecture.empty() ? "its GPU's architecture" : architecture);
    return std::nullopt;
  }
  const double multiprocessors = number_in(file, "cuda", "multiprocessors");
  GpuLimits gpu{
      .name = name,
      .architecture = known_architecture,
      .multiprocessors = int(std::clamp<double>(multiprocessors, 0, kMostMultiprocessors)),
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
  const std::string products = dtype_of_products(record.arithmetic);
  if (products.empty())
    return MaybeBound::none(
        fmt::format("its products are not in f16 or bf16 ({}), and the rate of "
                    "others is not known",
                    record.arithmetic));
  if (double(record.memory.workspace_bytes) > record.min_bytes)
    return MaybeBound::none(fmt::format("how often it reads its workspace of {} is not known",
                                        print_bytes(double(record.memory.workspace_bytes))));
  const std::optional<Sizes> sizes = sizes_of(record);
  const std::optional<Pattern> pattern = sizes ? pattern_of(record, *sizes) : std::nullopt;
  if (!pattern)
    return MaybeBound::none(
        fmt::format("how many tiles it has is not known ({})", record.features));
  const double peak_gflops = gpu.multiprocessors * gpu.mhz * 1e-3 * gpu.architecture->tensor_f16;
  const Bound arithmetic{.ns = record.flops / peak_gflops, .limit = products + " tensor cores"};
  return *pattern == Pattern::kElsewhere
             ? bound_of_pattern(gpu, record, *sizes, arithmetic)
             : bound_of_tiles(gpu, record, *sizes, *pattern, arithmetic);
}

}  // namespace attest::reports
