// The fill "wide" has rows whose scores spread over hundreds and thousands.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/operations/operation.hpp"

namespace attest::core {

inline constexpr std::string_view kWideName = "wide";
inline constexpr uint64_t kWideStream = 0x77696465;

/// Turns the fill "random", made with a seed of the stream kWideStream, into the fill "wide". Four
/// kinds of rows take turns. In the first kind, scores climb from -22,000 to 22,000 over the keys,
/// or they fall. In the second, their standard deviation is 1,000. In the third they spread by 100
/// around -600, so that all are negative, and in the fourth by 100 around 0. Beside a softcap, the
/// four kinds reach up to a few times the softcap: there tanh is nearly 1, but not 1.
///
/// f16 holds these scores, and it holds them times log2(e).
///
/// A BIAS of pairs in a dtype that holds more than f16 gets two kinds of rows, each one in 16 (in
/// 8, of fewer than 32 rows). All biases of the first are -131,072 and -132,096 in turn, which
/// float32 adds to scores well enough. All biases of the second are -1e8, beside which float32
/// loses the scores: such a row only has to be an average. So channel 0 of V is from 1 to 1.0625
/// then, and a row that a kernel takes for hidden is no average.
void write_wide(const Problem& problem, uint64_t seed, const Tensors& tensors);

/// Makes the golden of the fill "wide". It judges fewer rows than that of "random", because a few
/// rows show each kind. `device` may be null.
std::unique_ptr<Golden> wide_golden(const Problem& problem, const Tensors& tensors,
                                    const GoldenDevice* device = nullptr);

}  // namespace attest::core
