// The inner loops of the honest kernels: plain arrays of float32, rounded where a method says so.
#pragma once
#include <cstdint>

namespace honest {

constexpr int64_t kBlock = 64;     // keys of a block of K, transposed
constexpr int64_t kChannels = 32;  // channels of V are padded to a multiple of this
constexpr int64_t kRows = 2;       // queries at a time
constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// What a kernel rounds to, by the stages of softmax attention; and what it would declare.
struct Arithmetic {
  int32_t qk, score, probability, pv, accumulator;
  uint32_t ways;
  float exp_error;
  // Every exp is too small by exp_error; else its error wanders between both bounds
  bool exp_leans = false;
  // The normaliser adds one probability after the other, not eight sums of them
  bool one_sum = false;
};

/// c[2, 32] += a[2, depth] b[depth, 32]; strides in floats. Each element is one chain of fused
/// multiply-adds.
void multiply(const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t depth,
              float* c, int64_t c_stride);

/// x is rounded to `dtype`, element by element.
void round_row(float* x, int64_t count, int32_t dtype);
/// The same, cut; x >= 0.
void cut_row(float* x, int64_t count, int32_t dtype);
/// What lies below it may be flushed to 0.
float smallest_normal(int32_t dtype);
/// Sums of softmax attention below it become 0; 0: none do.
float least_sum(const Arithmetic& arithmetic);
/// x * factor + addend, rounded after each step; the addend (may be null) has -inf where a key is
/// hidden, whatever x is.
void to_logits(float* x, int64_t count, float factor, const float* addend, int32_t dtype);
float largest(const float* x, int64_t count);
/// Scores become cap * tanh(score / cap).
void softcap(float* x, int64_t count, float cap);

/// Logits become exp(logit - top), 0 where -inf, with the errors of the declared exp.
void exponentials(float* x, int64_t count, float top, const Arithmetic& arithmetic);
/// p becomes what a kernel multiplies with: divided by `divisor`, rounded or cut to the dtype of
/// probabilities, flushed, rounded to the operand. Returns the sum of what the normaliser adds,
/// starting at `total`: before the rounding, or after it if the ways say so; in the dtype of the
/// accumulator, one after the other where that is coarser than float32 or `one_sum`.
float probabilities(float* p, int64_t count, float divisor, const Arithmetic& arithmetic,
                    float total);
/// The sum alone. Sums below `least` become 0.
float sum(const float* p, int64_t count, int32_t accumulator, float total, float least = 0);

/// sum[channels] += p v key by key, rounded each time. `hidden` p are 0 and their values are not
/// touched. Sums below `least` become 0.
void add_rounded(const float* p, const float* v, int64_t keys, int64_t channels,
                 int32_t accumulator, float* sum, float least = 0);

}  // namespace honest
