// Every arithmetic that a kernel can declare, alone and two at a time, as the product of a few
// lists; and the orders of summation.
#pragma once
#include <array>
#include <cstddef>

#include "honest/method.hpp"

namespace honest {

/// What one declaration is about; two about the same thing contradict each other, but for bits.
enum class About { kQk, kScore, kProbability, kPv, kAccumulator, kBit, kExp };

struct Declaration {
  const char* name;
  About about;
  int32_t dtype = ATTEST_F32;
  uint32_t bit = 0;
  float exp_error = 0;
  bool exp_leans = false;
};

/// Scores and accumulators in 8 bits nobody keeps, and Q and K only where they are scaled to fit.
constexpr Declaration kDeclarations[] = {
    {"qk_bf16", About::kQk, ATTEST_BF16},
    {"qk_f16", About::kQk, ATTEST_F16},
    {"qk_tf32", About::kQk, ATTEST_TF32},
    {"qk_3xtf32", About::kQk, ATTEST_3XTF32},
    {"qk_e4m3", About::kQk, ATTEST_F8E4M3},
    {"qk_e5m2", About::kQk, ATTEST_F8E5M2},
    {"score_bf16", About::kScore, ATTEST_BF16},
    {"score_f16", About::kScore, ATTEST_F16},
    {"score_tf32", About::kScore, ATTEST_TF32},
    {"prob_bf16", About::kProbability, ATTEST_BF16},
    {"prob_f16", About::kProbability, ATTEST_F16},
    {"prob_tf32", About::kProbability, ATTEST_TF32},
    {"prob_e4m3", About::kProbability, ATTEST_F8E4M3},
    {"prob_e5m2", About::kProbability, ATTEST_F8E5M2},
    {"pv_bf16", About::kPv, ATTEST_BF16},
    {"pv_f16", About::kPv, ATTEST_F16},
    {"pv_tf32", About::kPv, ATTEST_TF32},
    {"pv_e4m3", About::kPv, ATTEST_F8E4M3},
    {"pv_e5m2", About::kPv, ATTEST_F8E5M2},
    {"acc_bf16", About::kAccumulator, ATTEST_BF16},
    {"acc_f16", About::kAccumulator, ATTEST_F16},
    {"acc_tf32", About::kAccumulator, ATTEST_TF32},
    {"first", About::kBit, ATTEST_F32, ATTEST_P_NORMALISED_FIRST},
    {"cut", About::kBit, ATTEST_F32, ATTEST_P_TRUNCATED},
    {"sums_rounded", About::kBit, ATTEST_F32, ATTEST_SUMS_ROUNDED_P},
    {"flushes", About::kBit, ATTEST_F32, ATTEST_FLUSHES_SUBNORMALS},
    {"by_lse", About::kBit, ATTEST_F32, ATTEST_WEIGHS_BY_LSE},
    {"exp_8", About::kExp, ATTEST_F32, 0, 0x1p-8f},
    {"exp_13", About::kExp, ATTEST_F32, 0, 0x1p-13f},
    {"exp_leans", About::kExp, ATTEST_F32, 0, 1e-3f, true},
};
constexpr size_t kDeclared = sizeof(kDeclarations) / sizeof(*kDeclarations);

/// The order in which keys are summed.
struct Order {
  const char* name;
  int64_t tile;
  bool reversed;
  int64_t splits;
};
constexpr Order kOrders[] = {{"whole", 0, false, 1},        {"whole_reversed", 0, true, 1},
                             {"tiles", kAnyTile, false, 1}, {"reversed", 64, true, 1},
                             {"tall", 1024, false, 1},      {"splits", 64, false, 4},
                             {"tall_splits", 512, true, 3}, {"quarters", kQuarter, false, 4}};
constexpr size_t kOrderCount = sizeof(kOrders) / sizeof(*kOrders);

/// What it says of linear attention, where phi is the operand of QK and the state that of PV. Sums
/// over all keys do not fit into 8 bits.
constexpr bool of_linear(const Declaration& d) {
  if (d.dtype == ATTEST_F8E4M3 || d.dtype == ATTEST_F8E5M2) return false;
  return d.about == About::kQk || d.about == About::kPv || d.about == About::kAccumulator ||
         d.about == About::kExp || d.bit == ATTEST_FLUSHES_SUBNORMALS;
}
constexpr bool go_together(const Declaration& a, const Declaration& b) {
  return a.about != b.about || a.bit != b.bit;
}

/// Two declarations, or one twice: that alone.
struct Pair {
  size_t first = 0, second = 0;
  constexpr bool alone() const { return first == second; }
};

template <class Take>
constexpr void for_pairs(bool linear, const Take& take) {
  for (size_t first = 0; first < kDeclared; ++first)
    for (size_t second = first; second < kDeclared; ++second) {
      if (linear && !(of_linear(kDeclarations[first]) && of_linear(kDeclarations[second])))
        continue;
      if (first == second || go_together(kDeclarations[first], kDeclarations[second]))
        take(Pair{first, second});
    }
}

constexpr size_t count_pairs(bool linear) {
  size_t count = 0;
  for_pairs(linear, [&](Pair) { ++count; });
  return count;
}

template <bool kLinear>
constexpr std::array<Pair, count_pairs(kLinear)> list_pairs() {
  std::array<Pair, count_pairs(kLinear)> pairs{};
  size_t count = 0;
  for_pairs(kLinear, [&](Pair pair) { pairs[count++] = pair; });
  return pairs;
}

constexpr void apply(const Declaration& d, Arithmetic& a) {
  switch (d.about) {
    case About::kQk: a.qk = d.dtype; break;
    case About::kScore: a.score = d.dtype; break;
    case About::kProbability: a.probability = d.dtype; break;
    case About::kPv: a.pv = d.dtype; break;
    case About::kAccumulator: a.accumulator = d.dtype; break;
    case About::kBit: a.ways |= d.bit; break;
    case About::kExp:
      a.exp_error = d.exp_error;
      a.exp_leans = d.exp_leans;
      break;
  }
}

/// How probabilities are rounded says nothing in float32: where they would be, they are bf16, f16
/// or 8 bits wide in turn.
constexpr Arithmetic arithmetic_of(Pair pair, size_t turn) {
  constexpr uint32_t kOfRounding = ATTEST_P_NORMALISED_FIRST | ATTEST_P_TRUNCATED |
                                   ATTEST_SUMS_ROUNDED_P | ATTEST_FLUSHES_SUBNORMALS;
  constexpr int32_t kRounded[] = {ATTEST_BF16, ATTEST_F16, ATTEST_F8E4M3};
  Arithmetic a = kFloat;
  apply(kDeclarations[pair.first], a);
  apply(kDeclarations[pair.second], a);
  if ((a.ways & kOfRounding) != 0 && a.probability == ATTEST_F32 && a.pv == ATTEST_F32)
    a.probability = kRounded[turn % 3];
  return a;
}

}  // namespace honest
