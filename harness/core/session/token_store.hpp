// Tokens of sweeps and images, each source loaded once.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/inputs/tokens.hpp"

namespace attest::core {

/// Tokens by their source line. A file that the user gives takes the place of the embedded sweep or
/// image in every source of its kind.
class TokenStore {
 public:
  /// Throws Error: a file that is not there, one that is neither a sweep nor an image by its name,
  /// two of a kind.
  explicit TokenStore(const std::vector<std::string>& files);

  /// The user's file that none of these source lines takes; empty: each is taken.
  std::string unused_file(const std::vector<std::string>& lines) const;
  /// The source with the user's file in it. Throws Error: a line that makes no sense.
  TokenSource source(const std::string& line) const;
  /// The tokens of a source line. Throws Error: a file that cannot be read.
  const Tokens& take(const std::string& line);
  /// Time spent in loading.
  double seconds() const { return seconds_; }

 private:
  std::map<TokenSource::Kind, std::string> files_;
  std::map<std::string, Tokens> loaded_;
  double seconds_ = 0;
};

}  // namespace attest::core
