// What a spec line says of tensors, and the specifications that follow from it. Used by both print
// and parse, so that what one leaves out is what the other adds.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

/// The word of one tensor. A required tensor has one only where something is unusual.
struct TensorWord {
  DType dtype = ATTEST_NONE;                 // ATTEST_NONE: the role's, else the problem's
  std::optional<std::vector<int64_t>> dims;  // absent: as Operation::dims gives them
  std::vector<int> order;  // outermost first; empty: dense in the order of the dims, or `strides`
  std::vector<int64_t> strides;  // in elements; empty: dense
};
/// By role index.
using TensorWords = std::map<int32_t, TensorWord>;

/// Sets the specs of all required tensors and of those that have a word. `problem` has its
/// parameters completed and no tensors. While dims are asked for, tensors whose dims do not stand
/// in the line have rank 0. Throws Error.
void place_tensors(Problem& problem, const TensorWords& words);
/// The words that place_tensors turns into the tensors of `problem`, as few as possible.
TensorWords tensor_words(const Problem& problem);

/// Reads "f16", "[1,2]" or "f16[1,2]" into `word`; false: it is none of these.
bool parse_tensor(std::string_view value, TensorWord& word);
/// Reads "0213" or "[64,1]"; false: it is not.
bool parse_order(std::string_view value, TensorWord& word);
bool parse_strides(std::string_view value, TensorWord& word);
/// " bias=f32[1,1,197,197] bias.order=0213"; every word has a blank before it.
std::string print_tensor(const Role& role, const TensorWord& word);

}  // namespace attest::core
