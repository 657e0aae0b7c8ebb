// Random problems of every operation: any feature alone and with those that it goes with, sizes
// spread evenly over decades.
#pragma once
#include <cstdint>
#include <string>

#include "core/operations/operation.hpp"

namespace attest::core::testing {

struct ProblemLimits {
  int64_t least_tokens = 1,
          // Of seq_len_kv, drawn evenly over its logarithm; of seq_len_q likewise A bound is drawn
          // evenly over the logarithm, up to a twentieth of the most in 97 of 100; a problem is cut
          // down to it.
      most_tokens = 20'000;
  double least_flops = 1e5, most_flops = 2e9;
  int64_t most_pairs = 4'000'000;  // elements of BIAS and MASK
  std::string operation;           // this one alone; empty: any
  int top_k_percent = 6;           // of the problems of softmax and its gradients have top_k
  int f8_percent = 6;              // of them have Q, K and V in 8 bits
};

/// Problem `index` of the stream `seed`: the same one on every machine. It is complete and valid.
Problem random_problem(uint64_t seed, uint64_t index, const ProblemLimits& limits = {});

}  // namespace attest::core::testing
