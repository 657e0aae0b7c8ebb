// From a sweep or an image to the rows of Q, K and V: where tokens come from, what each one's
// features are, their projection.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/inputs/voxels.hpp"

namespace attest::core {

/// Where a case's tokens come from. In text, keys in any order, `file` last, absent ones at their
/// defaults:
///   lidar:voxel_size=0.05,curve=z,stage=0,first=32768,file=sweep.pcd
///   image:width=224,height=224,patch=16,class_token=1,file=street.jpg
struct TokenSource {
  enum class Kind { kLidar, kImage };
  Kind kind = Kind::kLidar;
  std::filesystem::path file;  ///< empty: the embedded sweep or picture

  double voxel_size = 0.05;  ///< metres at stage 0
  Curve curve = Curve::kZ;
  int stage = 0;  ///< poolings by 2 (voxels.hpp)
  // /< keep only so many tokens, the first along the curve; 0, or more than there are: all
  int64_t first = 0;

  int width = 224, height = 224;  ///< pixels to which the image is resized
  int patch = 16;                 ///< edge of a patch in pixels, divides width and height
  bool class_token = false;       ///< one more token, stored first
};

/// Error, one line: unknown kind or key, a value out of range, a key given twice.
TokenSource parse_token_source(std::string_view text);
/// All keys of the kind, of the file its last name only. parse and print are inverses but for the
/// file's folder.
std::string print(const TokenSource& source);

/// Tokens in storage order: the order in which a sweep first enters the voxels, or an image's
/// patches by rows.
struct Tokens {
  int64_t count = 0, feature_dim = 0;
  std::vector<float> features;  ///< [count, feature_dim], each channel of mean 0 and variance 1
                                ///< over the tokens (constant: 0)
  std::vector<int32_t>
      order;  ///< [count] the storage row that stands at place i along the curve; images: i
  std::string source;      ///< one line for the record: file without its folder, points, voxels
  uint64_t file_hash = 0;  ///< of the file's bytes, or of the embedded points or pixels
};

/// Reads, voxelises or cuts, orders. Errors of parse_token_source, read_points, voxelise,
/// read_image.
Tokens load_tokens(const TokenSource& source);

/// Rows of Q, K or V: out[h][i][d] = features of token rows[i] times a seeded normal matrix
/// [feature_dim, heads * dim], scaled so that an output channel has variance about 1. `centre`
/// subtracts each channel's mean over `rows` (V; the tolerance needs it). With `shared_seed` the
/// matrix is 0.8 of that seed's and 0.6 of its own: give Q and K of a head the same shared_seed and
/// different seeds, and tokens of like features, such as neighbours, attend to each other (self
/// score 0.64 sqrt(dim), others of standard deviation 1 to 2 after 1 / sqrt(dim)). The same bytes
/// on every machine and with any number of threads. Error: a row not in [0, tokens.count), an empty
/// shape, `out` not of heads * rows * dim values.
void project_tokens(const Tokens& tokens, std::span<const int32_t> rows, uint64_t seed,
                    int64_t heads, int64_t dim, bool centre, std::span<float> out,
                    std::optional<uint64_t> shared_seed = std::nullopt);

}  // namespace attest::core
