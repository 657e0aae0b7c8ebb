#include "reports/compare/builds.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/record/case_key.hpp"
#include "core/tensor/error.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Results;

std::set<std::string> hashes_of(const Results& file, const std::string& impl) {
  std::set<std::string> hashes;
  for (const Record& record : file.records)
    if (record.impl == impl && !record.plugin_hash.empty()) hashes.insert(record.plugin_hash);
  return hashes;
}

[[noreturn]] void refuse(const char* side, const std::string& impl,
                         const std::vector<BuildFiles>& builds) {
  std::string text =
      fmt::format("{} has {} builds of {}, and one side is one build:", side, builds.size(), impl);
  for (const BuildFiles& build : builds)
    text += fmt::format(" {} in {};", build.hashes, fmt::join(build.paths, " "));
  if (builds.size() == 2)
    text += fmt::format(" compare them by: attest compare {} --after {}",
                        fmt::join(builds[0].paths, " "), fmt::join(builds[1].paths, " "));
  else
    text += " compare two of them, with --after between";
  throw core::Error(text);
}

}  // namespace

std::string mixed_implementation(const std::vector<Results>& side) {
  // The hash of each implementation. Cases of a baseline that was updated in parts may be of
  // several builds, but each case is of one.
  std::map<std::string, std::string> first;
  for (const Results& file : side)
    for (const Record& record : file.records) {
      if (record.plugin_hash.empty()) continue;
      const auto [at, is_new] = first.emplace(
          record.launch ? question_of(record).name() : record.impl, record.plugin_hash);
      if (!is_new && at->second != record.plugin_hash) return record.impl;
    }
  return {};
}

std::vector<BuildFiles> by_build(const std::vector<Results>& files, const std::string& impl) {
  std::vector<BuildFiles> builds;
  for (const Results& file : files) {
    const std::set<std::string> hashes = hashes_of(file, impl);
    if (hashes.empty()) continue;
    const std::string all = fmt::format("{}", fmt::join(hashes, " and "));
    auto at = std::ranges::find(builds, all, &BuildFiles::hashes);
    if (at == builds.end()) at = builds.insert(at, {all, {}});
    at->paths.push_back(file.path);
  }
  return builds;
}

void require_one_build(const std::vector<Results>& before, const std::vector<Results>& after) {
  std::vector<Results> all = before;
  all.insert(all.end(), after.begin(), after.end());
  for (const auto& [side, files] :
       {std::pair("the side before", &before), std::pair("the side after", &after)})
    if (const std::string impl = mixed_implementation(*files); !impl.empty())
      refuse(side, impl, by_build(all, impl));
}

}  // namespace attest::reports
