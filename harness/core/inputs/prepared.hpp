// The inputs of one problem under one fill, in shared memory. Made once, used by every
// implementation.
#pragma once
#include <string>

#include "core/inputs/tokens.hpp"
#include "core/isolation/buffers.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

/// The fill whose Q, K, V (and ORDER) come from tokens.
inline constexpr std::string_view kTokensFill = "tokens";
/// The fill of inputs that others made.
inline constexpr std::string_view kGivenFill = "given";

/// The seed of a problem's inputs: its spec line, hashed.
uint64_t spec_seed(std::string_view spec_line);

class PreparedInputs {
 public:
  /// `tokens` may be null; with fill "tokens" it must not be. Every role whose content is tokens is
  /// projected from them; ORDER is theirs under every fill. Throws Error: too few tokens, a shape
  /// that tokens cannot have, out of memory.
  PreparedInputs(const Problem& problem, const Fill& fill, const Tokens* tokens,
                 Side side = Side::kEnd);
  /// Copies `given`: a tensor for every input of the problem, with its dims; layout and dtype may
  /// be others. Throws Error: one that is missing or has other dims.
  PreparedInputs(const Problem& problem, const Tensors& given);

  /// Those of `original` with some rows of its floating-point tensors changed, one in 64 of each
  /// and one at least: rows that `seed` picks become other rows of the same tensor, turned by some
  /// channels. The fill's golden must not be a closed form.
  PreparedInputs(const PreparedInputs& original, uint64_t seed);

  const Problem& problem() const { return problem_; }
  const Fill& fill() const { return fill_; }
  const SharedTensors& shared() const { return shared_; }
  /// Of all inputs, role by role.
  const std::string& hash() const { return hash_; }
  /// Whether the inputs still are what they were made as.
  bool unchanged() const;

 private:
  std::string hash_inputs() const;

  const Problem& problem_;
  Fill fill_;
  SharedTensors shared_;
  std::string hash_;
};

}  // namespace attest::core
