// Tensor-core products of f16, bf16 and f32, and what feeds them: copies to shared memory that do
// not wait, 8 x 8 blocks out of it. First the instructions, which on the host are on_host.hpp's;
// then what is made of them, the same on host and device.
#pragma once
#include "cuda/device_problem.cuh"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace cuda {

/// Of the device that the code is compiled for.
__device__ constexpr bool before_sm80() {
#if __CUDA_ARCH__ >= 800
  return false;
#else
  return true;
#endif
}

/// Of this launch, on 128 bytes.
__device__ inline char* dynamic_shared() {
  extern __shared__ __align__(128) char memory[];
  return memory;
}
__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// The same number. What the compiler makes of it, it makes after this point: made before a loop
/// and kept over it, that would take registers.
__device__ inline int anew(int number) {
  asm volatile("" : "+r"(number));
  return number;
}

__device__ inline uint32_t load_shared(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
/// Two neighbours, the first on a multiple of 8 bytes.
__device__ inline void load_shared(uint32_t (&values)[2], uint32_t address) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(values[0]), "=r"(values[1])
               : "r"(address)
               : "memory");
}
__device__ inline void store_shared(uint32_t address, uint32_t value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

/// 16 bytes to shared memory, or 16 zeros. Before sm_80 through registers, at once.
__device__ inline void copy_async(uint32_t to, const void* from, bool there) {
#if __CUDA_ARCH__ >= 800
  const int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
#else
  const uint4 value = there ? *static_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(value.x), "r"(value.y),
               "r"(value.z), "r"(value.w)
               : "memory");
#endif
}
/// The first `there` of kBytes bytes, which are 4, 8 or 16 and lie on a multiple of that, and zeros
/// for the others. Before sm_80 through registers, at once.
template <int kBytes>
__device__ inline void copy_part_async(uint32_t to, const void* from, int there) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes),
                 "r"(there)
                 : "memory");
#else
#pragma unroll
  for (int word = 0; word < kBytes / 4; ++word) {
    uint32_t value = 0;
    for (int byte = 0; byte < 4; ++byte)
      if (const int at = word * 4 + byte; at < there)
        value |= uint32_t{static_cast<const uint8_t*>(from)[at]} << 8 * byte;
    store_shared(to + word * 4, value);
  }
#endif
}
__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Until at most kLeft of the groups that were committed are on their way.
template <int kLeft>
__device__ inline void wait_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

/// Four 8 x 8 blocks of 16-bit elements; lane l gives the address of row l % 8 of block l / 8, and
/// gets elements 2 (l % 4) and the next of row l / 4 of each.
__device__ inline void load_blocks(uint32_t (&blocks)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(blocks[0]), "=r"(blocks[1]), "=r"(blocks[2]), "=r"(blocks[3])
               : "r"(address)
               : "memory");
}
/// The same of the transposed blocks.
__device__ inline void load_blocks_transposed(uint32_t (&blocks)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(blocks[0]), "=r"(blocks[1]), "=r"(blocks[2]), "=r"(blocks[3])
               : "r"(address)
               : "memory");
}

/// c += a b with a [16, 16], b [16, 8], c [16, 8]; fragments as the PTX manual lays them out for
/// m16n8k16. From sm_80 on.
__device__ inline void mma_k16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                               __half) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
__device__ inline void mma_k16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                               __nv_bfloat16) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
/// The same with a [16, 8], b [8, 8] of f16, from sm_75 on.
__device__ inline void mma_k8(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, "
      "%2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b));
}
/// The same of tf32 (floats whose last 13 bits are 0), from sm_80 on. What it adds up is cut, not
/// rounded.
__device__ inline void mma_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// The lower 16 bits as a float.
__device__ inline float as_float(uint32_t bits, __half) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
__device__ inline float as_float(uint32_t bits, __nv_bfloat16) {
  return __uint_as_float(bits << 16);
}

/// Two floats as one register of 16-bit elements, the first in the lower half.
__device__ inline uint32_t pack(float first, float second, __half) {
  const __half2 both = __floats2half2_rn(first, second);
  return reinterpret_cast<const uint32_t&>(both);
}
__device__ inline uint32_t pack(float first, float second, __nv_bfloat16) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
  return reinterpret_cast<const uint32_t&>(both);
}

__device__ inline float2 pack(float first, float second, float) { return {first, second}; }

/// 2^x to some 2 ulp of float32; subnormal results are 0.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace cuda
#endif

namespace cuda {

/// The operands of a product, each made once for all products that it takes part in: of 16-bit
/// elements a [16, 16] and b [16, 8], of floats a [16, 8] and b [8, 8].
template <class Type>
struct Left {
  uint32_t a[4];
  __device__ void set(const uint32_t (&from)[4]) {
#pragma unroll
    for (int n = 0; n < 4; ++n) a[n] = from[n];
  }
};
template <class Type>
struct Right {
  uint32_t first, second;
};

/// c += a b, c [16, 8]; fragments as the PTX manual lays them out for m16n8k16.
template <class Type>
__device__ inline void multiply_add(float (&c)[4], const Left<Type>& left,
                                    const Right<Type>& right) {
  mma_k16(c, left.a, right.first, right.second, Type());
}
/// In f16 by its halves where there is nothing better.
__device__ inline void multiply_add(float (&c)[4], const Left<__half>& left,
                                    const Right<__half>& right) {
  if (!before_sm80()) return mma_k16(c, left.a, right.first, right.second, __half());
  mma_k8(c, left.a[0], left.a[1], right.first);
  if (!planted(Bug::kHalfProduct)) mma_k8(c, left.a[2], left.a[3], right.second);
}

/// A float as a sum of two tf32: rounded to nearest, ties away from 0, and what is left, cut. x -
/// big - small is below 2^-23 x. Of an infinity, of NaN and of what rounds to infinity, small is
/// NaN.
struct Split {
  uint32_t big, small;
  __device__ explicit Split(uint32_t x) {
    constexpr uint32_t kKept = 0xffffe000,
                       kHalf = 0x1000;  // half a unit of the last bit that is kept
    big = (x + kHalf) & kKept;
    small = __float_as_uint(__uint_as_float(x) - __uint_as_float(big)) & kKept;
  }
};
template <>
struct Left<float> {
  uint32_t big[4], small[4];
  __device__ void set(const uint32_t (&from)[4]) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const Split part(from[n]);
      big[n] = part.big;
      small[n] = part.small;
    }
  }
};
template <>
struct Right<float> {
  Split first, second;
  __device__ Right(uint32_t b0, uint32_t b1) : first(b0), second(b1) {}
};
/// In f32 by three products of tf32 (small times small is below 2^-22). They are summed apart and
/// then added to c, with rounding: tensor cores cut what they add up, which over many keys would
/// lean to one side (Ootomo and Yokota, Recovering single precision accuracy from tensor cores,
/// 2022).
__device__ inline void multiply_add(float (&c)[4], const Left<float>& left,
                                    const Right<float>& right) {
  float own[4] = {};
  float(&sums)[4] = planted(Bug::kSumsCut) ? c : own;
  if (!planted(Bug::kSmallOfLeft)) mma_tf32(sums, left.small, right.first.big, right.second.big);
  if (!planted(Bug::kSmallOfRight)) mma_tf32(sums, left.big, right.first.small, right.second.small);
  mma_tf32(sums, left.big, right.first.big, right.second.big);
  if (planted(Bug::kSumsCut)) return;
#pragma unroll
  for (int n = 0; n < 4; ++n) c[n] += sums[n];
}

}  // namespace cuda
