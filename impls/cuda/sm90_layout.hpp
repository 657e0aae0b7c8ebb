// How tiles lie in shared memory on sm_90, for maps, products and their emulation: as columns of 64 channels, each of them rows
// of 128 bytes one behind the other, whose eight 16-byte parts are exchanged by the row's number modulo 8 (the hardware's
// 128-byte swizzle). A column starts on 1024 bytes.
#pragma once
#include <cstdint>

namespace sm90 {

constexpr int kWarpgroup = 128;  // threads that multiply together

/// 16-bit channels in a row of a column, and its bytes.
constexpr int kColumn = 64, kRowBytes = 128;
constexpr uint32_t kEightRows = 8 * kRowBytes;

/// Bits of a matrix descriptor beside its address, as the PTX manual has them: how far the next 64 channels and the next 8 rows
/// are, and the 128-byte swizzle.
constexpr uint64_t descriptor_bits(uint32_t leading_bytes, uint32_t stride_bytes) {
  return static_cast<uint64_t>(leading_bytes >> 4) << 16 | static_cast<uint64_t>(stride_bytes >> 4) << 32 | uint64_t{1} << 62;
}

}  // namespace sm90
