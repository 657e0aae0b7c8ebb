#include "reports/html/shown.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace attest::reports::html {
namespace {

using core::Record;

struct Group {
  std::vector<const Record*> records;
  bool is_bad = false;
};

/// The records of each case and dtype in each run.
std::vector<Group> groups_of(const Input& input) {
  std::vector<Group> groups;
  for (const core::Results& run : input.runs) {
    std::map<std::tuple<std::string, std::string, std::string>, size_t> at;
    for (const Record& record : run.records) {
      const auto [found, fresh] =
          at.try_emplace({record.suite, record.case_name, record.dtype}, groups.size());
      if (fresh) groups.emplace_back();
      Group& group = groups[found->second];
      group.records.push_back(&record);
      group.is_bad = group.is_bad || record.outcome.is_bad();
    }
  }
  return groups;
}

}  // namespace

std::set<const Record*> shown_records(const Input& input, size_t most) {
  std::vector<Group> groups = groups_of(input);
  std::ranges::stable_sort(groups, std::greater(), &Group::is_bad);
  std::set<const Record*> shown;
  for (const Group& group : groups)
    if (shown.empty() || shown.size() + group.records.size() <= most)
      shown.insert(group.records.begin(), group.records.end());
  return shown;
}

}  // namespace attest::reports::html
