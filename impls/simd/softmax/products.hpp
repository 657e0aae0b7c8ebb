// Products of bf16 matrices with sums in float32, by instructions that Highway does not have: AMX
// and AVX512_BF16 of x86. attend_bf16.cpp uses them with 16 floats a vector.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <cstdint>

#include "simd/sizes.hpp"

namespace impls {

/// What a product of AMX reads of depth, and writes of rows.
constexpr int64_t deep(int64_t n) { return round_up(n, 32); }
constexpr int64_t tall(int64_t n) { return round_up(n, 16); }

/// A matrix [rows][depth] of which elements n and n + 1 of row r, n even, lie side by side, at
/// data + r * row_stride + n / 2 * pair_stride. Strides count elements; one of them is 2.
struct Left {
  const uint16_t* data;
  int64_t row_stride, pair_stride;
  // The product with one vector of columns fetches a cache line from each of these addresses for
  // each pair of depth, if pair_stride is 2. Null: there is nothing to fetch.
  const char *ahead = nullptr, *also_ahead = nullptr;
};

/// How many columns b and c have: those of `vectors` vectors of 16 floats or, with `half`, the
/// first 8 of one vector. A row of half a vector takes the room of a whole vector.
struct Width {
  int vectors;
  bool half;
};

struct Products {
  const char* name;

  /// Whether the pairs of a row of `a` must follow one another: pair_stride is 2. All columns are
  /// then multiplied, those beyond half a vector too.
  bool whole_rows;

  /// c[r][..] = sum over n < depth of a[r][n] b[n][..], added to what c has if `add`.
  /// b: pairs of neighbouring n, [depth / 2][16 * vectors][2]; c: [rows][16 * vectors]. rows and
  /// depth are read and written as multiples of 16 and 32: what lies beyond must be there, and b or
  /// a be 0 in it.
  void (*multiply)(const Left& a, int64_t rows, const uint32_t* b, Width width, int64_t depth,
                   float* c, bool add);

  /// Called by a thread before its first product and after its last one.
  void (*begin)();
  void (*end)();
};

/// A thread's products, from the first to the last one. There may be none. Subnormal numbers are
/// flushed to zero meanwhile, as AMX flushes them: a weight 2^x that underflows would cost x86 a
/// hundred times as much otherwise.
class ProductsScope {
 public:
  explicit ProductsScope(const Products* products) : products_(products) {
#if defined(__SSE__)
    control_ = _mm_getcsr();
    constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x40;
    _mm_setcsr(control_ | kFlushToZero | kDenormalsAreZero);
#endif
    if (products_ != nullptr) products_->begin();
  }
  ~ProductsScope() {
    if (products_ != nullptr) products_->end();
#if defined(__SSE__)
    _mm_setcsr(control_);
#endif
  }
  ProductsScope(const ProductsScope&) = delete;
  ProductsScope& operator=(const ProductsScope&) = delete;

 private:
  const Products* const products_;
#if defined(__SSE__)
  unsigned control_;
#endif
};

struct ProductsChoice {
  const Products* products;  // null: those that are written with Highway
  const char* refusal;       // why there are none as ATTEST_CPU_BF16 demands; else null
};

/// AMX with bf16, if this processor has it and the kernel lets this process use it; else null.
const Products* amx();

/// The fastest that this processor has, or those that ATTEST_CPU_BF16 names: amx, avx512_bf16 or
/// portable.
ProductsChoice choose_products();

/// How float32 is multiplied (attend_terms.cpp).
enum class Float32By { kFma, kAmx, kPortableTerms, kBest, kUnknown };

/// What ATTEST_CPU_F32 demands: fma, amx, portable_terms or, if it is not set, the best.
Float32By demanded_float32();

}  // namespace impls
