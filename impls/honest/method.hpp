// A method: in which order and in which arithmetic a kernel of this folder computes, and what it
// declares of that.
#pragma once
#include "attest.h"
#include "honest/inner.hpp"

namespace honest {

constexpr Arithmetic kFloat{ATTEST_F32, ATTEST_F32, ATTEST_F32, ATTEST_F32, ATTEST_F32, 0, 0};

struct Method {
  const char *name, *summary;
  Arithmetic computes = kFloat, declares = kFloat;
  int64_t tile = 0;  // keys of a tile of the online softmax; 0: the whole row at once; kAnyTile: by
                     // the problem's sizes; kQuarter: a quarter of the keys
  bool reversed = false;  // the last key comes first
  int64_t splits = 1;  // parts of the keys that are attended to apart, then merged: by their lse,
                       // if that is declared
  bool folds_scale = false;         // Q is scaled before it is rounded to the operand
  int32_t normaliser = ATTEST_F32;  // what the normaliser is kept in between tiles, where that is
                                    // less than the accumulator
  bool cuts_normaliser = false;     // it is cut to that, and only before it divides
  bool rounds_q = true,
       rounds_k = true;       // of linear attention: phi of Q, phi of K are rounded to the operand
  bool weighs_pairs = false;  // of linear attention: ATTEST_WEIGHS_PAIRS
};
constexpr int64_t kAnyTile = -1, kQuarter = -2;

/// The method of a kernel that computes in `arithmetic` and declares it.
constexpr Method honest_method(const char* name, const char* summary, Arithmetic arithmetic,
                               int64_t tile) {
  Method method{name, summary};
  method.computes = method.declares = arithmetic;
  method.tile = tile;
  return method;
}

inline void declare_softmax(const Arithmetic& arithmetic, attest_support& support) {
  support.stage[ATTEST_SOFTMAX_QK].dtype = arithmetic.qk;
  support.stage[ATTEST_SOFTMAX_PV].dtype = arithmetic.pv;
  support.stage[ATTEST_SOFTMAX_SCORE].dtype = arithmetic.score;
  support.stage[ATTEST_SOFTMAX_PROBABILITY] = {arithmetic.probability, arithmetic.exp_error};
  support.stage[ATTEST_SOFTMAX_ACCUMULATOR].dtype = arithmetic.accumulator;
  support.arithmetic = arithmetic.ways;
}

/// Linear attention's phi is the operand of QK here, and its state that of PV.
inline void declare_linear(const Arithmetic& arithmetic, attest_support& support) {
  support.stage[ATTEST_LINEAR_FEATURES] = {arithmetic.qk, arithmetic.exp_error};
  support.stage[ATTEST_LINEAR_STATE].dtype = arithmetic.pv;
  support.stage[ATTEST_LINEAR_ACCUMULATOR].dtype = arithmetic.accumulator;
  support.arithmetic = arithmetic.ways;
}

/// Hands out the workspace piece by piece; with no memory it counts the bytes.
class Arena {
 public:
  explicit Arena(void* memory) : memory_(static_cast<char*>(memory)) {}
  float* take(int64_t count) {
    float* piece = memory_ ? reinterpret_cast<float*>(memory_ + bytes_) : nullptr;
    bytes_ += static_cast<size_t>(round_up(count * static_cast<int64_t>(sizeof(float)), 64));
    return piece;
  }
  size_t bytes() const { return bytes_; }

 private:
  char* memory_;
  size_t bytes_ = 0;
};

}  // namespace honest
