// Counter-based random numbers. A value depends on (seed, index) only, so fills can run in
// parallel. The code uses integers and exact float operations only, so every machine gets the same
// bytes.
#pragma once
#include <cstdint>
#include <random>

namespace attest::core {

/// 64 random bits of counter `index` in stream `seed`: two rounds of the SplitMix64 finaliser
/// (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014) over a Weyl
/// sequence.
constexpr uint64_t random_bits(uint64_t seed, uint64_t index) {
  auto mix = [](uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  };
  return mix(mix(seed + 0x9e3779b97f4a7c15u) + index * 0x9e3779b97f4a7c15u);
}

/// A number in [0, 1), multiple of 2^-24.
constexpr float random_uniform(uint64_t seed, uint64_t index) {
  return float(random_bits(seed, index) >> 40) * 0x1p-24f;
}

/// A nearly normal number, mean 0, variance 1: the sum of eight bytes, centred and scaled
/// (Irwin-Hall; |x| < 4.9). Every operation is exact but the last product, which IEEE 754 rounds
/// the same way everywhere.
constexpr float random_normal(uint64_t seed, uint64_t index) {
  uint64_t bits = random_bits(seed, index);
  int sum = 0;
  for (int i = 0; i < 8; ++i, bits >>= 8) sum += int(bits & 0xff);
  return float(sum - 1020) * 0.00478403f;  // 1 / sqrt(8 (256^2 - 1) / 12)
}

/// An integer in [0, n), n < 2^32 (multiply-shift; bias below n / 2^32).
constexpr uint64_t random_below(uint64_t seed, uint64_t index, uint64_t n) {
  return ((random_bits(seed, index) >> 32) * n) >> 32;
}

/// A seed that an implementation cannot foresee: of what is audited when.
inline uint64_t unpredictable_seed() {
  std::random_device device;
  return uint64_t(device()) << 32 | device();
}

}  // namespace attest::core
