// The inputs of one problem with one fill, in shared memory. They are made once and used by every
// implementation.
#pragma once
#include <span>
#include <string>

#include "core/inputs/tokens.hpp"
#include "core/isolation/memory/buffers.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

/// The fill whose Q, K, V (and ORDER) come from tokens.
inline constexpr std::string_view kTokensFill = "tokens";
/// The fill name of inputs that a vector gives.
inline constexpr std::string_view kGivenFill = "given";

/// The seed of a problem's inputs: its spec line, hashed.
uint64_t spec_seed(std::string_view spec_line);

class PreparedInputs {
 public:
  /// `tokens` may be null, except for the fill "tokens", which projects Q, K and V from them. With
  /// tokens, every fill takes ORDER from them. Throws Error: too few tokens, a shape that tokens
  /// cannot have, out of memory.
  PreparedInputs(const Problem& problem, const Fill& fill, const Tokens* tokens,
                 Side side = Side::kEnd);
  /// Copies `given`, which must have a tensor with the right dims for every input of the problem;
  /// layout and dtype may differ. Throws Error: a tensor is missing or has other dims.
  PreparedInputs(const Problem& problem, const Tensors& given);

  /// A copy of `original` in which some rows of the floating-point tensors are changed: one in 64
  /// of each tensor, at least one. `seed` picks the rows; they become other rows of the same
  /// tensor, rotated by some channels. Inputs that follow from others are those of the changed
  /// ones. The golden of the fill must not be a closed form.
  PreparedInputs(const PreparedInputs& original, uint64_t seed);

  /// Copies `original`, except that the tensors of these roles get the contents of `other`. Both
  /// have the same problem. Inputs that follow from others are those of the changed ones. Neither
  /// of the goldens may be a closed form.
  PreparedInputs(const PreparedInputs& original, const PreparedInputs& other,
                 std::span<const int32_t> roles);

  const Problem& problem() const { return problem_; }
  const Fill& fill() const { return fill_; }
  const SharedTensors& shared() const { return shared_; }
  /// The hash of all inputs, 16 hexadecimal digits.
  const std::string& hash() const { return hash_; }
  /// Whether the inputs still have that hash.
  bool unchanged() const;

 private:
  std::string hash_inputs() const;

  const Problem& problem_;
  Fill fill_;
  SharedTensors shared_;
  std::string hash_;
};

}  // namespace attest::core
