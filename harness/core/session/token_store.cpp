#include "core/session/token_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "core/tensor/error.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

using Kind = TokenSource::Kind;

// What a token file holds, by its name.
Kind kind_of(const std::filesystem::path& file) {
  std::string extension = file.extension();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return char(std::tolower(c)); });
  for (const char* known : {".pcd", ".ply", ".bin"})
    if (extension == known) return Kind::kLidar;
  for (const char* known : {".png", ".jpg", ".jpeg"})
    if (extension == known) return Kind::kImage;
  throw Error(fmt::format(
      "--tokens {}: a sweep ends in .pcd, .ply or .bin, an image in .png or .jpg", file.string()));
}

}  // namespace

TokenStore::TokenStore(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (!std::filesystem::is_regular_file(file))
      throw Error(fmt::format(
          "--tokens {}: no such file; name a .pcd, .ply or .bin sweep, or a .png or .jpg image",
          file));
    if (!files_.emplace(kind_of(file), file).second)
      throw Error(fmt::format("--tokens {}: there is another {} already", file,
                              kind_of(file) == Kind::kLidar ? "sweep" : "image"));
  }
}

std::string TokenStore::unused_file(const std::vector<std::string>& lines) const {
  for (const auto& [kind, file] : files_)
    if (std::ranges::none_of(lines, [wanted = kind](const std::string& line) {
          return parse_token_source(line).kind == wanted;
        }))
      return file;
  return "";
}

bool TokenStore::takes_users_file(const std::string& line) const {
  return files_.contains(parse_token_source(line).kind);
}

TokenSource TokenStore::source(const std::string& line) const {
  TokenSource source = parse_token_source(line);
  if (const auto file = files_.find(source.kind); file != files_.end()) source.file = file->second;
  return source;
}

const Tokens& TokenStore::take(const std::string& line) {
  const TokenSource source = this->source(line);
  const std::string key = print(source) + source.file.string();
  auto at = loaded_.find(key);
  if (at == loaded_.end()) {
    const auto start = Clock::now();
    at = loaded_.emplace(key, load_tokens(source)).first;
    seconds_ += seconds_since(start);
  }
  return at->second;
}

}  // namespace attest::core
