// What vectors of attention in image windows have in common: q, k and v of all heads in one tensor.
#pragma once
#include <vector>

#include "core/cases/upstream/upstream_case.hpp"

namespace attest::core {

/// [outer, tokens, q|k|v, head, channel].
struct PackedQkv {
  const FileTensor* qkv = nullptr;
  int64_t outer = 0, tokens = 0, heads = 0, channels = 0;
};

/// Heads as the parameter `heads` says. Throws Error where that does not fit.
PackedQkv packed_qkv(UpstreamCase& from, const FileTensor& qkv, int64_t outer, int64_t tokens);
/// Q, K or V (part 0, 1, 2): [outer, heads, tokens, channels].
Tensor part_of(const PackedQkv& x, int64_t part);
/// The only output, stored like q alone.
Tensor output_of(const PackedQkv& x, const FileTensor& y);

/// [sets, heads, set_size, channels] of tokens, set after set, as `tokens` lists them (-1: none,
/// and `none` in its place). A token is `width` numbers of the file; the channels of all heads
/// begin at number `first`.
FileTensor& gather_sets(VectorCase& vector, const char* name, const PackedQkv& x,
                        const FileTensor& file, int64_t width, int64_t first,
                        const std::vector<int64_t>& tokens, int64_t set_size, double none);

/// A parameter that is pixels of one side.
int64_t pixels(JsonFields& params, const char* key, int64_t least);
inline constexpr int64_t kLongestSide = 4096;

}  // namespace attest::core
