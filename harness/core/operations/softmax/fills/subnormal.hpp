// The fill "subnormal" has outputs that depend on subnormal numbers of f16 in Q, K and V.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/operations/operation.hpp"

namespace attest::core {

inline constexpr std::string_view kSubnormalName = "subnormal";
inline constexpr uint64_t kSubnormalStream = 0x7375626e;

/// Problems with Q, K and V in f16 have the fill. Subnormal numbers of bf16 and float32 are below
/// 2^-126, and processors are often told to take them for 0.
///
/// Turns the fill "random", made with a seed of the stream kSubnormalStream, into the fill
/// "subnormal". K is subnormal in the first half of the channels, and Q in the second half. There
/// the other operand has one large magnitude, so that either half gives scores of a standard
/// deviation of 1.4, or less if softmax_scale is small. Every other channel of V has subnormal
/// numbers above 0.
void write_subnormal(const Problem& problem, uint64_t seed, const Tensors& tensors);

/// Makes the golden of the fill "subnormal", on as few rows as that of "wide". `device` may be
/// null.
std::unique_ptr<Golden> subnormal_golden(const Problem& problem, const Tensors& tensors,
                                         const GoldenDevice* device = nullptr);

}  // namespace attest::core
