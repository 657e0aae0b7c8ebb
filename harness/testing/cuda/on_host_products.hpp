// This header emulates tensor cores for kernels that run on the host (on_host.hpp). The lanes of a
// warp multiply two matrices, of which each lane holds a fragment.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "testing/cuda/on_host.hpp"

namespace cuda {

/// The elements that one lane holds of two matrices: `a` has [16, kA x 4] elements in the whole
/// warp, `b` has [kA x 4, 8]. The PTX manual says which lane holds which element.
template <int kA, int kB>
struct Fragments {
  uint32_t a[kA], b[kB];
};

/// The vector types that hold one number for each of four or eight elements.
struct Four {
  typedef double Numbers __attribute__((vector_size(32)));
  typedef uint64_t Bits __attribute__((vector_size(32)));
  typedef int32_t Whole __attribute__((vector_size(16)));
  typedef float Floats __attribute__((vector_size(16)));
};
struct Eight {
  typedef double Numbers __attribute__((vector_size(64)));
  typedef uint64_t Bits __attribute__((vector_size(64)));
  typedef int32_t Whole __attribute__((vector_size(32)));
  typedef float Floats __attribute__((vector_size(32)));
};

// Half of the emulation's time goes here: loops are unrolled, and a CPU that has AVX2 or AVX-512
// uses it. The choice is made before a sanitizer is set up, so there is none in its builds.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define CUDA_ON_HOST_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CUDA_ON_HOST_CLONES
#endif

/// The sum of nine addends as a tensor core makes it at once: each is cut below a bit beyond the
/// last of the largest, and so is the sum (Fasi, Higham, Mikaitis and Pranesh, Numerical behavior
/// of NVIDIA tensor cores, 2021). `sum` has floats.
template <class Vector>
[[gnu::always_inline]] inline void add_at_once(const typename Vector::Numbers (&addends)[9],
                                               typename Vector::Numbers& sum) {
  using Numbers = typename Vector::Numbers;
  using Bits = typename Vector::Bits;
  using Whole = typename Vector::Whole;
  // 2^-400 is less than any product of two floats but 0, so that no exponent is that of 0.
  Numbers largest = Numbers{} + 0x1p-400, plain = {};
#pragma GCC unroll 9
  for (const Numbers& each : addends) {
    const Numbers magnitude = each < 0 ? -each : each;
    largest = magnitude > largest ? magnitude : largest;
    plain += each;
  }
  // Of float64: the exponent, which is biased by 1023, and the bits of the mantissa that a float32
  // lacks.
  constexpr uint64_t kExponent = 0x7ff0'0000'0000'0000, kBeyondFloat = (uint64_t{1} << 29) - 1;
  const Bits exponent = reinterpret_cast<Bits>(largest) & kExponent;
  const Numbers unit = reinterpret_cast<Numbers>(exponent) * 0x1p-24,
                scale = reinterpret_cast<Numbers>((uint64_t{2 * 1023 + 24} << 52) - exponent);
  const auto is_finite = plain - plain == 0;
  Whole units = {};  // below 9 * 2^25
#pragma GCC unroll 9
  for (const Numbers& each : addends)
    units += __builtin_convertvector(is_finite ? each * scale : Numbers{}, Whole);
  const Numbers whole = __builtin_convertvector(units, Numbers),
                kept = reinterpret_cast<Numbers>(reinterpret_cast<Bits>(whole) & ~kBeyondFloat),
                result = is_finite ? kept * unit : plain;  // infinity and NaN stay
  sum = __builtin_convertvector(__builtin_convertvector(result, typename Vector::Floats), Numbers);
}

/// c += left right, 8 elements along k: element e of a lane is of row e / 2 and column e % 2.
CUDA_ON_HOST_CLONES static inline void add_products(float (&c)[4], const double (&left)[2][8],
                                                    const double (&right)[2][8]) {
  using Numbers = Four::Numbers;
  Numbers addends[9], sum;
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k)
    addends[k] = Numbers{left[0][k], left[0][k], left[1][k], left[1][k]} *
                 Numbers{right[0][k], right[1][k], right[0][k], right[1][k]};
  addends[8] = Numbers{c[0], c[1], c[2], c[3]};
  add_at_once<Four>(addends, sum);
  for (int e = 0; e < 4; ++e) c[e] = static_cast<float>(sum[e]);
}

/// The matrices that the lanes of a warp hold together. multiply_warp adds a b to c, 8 elements
/// along k in each of `steps` steps. A single step neither sets nor reads the columns of a and the
/// rows of b from 8 on.
struct WarpProduct {
  double a[16][16], b[16][8], c[16][8];
};
CUDA_ON_HOST_CLONES static inline void multiply_warp(WarpProduct& all, int steps) {
  Eight::Numbers addends[9], sum, columns[16];
  std::memcpy(columns, all.b, sizeof(columns) / 2 * static_cast<size_t>(steps));
  for (int row = 0; row < 16; ++row) {
    std::memcpy(&sum, all.c[row], sizeof(sum));
    for (int first = 0; first < 8 * steps; first += 8) {
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) addends[k] = all.a[row][first + k] * columns[first + k];
      addends[8] = sum;
      add_at_once<Eight>(addends, sum);
    }
    std::memcpy(all.c[row], &sum, sizeof(sum));
  }
}

/// The four sums of c that lane l holds, in rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the
/// next.
struct Sums {
  float c[4];
};
/// Adds the product of a warp's matrices a and b to c. `put(all, own, lane)` stores the fragments
/// of a lane in the matrices.
template <int kSteps, class Given, class Put>
void multiply_in_warp(float (&c)[4], const Given& own, const Put& put) {
  struct Lane {
    Given fragments;
    Sums sums;
  };
  const auto element = [](auto& all, int lane, int e) -> double& {
    return all.c[lane / 4 + 8 * (e / 2)][lane % 4 * 2 + e % 2];
  };
  const auto multiply = [&](const Lane* lanes, Sums* results) {
    WarpProduct all;
    for (int lane = 0; lane < on_host::kWarp; ++lane) {
      put(all, lanes[lane].fragments, lane);
      for (int e = 0; e < 4; ++e) element(all, lane, e) = lanes[lane].sums.c[e];
    }
    multiply_warp(all, kSteps);
    for (int lane = 0; lane < on_host::kWarp; ++lane)
      for (int e = 0; e < 4; ++e) results[lane].c[e] = static_cast<float>(element(all, lane, e));
  };
  const auto sums =
      on_host::block().make_once_for_warp<Sums>(Lane{own, {{c[0], c[1], c[2], c[3]}}}, multiply);
  std::copy_n(sums.c, 4, c);
}

/// Lane l has rows l / 4 and l / 4 + 8 of a, column l / 4 of b; of 8 elements along k, 2 (l % 4)
/// and the next.
template <int kSteps, class Type>
void mma(float (&c)[4], const Fragments<2 * kSteps, kSteps>& own, Type type) {
  multiply_in_warp<kSteps>(c, own, [type](WarpProduct& all, const auto& fragments, int lane) {
    const auto number = [type](uint32_t pair, int half) {
      return static_cast<double>(as_float(pair >> 16 * half & 0xffff, type));
    };
    for (int step = 0; step < kSteps; ++step)
      for (int half = 0; half < 2; ++half) {
        const int k = 8 * step + lane % 4 * 2 + half;
        for (int which = 0; which < 2; ++which)
          all.a[lane / 4 + 8 * which][k] = number(fragments.a[step * 2 + which], half);
        all.b[k][lane / 4] = number(fragments.b[step], half);
      }
  });
}
template <class Type>
void mma_k16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Type type) {
  if (before_sm80()) on_host::refuse("an instruction that sm_75 lacks");
  mma<2>(c, {{a[0], a[1], a[2], a[3]}, {b0, b1}}, type);
}
inline void mma_k8(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  mma<1>(c, {{a0, a1}, {b}}, __half());
}

/// Of 8 elements along k, lane l has l % 4 and the fourth next. The last 13 bits of an operand do
/// not count.
inline void mma_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if (before_sm80()) on_host::refuse("an instruction that sm_75 lacks");
  const auto put = [](WarpProduct& all, const Fragments<4, 2>& fragments, int lane) {
    const auto tf32 = [](uint32_t bits) {
      return static_cast<double>(__uint_as_float(bits & 0xffffe000));
    };
    for (int later = 0; later < 2; ++later) {
      const int k = lane % 4 + 4 * later;
      for (int which = 0; which < 2; ++which)
        all.a[lane / 4 + 8 * which][k] = tf32(fragments.a[2 * later + which]);
      all.b[k][lane / 4] = tf32(fragments.b[later]);
    }
  };
  multiply_in_warp<1>(c, Fragments<4, 2>{{a[0], a[1], a[2], a[3]}, {b0, b1}}, put);
}

}  // namespace cuda
