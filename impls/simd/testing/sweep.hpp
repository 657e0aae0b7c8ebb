// For kernels_test: random problems of an implementation, judged on every instruction set that this
// machine has.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>

#include "simd/testing/trial.hpp"

namespace trial {

struct Random {
  std::mt19937_64 engine;
  int64_t upto(int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(n)) + 1; }
  bool chance(int percent) { return static_cast<int>(engine() % 100) < percent; }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return *(choices.begin() + upto(static_cast<int64_t>(choices.size())) - 1);
  }
};

int64_t any_head_dim(Random& random);
/// Sizes, heads, scale and threads of a softmax problem, and sometimes a softcap.
void set_heads(Trial& trial, Random& random);
void set_band(Trial& trial, Random& random);
/// Makes the tensor of that role: cu_seqlens of sequences of 0 to `longest` tokens. Returns how
/// many tokens there are.
int64_t add_packing(Trial& trial, Random& random, int role, int64_t longest);
/// Makes ORDER for the rows of a dense problem; sequences may share it.
void add_order(Trial& trial, Random& random);
/// ATTEST_MASK or ATTEST_BIAS, once Q is there: broadcast dims, some pairs hidden.
void add_pair_tensor(Trial& trial, Random& random, int role);

/// Runs the body on each compiled instruction set that this machine has.
void on_each_target(const std::function<void(const char*)>& body);

/// Judges problems of seeds 1 to `seeds`; `where`: for messages.
void sweep_seeds(const char* name, const char* where, uint64_t seeds,
                 const std::function<Trial(uint64_t)>& make, double (*judge)(Trial&));

/// The same on the best instruction set, and on each of the others a third of the seeds.
void sweep(const char* name, uint64_t seeds, Trial (*make)(uint64_t), double (*judge)(Trial&));

}  // namespace trial
