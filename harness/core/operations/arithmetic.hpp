// Arithmetic: in which dtypes an implementation computes, stage by stage.
//
// An operation lists its stages (Operation::stages) and the ways of computing that are its own
// (Operation::ways). What implementations declare of them is read by declaration.hpp.
#pragma once
#include <array>
#include <cstdint>

#include "core/tensor/dtype.hpp"

namespace attest::core {

/// A stage of an operation: one of the places where an implementation may round its numbers.
struct ArithmeticStage {
  int32_t index;              // in attest_support.stage: ATTEST_SOFTMAX_QK ...
  const char* name;           // the word of --min-arithmetic and of records: "qk"
  bool has_function = false;  // it computes exp, and rel_error may be declared of it
  const char* alias = "";     // another operation's word for a stage of this kind; "": none
};

/// A bit of attest_support.arithmetic and its word in records: "truncated".
struct ArithmeticWay {
  uint32_t bit;
  const char* name;
};

/// What attest_support declares, with its neutral zeros resolved.
struct Arithmetic {
  struct AtStage {
    DType dtype = ATTEST_F32;
    double rel_error = 0;

    bool operator==(const AtStage&) const = default;
  };
  std::array<AtStage, ATTEST_STAGES> stage{};  // by ArithmeticStage::index
  DType output = ATTEST_F32;                   // of O
  uint32_t ways = 0;                           // attest_support.arithmetic
  int64_t sum_chain = 0;                       // 0: as long as the sum itself

  bool operator==(const Arithmetic&) const = default;
  bool has(uint32_t way) const { return (ways & way) != 0; }
};

}  // namespace attest::core
