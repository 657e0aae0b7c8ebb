// Rows whose scores spread over hundreds and thousands: the fill "wide".
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/operations/operation.hpp"

namespace attest::core {

inline constexpr std::string_view kWideName = "wide";
inline constexpr uint64_t kWideStream = 0x77696465;

/// Makes the fill "wide" of inputs that are "random", with a seed of the stream kWideStream. Rows
/// are of four kinds in turn. Scores climb from -22,000 to 22,000, or fall; have standard deviation
/// 1,000; spread by 100 around -600, so that all are negative; or spread by 100 around 0. With a
/// softcap, scores spread by three times the softcap: there tanh is nearly 1, but not 1.
///
/// f16 holds such scores, times log2(e) too.
void write_wide(const Problem& problem, uint64_t seed, const Tensors& tensors);

/// Its golden, on fewer rows: each kind shows in a few. `device` may be null.
std::unique_ptr<Golden> wide_golden(const Problem& problem, const Tensors& tensors,
                                    const GoldenDevice* device = nullptr);

}  // namespace attest::core
