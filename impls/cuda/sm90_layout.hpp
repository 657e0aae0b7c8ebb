// How tiles lie in shared memory on sm_90, for maps, products and their emulation: as columns of 64
// channels, each of them rows of 128 bytes one behind the other, whose eight 16-byte parts are
// exchanged by the row's number modulo 8 (the hardware's 128-byte swizzle). A column starts on 1024
// bytes.
#pragma once
#include <cstdint>

#include "attest.hpp"

namespace sm90 {

constexpr int kWarpgroup = 128;  // threads that multiply together

/// 16-bit channels in a row of a column, and its bytes.
constexpr int kColumn = 64, kRowBytes = 128;
constexpr uint32_t kEightRows = 8 * kRowBytes;

/// Matrix descriptors as the PTX manual has them: bits 0 to 13 the address, 16 to 29 how far the
/// next 64 channels are, 32 to 45 how far the next 8 rows are, all in 16 bytes; 62 and 63 the
/// swizzle, 1 for that of 128 bytes.
ATTEST_HD inline uint64_t descriptor(uint32_t address, uint32_t channels_bytes,
                                     uint32_t rows_bytes) {
  return (address & 0x3ffff) >> 4 | static_cast<uint64_t>(channels_bytes >> 4) << 16 |
         static_cast<uint64_t>(rows_bytes >> 4) << 32 | uint64_t{1} << 62;
}
/// A tile whose rows are the operand's rows (Q, and K as the right operand of Q K^T): 16 channels
/// from `address` on.
ATTEST_HD inline uint64_t own_rows(uint32_t address) {
  return descriptor(address, 16, kEightRows);
}  // 16: nobody asks
/// A tile whose rows are what is summed over (V, as the right operand of P V); columns are
/// `column_bytes` apart.
ATTEST_HD inline uint64_t summed_rows(uint32_t address, uint32_t column_bytes) {
  return descriptor(address, column_bytes, kEightRows);
}

/// The same of a tile, or a part of it, that begins `bytes` further on.
ATTEST_HD inline uint64_t further(uint64_t descriptor, uint32_t bytes) {
  const auto low = static_cast<uint32_t>(descriptor) + (bytes >> 4);  // the address takes no more
  return descriptor >> 32 << 32 | low;
}

}  // namespace sm90
