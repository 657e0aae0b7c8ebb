// A guess at the bug behind a wrong output: the mistake for which the output would be right.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "core/operations/operation.hpp"

namespace attest::core {

/// Judges the main output by the golden of each Mistake of the operation. Names the first one for
/// which it passes: "it is as if softmax_scale were 1". If there is none, names the mistake that
/// explains the most rows, if it leaves few: "it is as if bias were left out, but for 2 of 122
/// rows". If every output that is wrong is a constant times what it should be, names the factors:
/// "it is as if dk were multiplied by 4 (1 / softmax_scale, which is sqrt(head_dim))". This is
/// tried for optional outputs too, if the main output is right. If there is none either, returns
/// "no known mistake gives this output". Returns nothing if all outputs are right, or optional ones
/// are wrong in another way. If the problem is too large to try mistakes, says so.
std::optional<std::string> guess_mistake(const Problem& problem, const Arithmetic& arithmetic,
                                         const Tensors& inputs, const Tensors& outputs);

/// Every guess that names a mistake begins with these words; one that names none does not.
inline constexpr std::string_view kAsIf = "it is as if ";

}  // namespace attest::core
