// all_of_softmax.hpp: what a plugin of planted bugs declares that takes nearly all of softmax.
#pragma once
#include <cstdint>

#include "attest.h"

namespace mutants {

inline constexpr uint64_t kFloats =
    ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16);

/// All features of softmax but block masks, global tokens, top-k, 8 bits and mixed dtypes.
inline constexpr uint64_t kSoftmaxFeatures =
    ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW |
    ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP | ATTEST_WITH_BIAS | ATTEST_WITH_MASK |
    ATTEST_WITH_LSE | ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS | ATTEST_WITH_PAGES |
    ATTEST_WITH_ORDER | ATTEST_WITH_PATCHES | ATTEST_WITH_GRID | ATTEST_WITH_REL_BIAS |
    ATTEST_WITH_ALIBI | ATTEST_WITH_SINKS | ATTEST_WITH_STRIDES | ATTEST_WITH_UNALIGNED;

}  // namespace mutants
