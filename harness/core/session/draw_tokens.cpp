#include "core/session/draw_tokens.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace attest::core {
namespace {

// Between which coordinates along an axis all tokens lie but the outermost 2 % at either end: a few
// points far away would leave little room for the others.
std::pair<double, double> middle(const Tokens& tokens, size_t axis) {
  std::vector<float> all;
  for (const std::array<float, 2>& position : tokens.positions) all.push_back(position[axis]);
  std::ranges::sort(all);
  const size_t outer = all.size() / 50;
  return {all[outer], all[all.size() - 1 - outer]};
}

char digit(int64_t value) { return char(value < 10 ? '0' + value : 'a' + value - 10); }

}  // namespace

std::optional<TokenPicture> draw_tokens(const std::string& inputs, const Tokens& tokens) {
  if (tokens.positions.empty()) return {};
  const auto [left, right] = middle(tokens, 0);
  const auto [low, high] = middle(tokens, 1);
  const double edge = std::max({right - left, high - low, 1e-6}) / kTokenCells;
  const auto cells_over = [&](double length) {
    return std::clamp<size_t>(size_t(std::ceil(length / edge)), 1, kTokenCells);
  };
  const size_t lines = cells_over(high - low), columns = cells_over(right - left);
  TokenPicture picture{.inputs = inputs,
                       .tokens = tokens.count,
                       .cell_metres = edge,
                       .cells = std::vector<std::string>(lines, std::string(2 * columns, ' '))};
  // Nothing: the cell would lie outside.
  const auto cell = [&](double from_edge, double length, size_t cells) -> std::optional<size_t> {
    if (from_edge < 0 || from_edge > length) return {};
    return std::min(size_t(from_edge / edge), cells - 1);
  };
  for (int64_t place = 0; place < tokens.count; ++place) {
    const auto& [x, y] = tokens.positions[size_t(tokens.order[size_t(place)])];
    const std::optional<size_t> line = cell(high - y, high - low, lines),
                                column = cell(x - left, right - left, columns);
    if (!line || !column) continue;
    char* const at = &picture.cells[*line][2 * *column];
    if (*at != ' ') continue;  // only the first token of a cell is shown
    const int64_t shown = place * TokenPicture::kPlaces / tokens.count;
    at[0] = digit(shown / 36);
    at[1] = digit(shown % 36);
  }
  return picture;
}

}  // namespace attest::core
