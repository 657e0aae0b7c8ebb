// From a sweep or an image to the rows of Q, K and V: sources of tokens, their features, and the
// projection.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/inputs/voxels.hpp"

namespace attest::core {

/// Where a case's tokens come from. As text, with keys in any order but `file` last; keys that are
/// left out have their defaults:
///   lidar:voxel_size=0.05,curve=z,stage=0,first=32768,file=sweep.pcd
///   image:width=224,height=224,patch=16,class_token=1,file=street.jpg
struct TokenSource {
  enum class Kind { kLidar, kImage };
  Kind kind = Kind::kLidar;
  std::filesystem::path file;  ///< empty: the built-in sweep or picture

  double voxel_size = 0.05;  ///< metres at stage 0
  Curve curve = Curve::kZ;
  int stage = 0;      ///< number of poolings by 2 (voxels.hpp)
  int64_t first = 0;  ///< keep the first tokens along the curve, at most this many; 0: all

  int width = 224, height = 224;  ///< pixels to which the image is resized
  int patch = 16;                 ///< edge of a patch in pixels, divides width and height
  bool class_token = false;       ///< adds a token, stored first
};

/// Throws Error: an unknown kind or key, a value out of range, a key given twice.
TokenSource parse_token_source(std::string_view text);
/// All keys of the kind; the file without its folder. Otherwise the inverse of parse_token_source.
std::string print(const TokenSource& source);

/// Tokens in storage order: a sweep's voxels in the order in which the sweep first enters them, an
/// image's patches row by row.
struct Tokens {
  int64_t count = 0, feature_dim = 0;
  std::vector<float> features;  ///< [count, feature_dim], each channel of mean 0 and variance 1
                                ///< over the tokens (constant channels: 0)
  std::vector<int32_t> order;   ///< [count] the storage row at place i along the curve; images: i
  std::vector<std::array<float, 2>> positions;  ///< [count] x and y, metres; images: empty
  std::string source;      ///< a line for the record: file without its folder, points, voxels
  uint64_t file_hash = 0;  ///< of the file's bytes, or of the built-in points or pixels
};

/// Reads the file, makes voxels or patches, and orders them. Throws Error as read_points, voxelise
/// and read_image do.
Tokens load_tokens(const TokenSource& source);

/// Projects rows of Q, K or V, [heads, rows, dim]: out[h][i][d] = features of token rows[i] times a
/// seeded normal matrix [feature_dim, heads * dim], scaled so that an output channel has variance
/// about 1. `centre` subtracts each channel's mean over `rows` (for V; the tolerance needs it).
/// With `shared_seed` the matrix is 0.8 of that seed's plus 0.6 of its own. If Q and K of a head
/// have the same shared_seed and different seeds, tokens of similar features, such as neighbours,
/// attend to each other: after 1 / sqrt(dim) the self score is 0.64 sqrt(dim), and other scores
/// have a standard deviation of 1 to 2. The bytes are the same on every machine and with any number
/// of threads. Throws Error: a row not in [0, tokens.count), an empty shape, or `out` of another
/// size.
void project_tokens(const Tokens& tokens, std::span<const int32_t> rows, uint64_t seed,
                    int64_t heads, int64_t dim, bool centre, std::span<float> out,
                    std::optional<uint64_t> shared_seed = std::nullopt);

}  // namespace attest::core
