// Instructions of sm_90a: tensor maps (TMA), barriers in shared memory, warpgroups' products
// (wgmma), registers from one warpgroup to another. A product and a copy are under way until they
// are waited for.
#pragma once
#include "cuda/device_problem.cuh"
#include "cuda/mma.cuh"
#include "cuda/sm90_layout.hpp"

#ifdef __CUDACC__
#include <cuda.h>
#include <cudaTypedefs.h>

namespace sm90 {

using TensorMap = CUtensorMap;

/// The driver's function that makes maps; found at run time, so that nothing is linked with the
/// driver.
inline PFN_cuTensorMapEncodeTiled_v12000 map_encoder() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status;
#if CUDART_VERSION >= 12050
  cuda::check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                               cudaEnableDefault, &status),
              "cudaGetDriverEntryPointByVersion");
#else
  cuda::check(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &status),
              "cudaGetDriverEntryPoint");
#endif
  if (!found || status != cudaDriverEntryPointSuccess)
    throw std::runtime_error("the driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
}

/// A tensor [batch, heads, rows, channels] of 16-bit elements, of which boxes of kColumn channels
/// of `box_rows` rows are copied.
inline TensorMap tensor_map(const attest_tensor& tensor, void* data, int box_rows) {
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = map_encoder();
  cuuint64_t dims[4],
      strides[4];  // innermost first; that of the innermost is 1 element, and nobody asks
  for (int axis = 0; axis < 4; ++axis) {
    dims[axis] = static_cast<cuuint64_t>(tensor.dim[3 - axis]);
    strides[axis] = tensor.stride[3 - axis] > 0
                        ? static_cast<cuuint64_t>(tensor.stride[3 - axis]) * 2
                        : 16;  // never walked
  }
  const cuuint32_t box[4] = {kColumn, static_cast<cuuint32_t>(box_rows), 1, 1},
                   steps[4] = {1, 1, 1, 1};
  TensorMap map;
  const CUresult result =
      encode(&map,
             tensor.dtype == ATTEST_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                        : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
             4, data, dims, strides + 1, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw std::runtime_error("cuTensorMapEncodeTiled: error " + std::to_string(result));
  return map;
}

// --- Barriers: 8 bytes in shared memory, a phase ends with its last arrival and its last byte ---

__device__ inline void init_barrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// After the last init_barrier, before anybody uses one.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives, and lets the phase last until `bytes` have come.
__device__ inline void arrive_and_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Until the phase of this parity is over; of a new barrier, that with parity 1 is.
__device__ inline void wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Barrier 1 to 15 of the block, `threads` threads: those that wait and those that only come by.
__device__ inline void wait_named(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void come_by_named(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// Copies the box of the map at these coordinates to shared memory, zeros where there is no tensor;
/// its bytes count in the barrier.
__device__ inline void load_box(uint32_t to, const TensorMap& map, uint32_t barrier, int channel,
                                int row, int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4, %5, %6}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(channel), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

__device__ inline void store_zeros(uint32_t to) {  // 16 bytes
  asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
}
/// Between what a thread stores and products or copies that come to see it.
__device__ inline void publish_stores() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// All warps of a warpgroup give registers back, or wait for more.
template <int kCount>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// --- Products of a warpgroup ---

/// Before the first product that reads registers which were written since.
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Until at most kLeft groups of products are under way.
template <int kLeft>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
/// Keeps the compiler from moving what is done with the registers of a product over this place.
template <int kCount>
__device__ inline void pin(float (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int kCount>
__device__ inline void pin(uint32_t (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

/// Has a value that is never negative made before what follows, a wait for products: a store that
/// never happens. Else the assembler puts it off until after the wait.
__device__ inline void settle(float value, uint32_t address) {
  asm volatile(
      "{\n.reg .pred negative;\nsetp.lt.f32 negative, %0, 0f00000000;\n@negative st.shared.f32 "
      "[%1], %0;\n}" ::"f"(value),
      "r"(address)
      : "memory");
}
/// Keeps the compiler from keeping what is made of a value in registers from one turn of a loop to
/// the next.
__device__ inline void renew(uint32_t& value) { asm volatile("" : "+r"(value)); }

// Operand lists, as text and as operands: 16, 32, 64, 104 and 128 accumulators.
#define ATTEST_TEXT8(a, b, c, d, e, f, g, h) \
  "%" #a ", %" #b ", %" #c ", %" #d ", %" #e ", %" #f ", %" #g ", %" #h
#define ATTEST_TEXT16                  \
  ATTEST_TEXT8(0, 1, 2, 3, 4, 5, 6, 7) \
  ", " ATTEST_TEXT8(8, 9, 10, 11, 12, 13, 14, 15)
#define ATTEST_TEXT32                                                \
  ATTEST_TEXT8(0, 1, 2, 3, 4, 5, 6, 7)                               \
  ", " ATTEST_TEXT8(8, 9, 10, 11, 12, 13, 14, 15) ", " ATTEST_TEXT8( \
      16, 17, 18, 19, 20, 21, 22, 23) ", " ATTEST_TEXT8(24, 25, 26, 27, 28, 29, 30, 31)
#define ATTEST_TEXT64                                                                             \
  ATTEST_TEXT32                                                                                   \
  ", " ATTEST_TEXT8(32, 33, 34, 35, 36, 37, 38, 39) ", " ATTEST_TEXT8(                            \
      40, 41, 42, 43, 44, 45, 46, 47) ", " ATTEST_TEXT8(48, 49, 50, 51, 52, 53, 54,               \
                                                        55) ", " ATTEST_TEXT8(56, 57, 58, 59, 60, \
                                                                              61, 62, 63)
#define ATTEST_TEXT104                                                                            \
  ATTEST_TEXT64                                                                                   \
  ", " ATTEST_TEXT8(64, 65, 66, 67, 68, 69, 70, 71) ", " ATTEST_TEXT8(                            \
      72, 73, 74, 75, 76, 77, 78,                                                                 \
      79) ", " ATTEST_TEXT8(80, 81, 82, 83, 84, 85, 86,                                           \
                            87) ", " ATTEST_TEXT8(88, 89, 90, 91, 92, 93, 94,                     \
                                                  95) ", " ATTEST_TEXT8(96, 97, 98, 99, 100, 101, \
                                                                        102, 103)
#define ATTEST_TEXT128                                                                             \
  ATTEST_TEXT104 ", " ATTEST_TEXT8(104, 105, 106, 107, 108, 109, 110, 111) ", " ATTEST_TEXT8(      \
      112, 113, 114, 115, 116, 117, 118, 119) ", " ATTEST_TEXT8(120, 121, 122, 123, 124, 125, 126, \
                                                                127)
#define ATTEST_SUMS8(c, i)                                                                    \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define ATTEST_SUMS16(c, i) ATTEST_SUMS8(c, i), ATTEST_SUMS8(c, i + 8)
#define ATTEST_SUMS32(c, i) \
  ATTEST_SUMS8(c, i), ATTEST_SUMS8(c, i + 8), ATTEST_SUMS8(c, i + 16), ATTEST_SUMS8(c, i + 24)
#define ATTEST_SUMS64(c, i) ATTEST_SUMS32(c, i), ATTEST_SUMS32(c, i + 32)
#define ATTEST_SUMS104(c, i) ATTEST_SUMS64(c, i), ATTEST_SUMS32(c, i + 64), ATTEST_SUMS8(c, i + 96)
#define ATTEST_SUMS128(c, i) ATTEST_SUMS64(c, i), ATTEST_SUMS64(c, i + 64)

/// c [64, kColumns] (+)= a [64, 16] b [16, kColumns]: a by a descriptor or, as `weights`, from
/// registers (fragments as of m16n8k16, a warp 16 rows); b's rows are its columns' channels
/// (product of shared) or what is summed over (of registers). `adds`: 0 for a product that
/// overwrites c.
template <class Type, int kColumns>
struct Products;

// n: columns; r: accumulators; after them the operands a (1 or 4 registers), b and `adds`, as %a..;
// t: type in PTX, e: in C++.
#define ATTEST_PRODUCTS(n, r, a, a1, a2, a3, b, p, t, e)                                         \
  template <>                                                                                    \
  struct Products<e, n> {                                                                        \
    __device__ static void of_shared(float (&c)[r], uint64_t q, uint64_t k, int adds) {          \
      asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #a2                                \
                   ", 0;\n"                                                                      \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." t "." t " {" ATTEST_TEXT##r \
                   "}, %" #a ", %" #a1 ", adds, 1, 1, 0, 0;\n}"                                  \
                   : ATTEST_SUMS##r(c, 0)                                                        \
                   : "l"(q), "l"(k), "r"(adds));                                                 \
    }                                                                                            \
    __device__ static void of_registers(float (&c)[r], const uint32_t (&weights)[4], uint64_t v, \
                                        int adds) {                                              \
      asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #p                                 \
                   ", 0;\n"                                                                      \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." t "." t " {" ATTEST_TEXT##r \
                   "}, {%" #a ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", adds, 1, 1, 1;\n}"      \
                   : ATTEST_SUMS##r(c, 0)                                                        \
                   : "r"(weights[0]), "r"(weights[1]), "r"(weights[2]), "r"(weights[3]), "l"(v), \
                     "r"(adds));                                                                 \
    }                                                                                            \
  };
#define ATTEST_PRODUCTS_OF(n, r, a, a1, a2, a3, b, p)       \
  ATTEST_PRODUCTS(n, r, a, a1, a2, a3, b, p, "f16", __half) \
  ATTEST_PRODUCTS(n, r, a, a1, a2, a3, b, p, "bf16", __nv_bfloat16)
ATTEST_PRODUCTS_OF(32, 16, 16, 17, 18, 19, 20, 21)
ATTEST_PRODUCTS_OF(64, 32, 32, 33, 34, 35, 36, 37)
ATTEST_PRODUCTS_OF(128, 64, 64, 65, 66, 67, 68, 69)
ATTEST_PRODUCTS_OF(208, 104, 104, 105, 106, 107, 108, 109)
ATTEST_PRODUCTS_OF(256, 128, 128, 129, 130, 131, 132, 133)
#undef ATTEST_PRODUCTS_OF
#undef ATTEST_PRODUCTS
#undef ATTEST_TEXT8
#undef ATTEST_TEXT16
#undef ATTEST_TEXT32
#undef ATTEST_TEXT64
#undef ATTEST_TEXT104
#undef ATTEST_TEXT128
#undef ATTEST_SUMS8
#undef ATTEST_SUMS16
#undef ATTEST_SUMS32
#undef ATTEST_SUMS64
#undef ATTEST_SUMS104
#undef ATTEST_SUMS128

}  // namespace sm90
#endif
