// Vectors that have q, k and v of all heads in one tensor, as attention in windows and sets has.
#pragma once
#include <vector>

#include "core/vectors/upstream/upstream_case.hpp"

namespace attest::core {

/// [outer, tokens, q|k|v, head, channel].
struct PackedQkv {
  const FileTensor* qkv = nullptr;
  int64_t outer = 0, tokens = 0, heads = 0, channels = 0;
};

/// Splits `qkv` by the parameter `heads`. Throws Error if the sizes do not match.
PackedQkv packed_qkv(UpstreamCase& from, const FileTensor& qkv, int64_t outer, int64_t tokens);
/// Q, K or V (part 0, 1, 2): [outer, heads, tokens, channels].
Tensor part_of(const PackedQkv& x, int64_t part);
/// A view of the only output, which is stored like q alone.
Tensor output_of(const PackedQkv& x, const FileTensor& y);

/// A new tensor [sets, heads, set_size, channels] with the tokens that `tokens` lists, set after
/// set. -1 stands for no token; its elements are `none`. A token has `width` numbers in the file;
/// the channels of all heads begin at number `first`.
FileTensor& gather_sets(TestVector& vector, const char* name, const PackedQkv& x,
                        const FileTensor& file, int64_t width, int64_t first,
                        const std::vector<int64_t>& tokens, int64_t set_size, double none);

/// A parameter that is the length of a side in pixels, at least `least`. Throws Error.
int64_t pixels(JsonFields& params, const char* key, int64_t least);
inline constexpr int64_t kLongestSide = 4096;

}  // namespace attest::core
