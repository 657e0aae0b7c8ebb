// Which tokens a sweep gave, as its results file shows them: a small picture from above.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace attest::core {

/// The tokens of a sweep from above, on a grid of square cells.
struct TokenPicture {
  std::string inputs;      // Record::inputs of the records with these tokens
  int64_t tokens = 0;      // how many there are
  double cell_metres = 0;  // edge of a cell
  /// Lines of cells, x to the right, from the largest y down. Two characters a cell: "  " if it has
  /// no token, otherwise in base 36 where its first token lies along the curve: 0 to 1295 for the
  /// first to the last token.
  std::vector<std::string> cells;

  static constexpr int64_t kPlaces = 36 * 36;
};

nlohmann::json to_json(const TokenPicture& picture);
/// Throws Error: a key is missing or of the wrong type.
TokenPicture token_picture_from_json(const nlohmann::json& line);

}  // namespace attest::core
