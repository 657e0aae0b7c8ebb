// The spec line: a problem as one line of text. People paste it, records store it, and seeds are
// computed from it. print and parse are inverses.
//
//   softmax dtype=f16 num_heads=12 seq_len_q=197 head_dim=64 window_right=0 lse mask=[1,1,1,197]
//   q.order=0213
//
// A line is the operation, then words in any order, each at most once:
//
//   dtype=f16                 the dtype of all tensors without their own; default f32
//   <field>=<number>          a parameter by its name in attest.h; default: from the others;
//                             seq_len_q=4k: k is 1,024, m is 1,048,576
//   <tensor>                  an optional tensor is present: lse, order ...
//   <tensor>=bf16[1,1,1,197]  its dtype, its dims, or both, if unusual; a dim of 1 broadcasts
//   <tensor>.order=0213       the layout in memory: dims, outermost first
//   <tensor>.strides=[...]    any other layout, in elements
//   unaligned                 tensors are aligned to their elements only
//   causal                    short for window_right=0; print writes the field
//   causal=bottom_right       short for window_right=0 diagonal=1; print writes the fields
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

inline constexpr size_t kLongestSpec = 16384;  // characters

/// The spec line of a problem that finish_problem or parse_problem made. Words that follow from
/// others are left out, so equal problems have equal lines.
std::string print_problem(const Problem& problem);
/// The problem of a spec line. Throws Error that names the word or field and says what would be
/// right.
Problem parse_problem(std::string_view line);
/// The spec line with the word dtype= once for each of `dtypes`; the line alone if there are none.
/// Throws Error that names the option --dtype if there are some and the line has a dtype too.
std::vector<std::string> lines_in_dtypes(const std::string& line,
                                         const std::vector<std::string>& dtypes);

/// All words that a line of this operation may have, without their values; for hints.
std::vector<std::string> spec_words(const Operation& operation);
/// The operation with that name. Throws Error that lists all names.
const Operation& operation_of(std::string_view name);

}  // namespace attest::core
