#include "reports/testing/readers.hpp"

#include <fmt/format.h>

#include <map>
#include <regex>
#include <set>

namespace attest::testing {
namespace {

struct Rule {
  std::set<std::string> parents, required, optional;
};

/// The elements that Jenkins' schema has and that attest writes.
const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> kRules = {
      {"testsuites", {{""}, {}, {"name", "time", "tests", "failures", "errors"}}},
      {"testsuite",
       {{"testsuites"},
        {"name", "tests", "failures", "errors"},
        {"skipped", "time", "timestamp", "hostname", "id", "package"}}},
      {"properties", {{"testsuite"}, {}, {}}},
      {"property", {{"properties"}, {"name", "value"}, {}}},
      {"testcase", {{"testsuite"}, {"name"}, {"time", "classname"}}},
      {"failure", {{"testcase"}, {}, {"type", "message"}}},
      {"error", {{"testcase"}, {}, {"type", "message"}}},
      {"skipped", {{"testcase"}, {}, {"type", "message"}}},
      {"system-out", {{"testcase"}, {}, {}}},
  };
  return kRules;
}

using Attributes = std::map<std::string, std::string>;

/// Checks elements as they open and close.
class JunitChecker {
 public:
  void open(const std::string& name, const Attributes& attributes, bool closes) {
    const auto rule = rules().find(name);
    const std::string parent = path_.empty() ? "" : path_.back();
    if (rule == rules().end() || !rule->second.parents.contains(parent))
      return complain(name + " is not allowed in " + parent);
    for (const std::string& key : rule->second.required)
      if (!attributes.contains(key)) complain(name + " lacks " + key);
    for (const auto& [key, value] : attributes)
      if (!rule->second.required.contains(key) && !rule->second.optional.contains(key))
        complain(name + " has " + key);
    const auto time = attributes.find("time");
    if (time != attributes.end() && !std::regex_match(time->second, std::regex("[0-9]*\\.?[0-9]*")))
      complain("time is " + time->second);
    count(name, attributes);
    if (!closes) path_.push_back(name);
  }
  void close(const std::string& name) {
    if (path_.empty() || path_.back() != name) return complain("</" + name + "> closes nothing");
    path_.pop_back();
    if (name == "testsuite") compare_counts();
  }
  void text(const std::string& text) {
    if (text.find_first_of("<>") != std::string::npos) complain("markup in text: " + text);
    static const std::regex kEntity("&(amp|lt|gt|quot|#[0-9]+);");
    if (std::regex_replace(text, kEntity, "").find('&') != std::string::npos)
      complain("a bare & in: " + text);
  }
  std::string ending() {
    if (!path_.empty()) complain(path_.back() + " is not closed");
    return errors_;
  }

 private:
  void complain(const std::string& error) { errors_ += error + "\n"; }
  void count(const std::string& name, const Attributes& attributes) {
    if (name == "testsuite") {
      said_ = attributes;
      counted_.clear();
    }
    ++counted_[name];
  }
  void compare_counts() {
    const std::pair<const char*, const char*> all[] = {{"tests", "testcase"},
                                                       {"failures", "failure"},
                                                       {"errors", "error"},
                                                       {"skipped", "skipped"}};
    for (const auto& [attribute, element] : all)
      if (said_[attribute] != std::to_string(counted_[element]))
        complain(fmt::format("{}=\"{}\", but there are {}", attribute, said_[attribute],
                             counted_[element]));
  }

  std::vector<std::string> path_;
  std::string errors_;
  Attributes said_;
  std::map<std::string, int> counted_;
};

}  // namespace

std::vector<std::vector<std::string>> csv_rows(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row;
  std::string cell;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      cell += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == ',' || c == '\n')) {
      row.push_back(std::move(cell));
      cell.clear();
      if (c == '\n') {
        rows.push_back(std::move(row));
        row.clear();
      }
    } else {
      cell += c;
    }
  }
  return rows;
}

std::string junit_errors(const std::string& text) {
  const std::string declaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  if (!text.starts_with(declaration)) return "the declaration is missing\n";
  JunitChecker checker;
  static const std::regex kTag("</?([a-z-]+)((?: [a-z]+=\"[^\"]*\")*)(/?)>");
  static const std::regex kAttribute(" ([a-z]+)=\"([^\"]*)\"");
  const std::string body = text.substr(declaration.size());
  auto last = body.begin();
  for (std::sregex_iterator tag(body.begin(), body.end(), kTag), end; tag != end; ++tag) {
    checker.text({last, (*tag)[0].first});
    last = (*tag)[0].second;
    if ((*tag)[0].str()[1] == '/') {
      checker.close((*tag)[1]);
      continue;
    }
    Attributes attributes;
    const std::string list = (*tag)[2];
    for (std::sregex_iterator one(list.begin(), list.end(), kAttribute); one != end; ++one) {
      attributes[(*one)[1]] = (*one)[2];
      checker.text((*one)[2]);
    }
    checker.open((*tag)[1], attributes, (*tag)[3].length() > 0);
  }
  checker.text({last, body.end()});
  return checker.ending();
}

}  // namespace attest::testing
