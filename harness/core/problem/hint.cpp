#include "core/problem/hint.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace attest::core {
namespace {
constexpr size_t kLongestWord = 64;

// The first known word that begins or ends with `word`, as one of its parts: "softmax_scale" for
// "scale".
const std::string* with_part(std::string_view word, std::span<const std::string> known) {
  const std::string first = std::string(word) + "_", last = "_" + std::string(word);
  for (const std::string& candidate : known)
    if (word.size() > 1 && (candidate.starts_with(first) || candidate.ends_with(last)))
      return &candidate;
  return nullptr;
}
}  // namespace

// Optimal string alignment: rows of the table are the characters of `a`; three rows are enough.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last, row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  word = word.substr(0, kLongestWord);
  const size_t near = 1 + word.size() / 4;
  const std::string* nearest = nullptr;
  size_t least = near + 1;
  for (const std::string& candidate : known) {
    const size_t distance =
        edit_distance(word, std::string_view(candidate).substr(0, kLongestWord));
    if (distance < least && distance < candidate.size()) {
      least = distance;
      nearest = &candidate;
    }
  }
  if (!nearest) nearest = with_part(word, known);
  return nearest ? ", did you mean '" + *nearest + "'?" : "";
}

}  // namespace attest::core
