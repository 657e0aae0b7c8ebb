// What tiles the kernels of flash.cuh come in, and which of them takes a problem.
#pragma once
#include "attest.hpp"

#ifndef ATTEST_ONLY_HEAD_DIM
#define ATTEST_ONLY_HEAD_DIM 0
#endif

namespace flash {

enum class Kind {
  kPlain,      // rows lie one behind the other, and pairs have no terms of their own
  kScattered,  // rows may lie anywhere
  kGeneral,    // that, and a tile has a table of what is added to each logit
  kWindow,     // so too, of terms that a window has
};

/// Shapes of a block: head sizes up to kDim, kWarps warps of 16 kPerWarp rows each, kKeys keys a
/// tile.
template <int kElementBytes, int kHeadDim, int kRowBlocks, int kTileKeys, Kind kKind,
          int kWarpCount = 4>
struct Shape {
  static constexpr bool kWindow = kKind == Kind::kWindow,
                        kGeneral = kKind == Kind::kGeneral || kWindow,
                        kScattered = kKind != Kind::kPlain;
  /// Whether MASK or BIAS may be copied as it lies in memory. Sums of 256 channels leave too few
  /// registers for that.
  static constexpr bool kCopiesTerms = kKind == Kind::kGeneral && kHeadDim <= 128;
  static constexpr int kBytes = kElementBytes,
                       kPerChunk = 16 / kBytes;  // of an element; elements of 16 bytes
  static constexpr int kWarps = kWarpCount, kThreads = 32 * kWarps;
  static constexpr int kDim = kHeadDim, kPerWarp = kRowBlocks, kRows = 16 * kRowBlocks * kWarps,
                       kKeys = kTileKeys;
  static constexpr int kChunks = kDim / kPerChunk;  // of a row
  static constexpr int kTileBytes = kKeys * kDim * kBytes,
                       kTilesBytes = kRows * kDim * kBytes + 4 * kTileBytes,
                       kSharedBytes = kTilesBytes + (kGeneral ? kRows * kKeys * 4 : 0);
  static constexpr int kOwnBytes = 256;  // that the kernels' own variables take at most
  static_assert(kSharedBytes + kOwnBytes <= 99 << 10, "what a block may have from sm_86 on");
  /// Blocks that a multiprocessor has room for at a time: 160 KiB of shared memory, 12 warps of up
  /// to 168 registers a thread. An estimate, on which only the number of splits depends.
  static constexpr int kResident =
      (160 << 10) / kSharedBytes < 12 / kWarps ? (160 << 10) / kSharedBytes : 12 / kWarps;
};

/// What kernels take, by element and head size, so that sums of V stay in registers and two tiles
/// of K and V each in shared memory: keys a tile, 16-row blocks of a warp, warps. In general shapes
/// a warp has one block of rows.
template <class T, int kDim>
struct Sizes {
  static constexpr bool kWide = sizeof(T) == 4;
  static constexpr int kKeys = kWide        ? (kDim <= 32   ? 64
                                               : kDim <= 64 ? 32
                                                            : 16)
                               : kDim <= 64 ? 64
                                            : 32;
  static constexpr int kGeneralKeys = kWide ? kKeys : kDim <= 64 ? 64 : kDim <= 128 ? 32 : 16;
  static constexpr int kPerWarp = kDim <= (kWide ? 64 : 128) ? 2 : 1;
  static constexpr int kWarps = kWide && kDim > 128 ? 2 : 4,
                       kGeneralWarps = kWide && kDim > 128 ? 1 : 4;

  using Plain = Shape<sizeof(T), kDim, kPerWarp, kKeys, Kind::kPlain, kWarps>;
  using FewRows = Shape<sizeof(T), kDim, 1, kKeys, Kind::kPlain, 1>;
  using Scattered =
      Shape<sizeof(T), kDim, kDim <= 64 ? kPerWarp : 1, kKeys, Kind::kScattered, kWarps>;
  using General = Shape<sizeof(T), kDim, 1, kGeneralKeys, Kind::kGeneral, kGeneralWarps>;
  using GeneralFewRows = Shape<sizeof(T), kDim, 1, kGeneralKeys, Kind::kGeneral, 1>;
  using Window = Shape<sizeof(T), kDim, 1, kGeneralKeys, Kind::kWindow, kGeneralWarps>;
  using WindowFewRows = Shape<sizeof(T), kDim, 1, kGeneralKeys, Kind::kWindow, 1>;
};

template <class S>
bool fits(int shared_bytes) {
  return S::kSharedBytes + S::kOwnBytes <= shared_bytes;
}

/// Calls body(T(), std::integral_constant<int, kDim>()) with the element of a problem and the head
/// size of the kernels that has room for its channels, kLeast or more.
template <int kLeast = 32, class Body>
void with_head_dim(const attest_problem& problem, const Body& body) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  const int64_t channels = p.head_dim > p.head_dim_v ? p.head_dim : p.head_dim_v;
  const auto with = [&](auto element) {
    // 0: all; else this one alone, for a quick compilation
    constexpr int kOnly = ATTEST_ONLY_HEAD_DIM;
    if constexpr (kLeast <= 16 && sizeof(element) == 2 && (kOnly == 0 || kOnly == 16))
      if (channels <= 16 || kOnly) return body(element, std::integral_constant<int, 16>());
    if constexpr (kOnly == 0 || kOnly == 32)
      if (channels <= 32 || kOnly) return body(element, std::integral_constant<int, 32>());
    if constexpr (kOnly == 0 || kOnly == 64)
      if (channels <= 64 || kOnly) return body(element, std::integral_constant<int, 64>());
    if constexpr (kOnly == 0 || kOnly == 128)
      if (channels <= 128 || kOnly) return body(element, std::integral_constant<int, 128>());
    if constexpr (kOnly == 0 || kOnly == 256) body(element, std::integral_constant<int, 256>());
  };
  switch (problem.tensor[ATTEST_Q].dtype) {
    case ATTEST_F16: return with(attest::Half());
    case ATTEST_BF16: return with(attest::BFloat16());
    default: with(float());
  }
}

}  // namespace flash
