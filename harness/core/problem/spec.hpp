// The one-line spec of a problem: what people paste, seeds hang on and records carry. print and
// parse are inverses.
//
//   softmax dtype=f16 num_heads=12 seq_len_q=197 head_dim=64 window_right=0 lse mask=[1,1,1,197]
//   q.order=0213
//
// The operation, then words in any order, each at most once:
//   dtype=f16                 of all tensors that have none of their own; absent: f32
//   <field>=<number>          a parameter of the operation, by its name in attest.h; absent: what
//   follows from the others <tensor>                  an optional tensor is there, e.g. lse, order
//   <tensor>=bf16[1,1,1,197]  its dtype, its dims, or both, where they are not the usual ones (a
//   dim of 1 broadcasts) <tensor>.order=0213       its dims as they lie in memory, outermost first
//   <tensor>.strides=[...]    in elements, for any other layout
//   unaligned                 tensors are aligned to their element only
//   causal, causal=bottom_right  short for window_right=0, and diagonal=1; print writes the fields
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

inline constexpr size_t kLongestSpec = 16384;  // characters

/// The line of a problem that finish_problem or parse_problem made. Says nothing that follows by
/// itself, so that equal problems have equal lines.
std::string print_problem(const Problem& problem);
/// The problem of a line. Throws Error: which word or field, what would be right.
Problem parse_problem(std::string_view line);

/// Every word that a line of this operation may have, without its value: for hints and completion.
std::vector<std::string> spec_words(const Operation& operation);
/// The operation of that name. Throws Error naming the others.
const Operation& operation_of(std::string_view name);

}  // namespace attest::core
