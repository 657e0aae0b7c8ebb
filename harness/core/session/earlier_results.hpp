// The contents of a results file that a resumed run continues.
#pragma once
#include <map>
#include <string>

#include "core/record/case_key.hpp"
#include "core/record/token_picture.hpp"
#include "core/session/plan.hpp"

namespace attest::core {

/// An incomplete last line is ignored.
class EarlierResults {
 public:
  EarlierResults() = default;
  /// Reads the file. If it is missing or empty, there are no results. Throws Error if it cannot be
  /// read or is not a results file.
  explicit EarlierResults(const std::string& path);

  /// Whether the file has a header.
  bool begun() const { return begun_; }
  /// Whether the file has a closing line.
  bool complete() const { return complete_; }
  /// The offset at which the last complete line ends.
  size_t bytes() const { return bytes_; }
  /// The pictures of tokens that the file has, by their inputs.
  const std::map<std::string, TokenPicture>& tokens() const { return tokens_; }
  /// The number of records not taken yet.
  size_t count() const { return records_.size(); }

  /// Throws Error if the file is of a run with another identity; the message names the difference.
  void require_same(const Identity& identity) const;
  /// A record of that key that was not taken before; null: there is none.
  const Record* take(const CaseKey& key);

 private:
  std::string path_;
  bool begun_ = false, complete_ = false;
  size_t bytes_ = 0;
  Identity identity_;
  std::map<std::string, TokenPicture> tokens_;
  std::multimap<CaseKey, Record> records_, taken_;
};

}  // namespace attest::core
