#include "core/problem/suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/problem/glob.hpp"
#include "core/problem/hint.hpp"
#include "core/problem/quantities.hpp"
#include "core/problem/spec.hpp"
#include "core/problem/strict_json.hpp"
#include "core/problem/sweep.hpp"
#include "core/problem/values.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/input_file.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

constexpr size_t kMostCases = 4096, kMostEntries = 16, kLongestName = 80, kLongestText = 400;
constexpr size_t kMostExcuses = 64, kMostScalings = 64;  // kMostExcuses: of a case, of a suite
constexpr double kMostBudget_s = 3600;
constexpr std::string_view kSizeField = "seq_len";
// Keys of a case that are no words of a spec line.
const std::vector<std::string> kCaseKeys{"name",   "operation", "dtypes", "quick", "inputs",
                                         "source", "note",      "impls",  "fills", "misses"};
const std::vector<std::string> kSuiteKeys{"name",  "summary", "budget", "defaults",
                                          "cases", "scaling", "misses"};
const std::vector<std::string> kSharedExcuseKeys{"why", "cases"};
// Keys of an entry of `scaling` that are no keys of a case, and keys of a case that it lacks.
const std::vector<std::string> kScalingKeys{"over", "threads", "deadline", "memory"};
constexpr const char* kCaseKeysOnly[] = {"inputs", "misses"};

/// The place in a file that is being read; every Error begins with it.
struct Place {
  std::string text;
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("{}: {}", text, what));
  }
  [[noreturn]] void fail(std::string_view key, std::string_view right) const {
    fail(fmt::format("{}: must be {}", key, right));
  }
};

std::string text_of(const Place& place, const json& object, const std::string& key, bool required) {
  const auto at = object.find(key);
  if (at == object.end()) {
    if (required) place.fail(fmt::format("has no {}", key));
    return "";
  }
  const std::string right = fmt::format("text of 1 to {} characters on one line", kLongestText);
  if (!at->is_string()) place.fail(key, right);
  const auto text = at->get<std::string>();
  if (text.empty() || text.size() > kLongestText ||
      std::ranges::any_of(text, [](unsigned char c) { return c < ' ' || c == 0x7f; }))
    place.fail(key, right);
  return text;
}

// Names become words of the command line, globs and columns.
std::string name_of(const Place& place, const json& object) {
  const std::string name = text_of(place, object, "name", true);
  const bool clean = std::ranges::all_of(name, [](unsigned char c) {
    return (c < 0x80 && std::isalnum(c)) || std::strchr("_-.+/", c);
  });
  if (!clean || name.size() > kLongestName)
    place.fail(fmt::format("name {}: must be at most {} letters, digits, and _ - . + /",
                           in_quotes(name), kLongestName));
  return name;
}

double budget_of(const Place& place, const json& object) {
  const auto at = object.find("budget");
  if (at == object.end()) return 0;
  std::optional<double> seconds;
  if (at->is_number()) seconds = at->get<double>();
  if (at->is_string()) seconds = parse_seconds(at->get<std::string>());
  if (!seconds || !(*seconds > 0 && *seconds <= kMostBudget_s))
    place.fail("budget", fmt::format("seconds, or a time such as \"50ms\", above 0 and up to {}",
                                     print_seconds(kMostBudget_s)));
  return *seconds;
}

std::vector<std::string> list_of(const Place& place, const json& object, const std::string& key,
                                 std::string_view right) {
  const auto at = object.find(key);
  if (at == object.end()) return {};
  if (!at->is_array() || at->empty()) place.fail(key, right);
  if (at->size() > kMostEntries)
    place.fail(fmt::format("{}: {} entries; at most {} are allowed{}", key, at->size(),
                           kMostEntries,
                           key == "impls" ? ", and a glob may stand for many names" : ""));
  std::vector<std::string> entries;
  for (const json& entry : *at) {
    if (!entry.is_string() || entry.get<std::string>().empty() ||
        entry.get<std::string>().size() > kLongestText)
      place.fail(key, right);
    if (std::ranges::find(entries, entry.get<std::string>()) != entries.end())
      place.fail(fmt::format("{}: {} twice", key, in_quotes(entry.get<std::string>())));
    entries.push_back(entry.get<std::string>());
  }
  return entries;
}

std::vector<Excuse> misses_of(const Place& place, const json& object) {
  const auto at = object.find("misses");
  if (at == object.end()) return {};
  if (!at->is_object() || at->empty() || at->size() > kMostExcuses)
    place.fail("misses",
               "an object of globs of events and reasons, "
               R"(e.g. {"rise/*/over_88": "one row"})");
  std::vector<Excuse> misses;
  for (const auto& [glob, why] : at->items()) {
    const Place inner{fmt::format("{}: misses", place.text)};
    misses.push_back({glob, text_of(inner, *at, glob, true)});
  }
  return misses;
}

std::vector<DType> dtypes_under(const Place& place, const json& object, const std::string& key,
                                std::string_view right) {
  std::vector<DType> dtypes;
  for (const std::string& name : list_of(place, object, key, right)) {
    const auto dtype = dtype_from_name(name);
    if (!dtype)
      place.fail(
          fmt::format("{}: unknown dtype {}; must be {}", key, in_quotes(name), kJudgedFloats));
    if (!is_judged_float(*dtype))
      place.fail(fmt::format("{}: {}; must be {}", key, dtype_title(*dtype), kJudgedFloats));
    dtypes.push_back(*dtype);
  }
  return dtypes;
}

std::vector<DType> dtypes_of(const Place& place, const json& object) {
  const std::vector<DType> dtypes =
      dtypes_under(place, object, "dtypes", "a list of dtypes, e.g. [\"f32\", \"f16\"]");
  if (dtypes.empty()) place.fail("has no dtypes, e.g. \"dtypes\": [\"f32\", \"f16\"]");
  return dtypes;
}

/// In the order of `dtypes`.
std::vector<DType> quick_of(const Place& place, const json& object,
                            const std::vector<DType>& dtypes) {
  const auto at = object.find("quick");
  if (at == object.end()) return {};
  if (at->is_boolean()) return at->get<bool>() ? dtypes : std::vector<DType>{};
  const std::vector<DType> quick =
      dtypes_under(place, object, "quick", "true, false or a list of dtypes, e.g. [\"f32\"]");
  for (const DType dtype : quick)
    if (std::ranges::find(dtypes, dtype) == dtypes.end())
      place.fail(fmt::format("quick: {} is not among its dtypes", dtype_name(dtype)));
  std::vector<DType> in_order = dtypes;
  std::erase_if(in_order, [&](DType dtype) { return std::ranges::count(quick, dtype) == 0; });
  return in_order;
}

/// The value of a word: numbers and lists as they stand, text as in a spec line, "" for true.
std::string value_of(const Place& place, const std::string& key, const json& value) {
  if (value == true) return "";
  if (value.is_number()) return value.dump();
  if (value.is_array()) {
    std::vector<int64_t> numbers;
    for (const json& number : value) {
      if (!number.is_number_unsigned() || number.get<uint64_t>() > INT64_MAX ||
          numbers.size() == kMostEntries)
        place.fail(key, "a list of whole numbers");
      numbers.push_back(number.get<int64_t>());
    }
    return print_list(numbers);
  }
  if (!value.is_string() || value.get<std::string>().empty() ||
      value.get<std::string>().find(' ') != std::string::npos)
    place.fail(key, "a number, a word, a list of numbers, true or false");
  return value.get<std::string>();
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

std::vector<Word> words_of(const Place& place, const json& object, const Operation& operation) {
  std::vector<std::string> known = spec_words(operation), elsewhere;
  std::erase(known, "dtype");  // a case has dtypes
  for (const Operation* other : all_operations())
    for (std::string& word : spec_words(*other)) elsewhere.push_back(std::move(word));
  std::vector<Word> words;
  for (const auto& [key, value] : object.items()) {
    if (contains(kCaseKeys, key)) continue;
    // a default that this case, perhaps of another operation, does not want
    const bool taken_back = value == false;
    if (!contains(known, key) && !(taken_back && contains(elsewhere, key))) {
      known.insert(known.end(), kCaseKeys.begin(), kCaseKeys.end());
      place.fail(fmt::format("unknown key {}{}", in_quotes(key), did_you_mean(key, known)));
    }
    if (!taken_back) words.push_back({key, value_of(place, key, value)});
  }
  return words;
}

// What `make` returns; its Error gets the place in front.
template <class Make>
auto at(const Place& place, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    place.fail(error.what());
  }
}

void try_problems(const Place& place, const Case& one) {
  for (const Word& word : one.words) {
    if (word.value != kTokensValue) continue;
    if (!word.key.starts_with(kSizeField))
      place.fail(fmt::format("{}: \"tokens\" may stand for a {} only", word.key, kSizeField));
    if (!one.inputs.from_tokens)
      place.fail(fmt::format(
          "{}: \"tokens\" needs inputs that are tokens, e.g. \"inputs\": \"lidar:voxel_size=0.05\"",
          word.key));
  }
  for (const DType dtype : one.dtypes)
    at(place, [&] {
      const Problem problem = one.problem(dtype, kSampleTokens);
      // To tell which fills a problem has takes long, and most cases name none.
      if (one.fills.empty()) return;
      require_fills("fills:", one.fills, known_fills(problem, one.inputs.from_tokens));
    });
}

// The events that some problem of the case can have.
std::vector<std::string> events_of(const Case& one) {
  std::vector<std::string> names;
  for (const DType dtype : one.dtypes) {
    const Problem problem = one.problem(dtype, kSampleTokens);
    for (const NumericEvent& event : problem.operation->events(problem))
      if (event.why_not.empty()) names.push_back(event.name);
  }
  return names;
}

// An excuse for what no problem can have is a slip of the pen, or out of date.
void check_misses(const Place& place, const std::vector<Excuse>& misses,
                  const std::vector<std::string>& names) {
  for (const Excuse& excuse : misses)
    at(place, [&] { require_matches("misses:", {excuse.glob}, names); });
}

// `section`: "case" or "scaling", for messages.
Case read_case(const Place& file, const json& object, const std::string& suite, size_t number,
               std::string_view section) {
  const Place nameless{fmt::format("{}: {} {}", file.text, section, number)};
  if (!object.is_object())
    nameless.fail("must be an object, e.g. {\"name\": \"vit_b16/self\", \"seq_len_q\": 197}");
  Case one;
  one.name = name_of(nameless, object);
  one.suite = suite;
  const Place place{fmt::format("{}: {} '{}'", file.text, section, one.name)};
  one.operation = text_of(place, object, "operation", true);
  one.dtypes = dtypes_of(place, object);
  one.quick = quick_of(place, object, one.dtypes);
  one.source = text_of(place, object, "source", false);
  one.note = text_of(place, object, "note", false);
  one.only_impls = list_of(place, object, "impls", "a list of implementations' names or globs");
  one.fills =
      list_of(place, object, "fills", "a list of fills, e.g. [\"random\", \"huge\"], or [\"all\"]");
  one.misses = misses_of(place, object);
  if (object.contains("inputs")) one.inputs.source = text_of(place, object, "inputs", true);
  one.inputs.from_tokens = one.inputs.source != Inputs{}.source;
  const Operation* operation = at(place, [&] { return &operation_of(one.operation); });
  one.words = words_of(place, object, *operation);
  try_problems(place, one);
  if (!one.misses.empty()) check_misses(place, one.misses, events_of(one));
  return one;
}

json merged(const json& defaults, const json& object) {
  if (!object.is_object()) return object;
  json all = defaults;
  all.update(object);
  return all;
}

std::vector<std::string> over_of(const Place& place, const json& object) {
  constexpr std::string_view kRight =
      "a field and its sizes, e.g. \"seq_len_q=1k..256k\", or a list of these";
  if (!object.contains("over")) place.fail(fmt::format("has no over, which is {}", kRight));
  if (object["over"].is_string()) return {text_of(place, object, "over", true)};
  return list_of(place, object, "over", kRight);
}

/// A number of seconds or bytes: text that `parse` reads; 0: there is no such key.
template <class Parse>
auto quantity_of(const Place& place, const json& object, const std::string& key,
                 std::string_view right, const Parse& parse) {
  const std::string text = text_of(place, object, key, false);
  const auto value = text.empty() ? decltype(parse(text)){0} : parse(text);
  if (!value || (!text.empty() && *value == 0))
    place.fail(key, fmt::format("{}, and above 0", right));
  return *value;
}

Scaling read_scaling(const Place& file, const json& defaults, const json& own,
                     const std::string& suite, size_t number) {
  const Place nameless{fmt::format("{}: scaling {}", file.text, number)};
  if (!own.is_object())
    nameless.fail(R"(must be an object, e.g. {"name": "dense", "over": "seq_len_q=1k..256k"})");
  const Place place{fmt::format("{}: scaling '{}'", file.text, name_of(nameless, own))};
  for (const char* key : kCaseKeysOnly)
    if (own.contains(key)) place.fail(fmt::format("{}: is for cases only", key));
  const json given = merged(defaults, own);
  Scaling scaling;
  scaling.over = over_of(place, given);
  scaling.threads = text_of(place, given, "threads", false);
  if (!scaling.threads.empty() && !parse_range(scaling.threads, 2, 1))
    place.fail("threads", "numbers of threads, e.g. \"1..n\" or \"1,2,4\"");
  scaling.deadline_s = quantity_of(place, given, "deadline", kSecondsWords, parse_seconds);
  scaling.memory_bytes = quantity_of(place, given, "memory", kBytesWords,
                                     [](std::string_view text) { return parse_bytes(text); });
  json object = given;
  for (const std::string& key : kScalingKeys) object.erase(key);
  for (const char* key : kCaseKeysOnly) object.erase(key);  // of the defaults
  const std::string operation = text_of(place, object, "operation", true);
  at(place, [&] {
    std::vector<Word> words;
    for (const auto& [key, value] : object.items())
      if (value != false) words.push_back({key, "given"});
    const size_t is_given = words.size();
    add_first_sizes(operation_of(operation), scaling.over, words);
    for (size_t i = is_given; i < words.size(); ++i)
      object[words[i].key] = parse_count(words[i].value, 1, INT64_MAX).value();
  });
  scaling.base = read_case(file, object, suite, number, "scaling");
  at(place, [&] { sweeps_of(scaling); });
  return scaling;
}

void read_scalings(const Place& file, const json& document, const json& defaults, Suite& suite) {
  const auto at = document.find("scaling");
  if (at == document.end()) return;
  if (!at->is_array() || at->empty() || at->size() > kMostScalings)
    file.fail("scaling", fmt::format("a list of 1 to {} entries", kMostScalings));
  std::set<std::string> names;
  for (const json& object : *at) {
    suite.scaling.push_back(
        read_scaling(file, defaults, object, suite.name, suite.scaling.size() + 1));
    if (const std::string& name = suite.scaling.back().base.name; !names.insert(name).second)
      file.fail(fmt::format("scaling '{}': that name is taken by an entry before it", name));
  }
}

// What events_of returns for each case that is named. To list them takes long, and many reasons
// name one case.
using KnownEvents = std::map<std::string, std::vector<std::string>>;

const std::vector<std::string>& known_events_of(const Case& one, KnownEvents& known) {
  const auto at = known.find(one.name);
  return at != known.end() ? at->second : known.emplace(one.name, events_of(one)).first->second;
}

// One entry of the suite's `misses`: adds its reason to the cases that it names, behind what they
// say themselves.
void share_excuse(const Place& place, const json& object, Suite& suite, KnownEvents& known) {
  constexpr const char* kExample = R"({"why": "one row", "cases": {"a/*": ["rise/16/*"]}})";
  if (!object.is_object()) place.fail(fmt::format("must be an object, e.g. {}", kExample));
  for (const auto& [key, value] : object.items())
    if (!contains(kSharedExcuseKeys, key))
      place.fail(
          fmt::format("unknown key {}{}", in_quotes(key), did_you_mean(key, kSharedExcuseKeys)));
  const std::string why = text_of(place, object, "why", true);
  const auto globs = object.find("cases");
  if (globs == object.end() || !globs->is_object() || globs->empty())
    place.fail("cases", fmt::format("an object of cases and their events, e.g. {}", kExample));
  std::vector<std::string> names;
  for (const Case& one : suite.cases) names.push_back(one.name);
  for (const auto& [glob, unused] : globs->items()) {
    at(place, [&] { require_matches("cases:", {glob}, names); });
    std::vector<Excuse> excuses;
    for (const std::string& event : list_of(place, *globs, glob, "a list of globs of events"))
      excuses.push_back({.glob = event, .why = why, .shared = true});
    for (Case& one : suite.cases) {
      if (!matches(one.name, {glob})) continue;
      check_misses({fmt::format("{}: case '{}'", place.text, one.name)}, excuses,
                   known_events_of(one, known));
      std::ranges::copy(excuses, std::back_inserter(one.misses));
    }
  }
}

void share_excuses(const Place& file, const json& document, Suite& suite) {
  const auto list = document.find("misses");
  if (list == document.end()) return;
  if (!list->is_array() || list->empty() || list->size() > kMostExcuses)
    file.fail("misses", fmt::format("a list of 1 to {} reasons", kMostExcuses));
  KnownEvents known;
  for (size_t n = 0; n < list->size(); ++n)
    share_excuse({fmt::format("{}: misses {}", file.text, n + 1)}, (*list)[n], suite, known);
}

}  // namespace

Suite parse_suite(std::string_view json_text, std::string_view file_name) {
  const json document = parse_strict_json(json_text, file_name);
  const Place file{std::string(file_name)};
  if (!document.is_object()) file.fail("must be one JSON object with name, summary and cases");
  for (const auto& [key, value] : document.items())
    if (std::ranges::find(kSuiteKeys, key) == kSuiteKeys.end())
      file.fail(fmt::format("unknown key {}{}", in_quotes(key), did_you_mean(key, kSuiteKeys)));
  Suite suite;
  suite.file = std::string(file_name);
  suite.name = name_of(file, document);
  suite.summary = text_of(file, document, "summary", true);
  suite.budget_s = budget_of(file, document);
  const json defaults = document.value("defaults", json::object());
  if (!defaults.is_object()) file.fail("defaults", "an object with keys of a case");
  if (defaults.contains("name")) file.fail("defaults: name: must stand in each case");
  if (defaults.contains("misses"))
    file.fail("defaults: misses: must stand in a case, or for several cases beside defaults");
  read_scalings(file, document, defaults, suite);
  const auto cases = document.find("cases");
  if (cases == document.end() && !suite.scaling.empty()) {
    if (document.contains("misses")) file.fail("misses: there is no case that it could excuse");
    return suite;
  }
  if (cases == document.end() || !cases->is_array() || cases->empty() || cases->size() > kMostCases)
    file.fail("cases", fmt::format("a list of 1 to {} cases", kMostCases));
  std::set<std::string> names;
  for (const json& object : *cases) {
    suite.cases.push_back(
        read_case(file, merged(defaults, object), suite.name, suite.cases.size() + 1, "case"));
    if (!names.insert(suite.cases.back().name).second)
      file.fail(fmt::format("case '{}': that name is taken by a case before it",
                            suite.cases.back().name));
  }
  share_excuses(file, document, suite);
  return suite;
}

Suite read_suite(const std::filesystem::path& file) {
  std::ifstream stream = open_input(file);
  std::string text(kLargestJson_bytes + 1, '\0');
  stream.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(stream.gcount()));
  return parse_suite(text, file.string());
}

}  // namespace attest::core
