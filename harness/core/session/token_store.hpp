// Loads the tokens of sweeps and images, each source once.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/inputs/tokens.hpp"

namespace attest::core {

/// Tokens by their source line. A file of the user replaces the built-in sweep or image in every
/// source of its kind.
class TokenStore {
 public:
  /// `files`: the user's files. Throws Error: a missing file, a name that is neither a sweep's nor
  /// an image's, or two files of one kind.
  explicit TokenStore(const std::vector<std::string>& files);

  /// A file of the user that none of these source lines uses; empty: all are used.
  std::string unused_file(const std::vector<std::string>& lines) const;
  /// Whether that line takes its tokens from a file of the user.
  bool takes_users_file(const std::string& line) const;
  /// The source of that line, with the user's file. Throws Error: an invalid line.
  TokenSource source(const std::string& line) const;
  /// The tokens of that source line. Throws Error: a file that cannot be read.
  const Tokens& take(const std::string& line);
  /// Time spent loading.
  double seconds() const { return seconds_; }

 private:
  std::map<TokenSource::Kind, std::string> files_;
  std::map<std::string, Tokens> loaded_;
  double seconds_ = 0;
};

}  // namespace attest::core
