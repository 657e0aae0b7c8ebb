// Rotary position embeddings: ONNX RotaryEmbedding, which the reference computes alone, and
// LightGlue's two-dimensional form before attention.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/assembly.hpp"

namespace attest::core {
namespace {

/// The channels that pair c turns, of `pairs`: neighbours, or one from each half.
std::pair<int64_t, int64_t> channels_of(int64_t pair, int64_t pairs, bool interleaved) {
  if (interleaved) return {2 * pair, 2 * pair + 1};
  return {pair, pair + pairs};
}

/// Row of a cos or sin cache: by position, or one for every token.
class Cache {
 public:
  Cache(const OnnxCase& from, size_t place, const char* name, const FileTensor* positions,
        int64_t batch, int64_t tokens, int64_t pairs)
      : file_(usable(from.needed(place, name), "the vector")),
        positions_(positions),
        pairs_(pairs) {
    if (!positions) {
      expect_dims(file_, {batch, tokens, pairs}, name);
    } else {
      expect_dims(file_, {-1, pairs}, name);
      expect_dims(*positions, {batch, tokens}, "position_ids");
    }
  }
  double at(int64_t token, int64_t pair) const {
    const double row = positions_ ? positions_->at(token) : double(token);
    const int64_t rows = file_.count() / pairs_;
    if (!(row >= 0 && row < double(rows)))
      throw Error(fmt::format("position_ids: {} lies outside of the cache", row));
    return file_.at(int64_t(row) * pairs_ + pair);
  }

 private:
  const FileTensor& file_;
  const FileTensor* positions_;
  int64_t pairs_;
};

}  // namespace

void map_rotary_embedding(const OnnxCase& from, TestVector& vector) {
  from.know({"interleaved", "num_heads", "rotary_embedding_dim"}, 4, 1);
  const FileTensor& x = usable(from.needed(0, "X"), "the vector");
  const int64_t heads_given = from.whole("num_heads", 0),
                rotary = from.whole("rotary_embedding_dim", 0);
  const bool flat = x.dims.size() == 3;
  if (x.dims.size() != 4 && !flat)
    throw Error(fmt::format("X: {} dims where 3 or 4 are right", x.dims.size()));
  const int64_t heads = flat ? heads_given : x.dims[1], tokens = flat ? x.dims[1] : x.dims[2];
  if (heads < 1 || (flat && x.dims[2] % heads != 0))
    throw Error(fmt::format("num_heads: {} does not divide X {}", heads, print_dims(x.dims)));
  const int64_t dim = flat ? x.dims[2] / heads : x.dims[3], turned = rotary > 0 ? rotary : dim,
                pairs = turned / 2;
  if (turned > dim || turned % 2 != 0)
    throw Error(fmt::format("rotary_embedding_dim: {} where an even number up to {} is right",
                            turned, dim));
  const bool interleaved = from.whole("interleaved", 0) != 0;
  const FileTensor* positions = from.input(3);
  const Cache cosine(from, 1, "cos_cache", positions, x.dims[0], tokens, pairs),
      sine(from, 2, "sin_cache", positions, x.dims[0], tokens, pairs);
  std::vector<double> y(static_cast<size_t>(x.count()));
  for (int64_t i = 0; i < x.count(); ++i) y[size_t(i)] = x.at(i);
  for (int64_t row = 0; row < x.count() / std::max<int64_t>(dim, 1); ++row) {
    // Rows of [batch, heads, tokens] or of [batch, tokens, heads].
    const int64_t b = row / (heads * tokens),
                  token = b * tokens + (flat ? row / heads % tokens : row % tokens);
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const auto [first, second] = channels_of(pair, pairs, interleaved);
      const double x1 = x.at(row * dim + first), x2 = x.at(row * dim + second),
                   c = cosine.at(token, pair), s = sine.at(token, pair);
      y[size_t(row * dim + first)] = c * x1 - s * x2;
      y[size_t(row * dim + second)] = s * x1 + c * x2;
    }
  }
  vector.operation = "rotary_embedding";
  vector.dtype = dtype_name(x.dtype);
  if (const FileTensor* expected = from.output(0))
    expect_values(vector, from.node.outputs[0], *expected, std::move(y));
}

FileTensor& rotate_by_points(TestVector& vector, const FileTensor& x, const FileTensor& points,
                             const FileTensor& frequencies) {
  expect_dims(x, {-1, -1, -1, -1}, "Q or K");
  const int64_t tokens = x.dims[2], dim = x.dims[3], pairs = dim / 2;
  expect_dims(points, {x.dims[0], tokens, 2}, "keypoints");
  expect_dims(frequencies, {pairs, 2}, "Wr");
  if (dim != 2 * pairs)
    throw Error(
        fmt::format("{}: an odd number of channels cannot be turned in pairs", in_quotes(x.name)));
  FileTensor& turned = make_file(vector, x.name, ATTEST_F64, x.dims);
  for (int64_t row = 0; row < x.dims[0] * x.dims[1] * tokens; ++row) {
    const int64_t token = row / (x.dims[1] * tokens) * tokens + row % tokens;
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const double angle = frequencies.at(2 * pair) * points.at(2 * token) +
                           frequencies.at(2 * pair + 1) * points.at(2 * token + 1);
      const auto [first, second] = channels_of(pair, pairs, true);
      const double x1 = x.at(row * dim + first), x2 = x.at(row * dim + second), c = std::cos(angle),
                   s = std::sin(angle);
      store(turned.bytes.data(), ATTEST_F64, row * dim + first, c * x1 - s * x2);
      store(turned.bytes.data(), ATTEST_F64, row * dim + second, s * x1 + c * x2);
    }
  }
  return turned;
}

}  // namespace attest::core
