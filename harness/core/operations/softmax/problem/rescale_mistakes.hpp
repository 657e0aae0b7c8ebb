// Mistakes of an online softmax that forgets to rescale what it has summed so far.
#pragma once
#include <vector>

#include "core/operations/mistake.hpp"

namespace attest::core {

/// Adds mistakes of tiles of 16 to 256 keys: of the second tile, one in the middle, the last whole
/// one and a short last one, and of all tiles. Where the maximum of a row rises there, the sum of
/// values, the normaliser or both keep the weights of earlier keys as they were. The keys of every
/// sequence must be those of K, in their order. Adds none if there are sinks, a bias, 8 bits or
/// top_k, nor if that would take more than some 40 MB.
void add_rescale_mistakes(std::vector<Mistake>& mistakes, const Problem& problem,
                          const Tensors& inputs);

}  // namespace attest::core
