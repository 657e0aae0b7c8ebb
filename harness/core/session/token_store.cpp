#include "core/session/token_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/inputs/formats/image.hpp"
#include "core/inputs/formats/points.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

using Kind = TokenSource::Kind;

// What a token file holds, by its name.
Kind kind_of(const std::filesystem::path& file) {
  if (is_point_file(file)) return Kind::kLidar;
  if (is_image_file(file)) return Kind::kImage;
  throw Error(fmt::format("--tokens {}: a sweep ends in {}, an image in {}", file.string(),
                          kPointExtensions, kImageExtensions));
}

}  // namespace

TokenStore::TokenStore(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (!std::filesystem::is_regular_file(file))
      throw Error(fmt::format("--tokens {}: no such file; name a sweep ({}) or an image ({})", file,
                              kPointExtensions, kImageExtensions));
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
