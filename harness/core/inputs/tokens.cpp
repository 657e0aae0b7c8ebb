#include "core/inputs/tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/inputs/features.hpp"
#include "core/inputs/formats/bytes.hpp"
#include "core/inputs/formats/image.hpp"
#include "core/inputs/scene.hpp"
#include "core/problem/quantities.hpp"
#include "core/tensor/tensor.hpp"

namespace attest::core {
namespace {

constexpr uint64_t kSceneSeed = 1;
constexpr std::string_view kLidarKeys = "voxel_size, curve, stage, first, file",
                           kImageKeys = "width, height, patch, class_token, file";

[[noreturn]] void fail(std::string_view key, const std::string& what) {
  throw Error(fmt::format("tokens: {}: {}", key, what));
}

template <class T>
T number_in(std::string_view text, std::string_view key, T low, T high) {
  const auto value = parse_number<T>(text);
  if (!value || !(*value >= low && *value <= high))
    fail(key, fmt::format("'{}' must be a number from {} to {}", shown(text), low, high));
  return *value;
}

void set_key(TokenSource& source, std::string_view key, std::string_view value) {
  const bool lidar = source.kind == TokenSource::Kind::kLidar;
  if (key == "file") {
    source.file = std::filesystem::path(value);
    if (source.file.filename().empty()) fail(key, fmt::format("'{}' names no file", shown(value)));
  } else if (lidar && key == "voxel_size") {
    source.voxel_size = number_in(value, key, 1e-6, 1e6);
  } else if (lidar && key == "curve") {
    const auto curve = curve_from_name(value);
    if (!curve)
      fail(key, fmt::format("'{}' must be z, z-trans, hilbert or hilbert-trans", shown(value)));
    source.curve = *curve;
  } else if (lidar && key == "stage") {
    source.stage = number_in(value, key, 0, kMostStages - 1);
  } else if (lidar && key == "first") {
    const auto first = parse_count(value, 0, INT32_MAX);
    if (!first)
      fail(key, fmt::format("'{}' must be {}, up to {}", shown(value), kCountWords, INT32_MAX));
    source.first = *first;
  } else if (!lidar && key == "width") {
    source.width = number_in(value, key, 1, kLargestImageSide);
  } else if (!lidar && key == "height") {
    source.height = number_in(value, key, 1, kLargestImageSide);
  } else if (!lidar && key == "patch") {
    source.patch = number_in(value, key, 1, 1024);
  } else if (!lidar && key == "class_token") {
    source.class_token = number_in(value, key, 0, 1) == 1;
  } else {
    fail(fmt::format("unknown key '{}'", shown(key)),
         fmt::format("{} takes {}", lidar ? "lidar" : "image", lidar ? kLidarKeys : kImageKeys));
  }
}

void check_patch(const TokenSource& source) {
  if (source.kind != TokenSource::Kind::kImage) return;
  for (const auto& [key, side] : {std::pair{"width", source.width}, {"height", source.height}})
    if (source.patch < 1 || side < source.patch || side % source.patch != 0)
      fail("patch",
           fmt::format("{} does not divide {} {}; {} would do", source.patch, key, side,
                       source.patch < 1 ? 1 : std::max(1, side / source.patch) * source.patch));
  if (int64_t{source.width} * source.height > kMostImagePixels)
    fail("width", fmt::format("{} x height {} is more than {} pixels", source.width, source.height,
                              kMostImagePixels));
}

std::string base_name(const std::filesystem::path& file) { return file.filename().string(); }

/// The voxels kept, in storage order, and the places of the curve in their new numbers.
void keep_first(std::vector<int32_t>& order, std::vector<int32_t>& rows, int64_t first) {
  if (first > 0 && first < int64_t(order.size())) order.resize(size_t(first));
  rows = order;
  std::sort(rows.begin(), rows.end());
  for (int32_t& voxel : order)
    voxel = int32_t(std::lower_bound(rows.begin(), rows.end(), voxel) - rows.begin());
}

uint64_t hash_points(const PointCloud& cloud) {
  uint64_t hash = 0;
  for (const auto* values : {&cloud.x, &cloud.y, &cloud.z, &cloud.intensity})
    hash = hash_bytes(values->data(), values->size() * sizeof(float), hash);
  return hash;
}

PointCloud read_cloud(const TokenSource& source, Tokens& tokens) {
  if (source.file.empty()) {
    PointCloud cloud = synthetic_sweep(kSceneSeed);
    tokens.file_hash = hash_points(cloud);
    tokens.source = "synthetic sweep";
    return cloud;
  }
  const std::vector<std::byte> bytes = read_bytes(source.file);
  tokens.file_hash = hash_bytes(bytes.data(), bytes.size());
  tokens.source = base_name(source.file);
  return parse_points(bytes, source.file);
}

Voxels voxelise_named(const PointCloud& cloud, const TokenSource& source,
                      const std::string& name) try {
  return voxelise(cloud, source.voxel_size, source.stage);
} catch (const Error& error) {
  throw Error(fmt::format("{}: {}", name, error.what()));
}

Tokens load_lidar(const TokenSource& source) {
  Tokens tokens;
  const PointCloud cloud = read_cloud(source, tokens);
  const Voxels voxels = voxelise_named(cloud, source, tokens.source);
  std::vector<int32_t> rows;
  tokens.order = curve_order(voxels, source.curve);
  keep_first(tokens.order, rows, source.first);
  tokens.count = int64_t(rows.size());
  tokens.feature_dim = kLidarFeatures;
  tokens.features = lidar_features(voxels, rows);
  for (const int32_t row : rows)
    tokens.positions.push_back(
        {voxels.positions[size_t(row)][0], voxels.positions[size_t(row)][1]});
  tokens.source += fmt::format(
      ": {} points{}, {} voxels of {:g} m", cloud.size(),
      cloud.dropped ? fmt::format(" ({} without coordinates dropped)", cloud.dropped) : "",
      voxels.size(), voxels.size_metres);
  if (rows.size() < voxels.size())
    tokens.source += fmt::format(", the first {} along {}", rows.size(), curve_name(source.curve));
  return tokens;
}

Image read_picture(const TokenSource& source, Tokens& tokens) {
  if (source.file.empty()) {
    Image image = synthetic_image(kSceneSeed, source.width, source.height);
    tokens.file_hash = hash_bytes(image.rgb.data(), image.rgb.size());
    tokens.source = "synthetic picture";
    return image;
  }
  const std::vector<std::byte> bytes = read_bytes(source.file);
  tokens.file_hash = hash_bytes(bytes.data(), bytes.size());
  tokens.source = base_name(source.file);
  return parse_image(bytes, source.file.string());
}

Tokens load_image(const TokenSource& source) {
  Tokens tokens;
  const Image image = read_picture(source, tokens);
  tokens.features =
      image_features(resize(image, source.width, source.height), source.patch, source.class_token);
  tokens.feature_dim = int64_t{3} * source.patch * source.patch;
  tokens.count = int64_t(tokens.features.size()) / tokens.feature_dim;
  tokens.order.resize(size_t(tokens.count));
  std::iota(tokens.order.begin(), tokens.order.end(), 0);
  tokens.source +=
      fmt::format(": {} x {} pixels as {} x {}, {} patches of {} x {}{}", image.width, image.height,
                  source.width, source.height, tokens.count - source.class_token, source.patch,
                  source.patch, source.class_token ? " and a class token" : "");
  return tokens;
}

}  // namespace

TokenSource parse_token_source(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view kind = text.substr(0, colon);
  TokenSource source;
  if (kind == "image")
    source.kind = TokenSource::Kind::kImage;
  else if (kind != "lidar")
    fail(fmt::format("unknown kind '{}'", shown(kind)), "must be lidar:... or image:...");
  std::string_view rest = text.substr(std::min(colon + 1, text.size()));
  std::vector<std::string_view> seen;
  while (!rest.empty()) {
    const size_t equals = rest.find('=');
    if (equals == std::string_view::npos)
      fail(fmt::format("'{}'", shown(rest)), "must be key=value");
    const std::string_view key = rest.substr(0, equals);
    const size_t end = key == "file" ? rest.size()
                                     : std::min(rest.find(',', equals),
                                                rest.size());  // a file's name may hold commas
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) fail(shown(key), "given twice");
    seen.push_back(key);
    set_key(source, key, rest.substr(equals + 1, end - equals - 1));
    rest = rest.substr(std::min(end + 1, rest.size()));
  }
  check_patch(source);
  return source;
}

std::string print(const TokenSource& source) {
  const std::string file = source.file.empty() ? "" : ",file=" + base_name(source.file);
  if (source.kind == TokenSource::Kind::kImage)
    return fmt::format("image:width={},height={},patch={},class_token={}{}", source.width,
                       source.height, source.patch, int(source.class_token), file);
  return fmt::format("lidar:voxel_size={},curve={},stage={},first={}{}", source.voxel_size,
                     curve_name(source.curve), source.stage, source.first, file);
}

Tokens load_tokens(const TokenSource& source) {
  check_patch(source);
  return source.kind == TokenSource::Kind::kImage ? load_image(source) : load_lidar(source);
}

}  // namespace attest::core
