#include "reports/sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "reports/escape.hpp"

namespace attest::reports {
namespace {

using Fields = std::map<std::string, std::string, std::less<>>;

/// The words name=value of a spec line.
Fields fields_of(const std::string& spec) {
  Fields fields;
  std::istringstream words(spec);
  for (std::string word; words >> word;)
    if (const size_t equals = word.find('='); equals != word.npos)
      fields[word.substr(0, equals)] = word.substr(equals + 1);
  return fields;
}

}  // namespace

std::string print_sizes(const std::string& spec) {
  const Fields sizes = fields_of(spec);
  const auto size = [&](std::string_view name, const std::string& otherwise) {
    const auto at = sizes.find(name);
    return at == sizes.end() ? otherwise : at->second;
  };
  const auto both = [&](std::string_view of_queries, std::string_view of_keys) {
    const std::string queries = size(of_queries, "1"), keys = size(of_keys, queries);
    return queries == keys ? queries : queries + "/" + keys;
  };
  if (!sizes.contains("head_dim")) return {};
  return printable(fmt::format("{}x{}x{}x{}", size("batch", "1"), both("num_heads", "num_kv_heads"),
                               both("seq_len_q", "seq_len_kv"), both("head_dim", "head_dim_v")));
}

int64_t tokens_of(const std::string& spec) {
  const Fields fields = fields_of(spec);
  int64_t most = 0;
  for (const char* name : {"seq_len_q", "seq_len_kv"})
    if (const auto at = fields.find(name); at != fields.end())
      most = std::max<int64_t>(most, std::strtoll(at->second.c_str(), nullptr, 10));
  return most;
}

int64_t all_tokens_of(const std::string& spec) {
  const Fields fields = fields_of(spec);
  const auto batch = fields.find("batch");
  return tokens_of(spec) *
         (batch == fields.end() ? 1 : std::strtoll(batch->second.c_str(), nullptr, 10));
}

std::string without_tokens(const std::string& spec) {
  const std::string tokens = fmt::format("={}", tokens_of(spec));
  std::istringstream words(spec);
  std::string rest;
  for (std::string word; words >> word;)
    if (!word.starts_with("seq_len_") || !word.ends_with(tokens))
      rest += (rest.empty() ? "" : " ") + word;
  return rest;
}

}  // namespace attest::reports
