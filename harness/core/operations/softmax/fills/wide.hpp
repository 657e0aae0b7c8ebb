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
/// around -600, so that all are negative, and in the fourth by 100 around 0. f16 holds these
/// scores, and it holds them times log2(e). In two rounds of four, 120,000 takes the place of
/// 22,000, and -120,000 that of -600: kernels that declare f16 scores are not judged on these rows.
/// Beside a softcap, the four kinds reach up to a few times the softcap: there tanh is nearly 1,
/// but not 1.
///
/// If BIAS has a number for each pair, in a dtype that holds more than f16 does, two kinds of its
/// rows change. Each kind is one row in 16, or one in 8 if there are fewer than 32 rows. In the
/// first kind, the biases are -262,144 and -264,192 in turn. In float32, a score that is added to
/// such a bias keeps enough bits to be judged. In the second kind, all biases are -1e8. In float32,
/// a score that is added to -1e8 is rounded away. The judge therefore accepts any average of values
/// for such a row. A kernel that takes the row for hidden gives 0. Channel 0 of V lies between 1
/// and 1.0625 there, so 0 is no average of it.
void write_wide(const Problem& problem, uint64_t seed, const Tensors& tensors);

/// Makes the golden of the fill "wide". It judges fewer rows than that of "random", because a few
/// rows show each kind. `device` may be null.
std::unique_ptr<Golden> wide_golden(const Problem& problem, const Tensors& tensors,
                                    const GoldenDevice* device = nullptr);

}  // namespace attest::core
