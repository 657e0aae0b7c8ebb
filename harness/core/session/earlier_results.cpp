#include "core/session/earlier_results.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "core/record/results.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {

EarlierResults::EarlierResults(const std::string& path) : path_(path) {
  if (!std::filesystem::exists(path)) return;
  Results results;
  try {
    results = read_results(path);
  } catch (const Error& error) {
    throw Error(fmt::format("--resume {}", error.what()));
  }
  begun_ = results.begun;
  complete_ = results.complete;
  bytes_ = results.bytes;
  tokens_ = std::move(results.tokens);
  identity_ = results.header.environment["identity"];
  for (Record& record : results.records) {
    CaseKey key = key_of(record);
    records_.emplace(std::move(key), std::move(record));
  }
}

void EarlierResults::require_same(const Identity& identity) const {
  for (const auto& [name, here] : identity) {
    const auto there = identity_.find(name);
    if (there != identity_.end() && there->second == here) continue;
    throw Error(
        fmt::format("--resume {}: another run: {}: '{}' there, '{}' here; give the same arguments "
                    "or another file",
                    path_, name, there == identity_.end() ? "not recorded" : there->second, here));
  }
}

const Record* EarlierResults::take(const CaseKey& key) {
  const auto found = records_.find(key);
  if (found == records_.end()) return nullptr;
  return &taken_.insert(records_.extract(found))->second;
}

}  // namespace attest::core
