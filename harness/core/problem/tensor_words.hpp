// The words of a spec line about tensors, and the tensor specifications that follow from them. Both
// print and parse use this, so that print leaves out exactly what parse adds.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

/// The word of one tensor. A required tensor has one only if it is unusual.
struct TensorWord {
  DType dtype = ATTEST_NONE;                 // ATTEST_NONE: the role's, else the problem's
  std::optional<std::vector<int64_t>> dims;  // absent: those of Operation::dims
  std::vector<int> order;  // outermost first; empty: dense in the order of the dims, or `strides`
  std::vector<int64_t> strides;  // in elements; empty: dense
};
/// From role index to word.
using TensorWords = std::map<int32_t, TensorWord>;

/// Sets the specs of all required tensors and of those that have a word. `problem` must have
/// complete parameters and no tensors. While Operation::dims is called, tensors without dims in the
/// line have rank 0. Throws Error.
void place_tensors(Problem& problem, const TensorWords& words);
/// The fewest words from which place_tensors makes the tensors of `problem`.
TensorWords tensor_words(const Problem& problem);

/// Reads "f16", "[1,2]" or "f16[1,2]" into `word`. Returns false for any other text.
bool parse_tensor(std::string_view value, TensorWord& word);
/// Reads "0213". Returns false for any other text.
bool parse_order(std::string_view value, TensorWord& word);
/// Reads "[64,1]". Returns false for any other text.
bool parse_strides(std::string_view value, TensorWord& word);
/// " bias=f32[1,1,197,197] bias.order=0213"; each word follows a blank.
std::string print_tensor(const Role& role, const TensorWord& word);

}  // namespace attest::core
