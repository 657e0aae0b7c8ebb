#include "reports/words/sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "reports/words/escape.hpp"

namespace attest::reports {

SpecWords spec_words(const std::string& spec) {
  SpecWords words;
  std::istringstream text(spec);
  std::string word;
  text >> word;  // the operation
  while (text >> word) {
    const size_t equals = word.find('=');
    words[word.substr(0, equals)] = equals == word.npos ? "given" : word.substr(equals + 1);
  }
  return words;
}

std::string print_sizes(const std::string& spec) {
  const SpecWords sizes = spec_words(spec);
  const auto size = [&](std::string_view name, const std::string& otherwise) {
    const auto at = sizes.find(name);
    return at == sizes.end() ? otherwise : at->second;
  };
  const auto both = [&](std::string_view of_queries, std::string_view of_keys) {
    const std::string queries = size(of_queries, "1"), keys = size(of_keys, queries);
    return queries == keys ? queries : queries + "/" + keys;
  };
  const char* const channels = sizes.contains("head_dim") ? "head_dim" : "head_dim_v";
  if (!sizes.contains(channels)) return {};
  return printable(fmt::format("{}x{}x{}x{}", size("batch", "1"), both("num_heads", "num_kv_heads"),
                               both("seq_len_q", "seq_len_kv"), both(channels, "head_dim_v")));
}

int64_t tokens_of(const std::string& spec) {
  const SpecWords words = spec_words(spec);
  int64_t most = 0;
  for (const char* name : {"seq_len_q", "seq_len_kv"})
    if (const auto at = words.find(name); at != words.end())
      most = std::max<int64_t>(most, std::strtoll(at->second.c_str(), nullptr, 10));
  return most;
}

int64_t all_tokens_of(const std::string& spec) {
  const SpecWords words = spec_words(spec);
  const auto batch = words.find("batch");
  return tokens_of(spec) *
         (batch == words.end() ? 1 : std::strtoll(batch->second.c_str(), nullptr, 10));
}

namespace {

/// The spec line with `change` of each word that gives the tokens; a word that becomes empty goes.
template <class Change>
std::string change_tokens(const std::string& spec, Change change) {
  const std::string tokens = fmt::format("={}", tokens_of(spec));
  std::istringstream text(spec);
  std::string changed;
  for (std::string word; text >> word;) {
    if (word.starts_with("seq_len_") && word.ends_with(tokens))
      word = change(word.substr(0, word.size() - tokens.size()));
    if (!word.empty()) changed += (changed.empty() ? "" : " ") + word;
  }
  return changed;
}

}  // namespace

std::string without_tokens(const std::string& spec) {
  return change_tokens(spec, [](const std::string&) { return std::string(); });
}

std::string with_tokens(const std::string& spec, int64_t tokens) {
  return change_tokens(spec,
                       [&](const std::string& name) { return fmt::format("{}={}", name, tokens); });
}

}  // namespace attest::reports
