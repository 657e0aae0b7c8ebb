// The arithmetic that an implementation declares: what its tolerance follows from.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor/dtype.hpp"

namespace attest::core {

/// The declaration of attest_support, with its neutral zeros resolved. `output` is the dtype of O.
/// A record shows it as print() does: "qk=f32,pv=f32,score=f32,prob=f32,acc=f32,chain=64".
struct Arithmetic {
  DType qk = ATTEST_F32, pv = ATTEST_F32, score = ATTEST_F32, probability = ATTEST_F32,
        accumulator = ATTEST_F32;
  DType output = ATTEST_F32;
  uint32_t flags = 0;  // ATTEST_P_... and the other arithmetic bits of attest.h
  double probability_rel_error = 0;
  int64_t sum_chain = 0;  // 0: as long as the sum itself

  bool operator==(const Arithmetic&) const = default;
  bool has(uint32_t flag) const { return (flags & flag) != 0; }
};

/// "" when the declaration can be judged by, else what is wrong with it: a dtype that this harness
/// does not know, an error of exp that is not finite, negative or above the roundoff of bf16, a
/// negative chain. Whoever could declare any error would pass with any.
std::string wrong_declaration(const attest_support& support);
/// What `support` declares for outputs of dtype `output`; a field that is 0 counts as f32.
Arithmetic declared_arithmetic(const attest_support& support, DType output);
std::string print(const Arithmetic& arithmetic);

/// The least that `--min-arithmetic` accepts: words of "qk pv score prob acc" with a dtype,
/// separated by commas. Throws Error, which begins with `where`, on an unknown word or dtype.
struct MinArithmetic {
  DType qk = ATTEST_NONE, pv = ATTEST_NONE, score = ATTEST_NONE, probability = ATTEST_NONE,
        accumulator = ATTEST_NONE;
};
MinArithmetic parse_min_arithmetic(std::string_view text,
                                   std::string_view where = "--min-arithmetic");
/// "" when `arithmetic` is at least `least` in every word, else the reason, e.g. "declares acc=f16,
/// less than acc=f32". More precise is a smaller unit roundoff.
std::string falls_short(const Arithmetic& arithmetic, const MinArithmetic& least);

}  // namespace attest::core
