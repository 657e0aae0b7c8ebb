// From tokens to the picture of them that a results file keeps.
#pragma once
#include <optional>
#include <string>

#include "core/inputs/tokens.hpp"
#include "core/record/token_picture.hpp"

namespace attest::core {

/// Draws the tokens of a sweep from above, with kTokenCells cells along the longer side of
/// where they lie, without the outermost 2 % at each end. `inputs`: Record::inputs of their
/// records. Nothing if the tokens have no positions: those of an image.
std::optional<TokenPicture> draw_tokens(const std::string& inputs, const Tokens& tokens);

inline constexpr int kTokenCells = 64;

}  // namespace attest::core
