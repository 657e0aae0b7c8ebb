#include "reports/patterns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "core/record/races.hpp"
#include "reports/findings.hpp"

namespace attest::reports {
namespace {

using core::Record;

constexpr size_t kFewest = 3;  // records on either side
constexpr int64_t kTiles[] = {8, 16, 32, 64, 128, 256};
constexpr const char* kSizes[] = {"batch",      "num_heads", "num_kv_heads", "seq_len_q",
                                  "seq_len_kv", "head_dim",  "head_dim_v"};
// A size that a spec line leaves out is that of another field.
constexpr std::pair<const char*, const char*> kOtherwise[] = {
    {"num_kv_heads", "num_heads"}, {"seq_len_kv", "seq_len_q"}, {"head_dim_v", "head_dim"}};

bool is_size(std::string_view field) {
  return std::ranges::find(kSizes, field) != std::end(kSizes);
}

// What a spec line says of a problem: its sizes, and its other words.
struct Spec {
  std::map<std::string, int64_t, std::less<>> sizes;
  std::set<std::string> words;  // "lse", "mask", "window_right", "window_right=0"

  explicit Spec(const Record& record) {
    std::istringstream line(record.spec);
    std::string word;
    line >> word;  // the operation
    while (line >> word) add(word);
    for (const char* one : {"batch", "num_heads"}) sizes.try_emplace(one, 1);
    for (const auto& [field, other] : kOtherwise)
      if (const auto at = sizes.find(other); at != sizes.end())
        sizes.try_emplace(field, at->second);
    if (!record.dtype.empty()) words.insert("dtype=" + record.dtype);
  }

  int64_t size(std::string_view field) const {
    const auto at = sizes.find(field);
    return at == sizes.end() ? 0 : at->second;
  }

 private:
  void add(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string field = word.substr(0, equals);
    if (field == "dtype") return;
    if (equals == word.npos) {
      words.insert(word);
    } else if (is_size(field)) {
      int64_t value = 0;
      std::from_chars(word.data() + equals + 1, word.data() + word.size(), value);
      sizes[field] = value;
    } else {
      words.insert(field);
      words.insert(word);
    }
  }
};

// Something that a problem has or lacks.
struct Trait {
  std::string words;               // after "have"
  bool is_named = true;            // by the spec line; otherwise a size may have it by chance
  std::vector<bool> bad, passing;  // whether each record has it

  size_t in_bad() const { return size_t(std::ranges::count(bad, true)); }
  size_t in_passing() const { return size_t(std::ranges::count(passing, true)); }
  bool all_bad_have_it() const { return in_bad() == bad.size(); }
  bool no_bad_has_it() const { return in_bad() == 0; }
};

struct Sides {
  std::vector<Spec> bad, passing;
};

template <class Has>
Trait trait(std::string words, bool is_named, const Sides& sides, Has has) {
  Trait made{std::move(words), is_named, {}, {}};
  for (const Spec& one : sides.bad) made.bad.push_back(has(one));
  for (const Spec& one : sides.passing) made.passing.push_back(has(one));
  return made;
}

void add_words(const Sides& sides, std::vector<Trait>& traits) {
  std::set<std::string> all;
  for (const std::vector<Spec>* side : {&sides.bad, &sides.passing})
    for (const Spec& one : *side) all.insert(one.words.begin(), one.words.end());
  for (const std::string& word : all)
    traits.push_back(
        trait(word, true, sides, [&](const Spec& one) { return one.words.contains(word); }));
}

void add_different_sizes(const Sides& sides, std::vector<Trait>& traits) {
  for (const auto& [field, other] : kOtherwise)
    traits.push_back(trait(fmt::format("{} other than {}", field, other), true, sides,
                           [&](const Spec& one) { return one.size(field) != one.size(other); }));
}

void add_rests(const Sides& sides, std::vector<Trait>& traits) {
  for (const char* field : {"seq_len_kv", "seq_len_q", "head_dim", "head_dim_v"})
    for (const int64_t tile : kTiles)
      traits.push_back(trait(fmt::format("{} % {} other than 0", field, tile), false, sides,
                             [&](const Spec& one) { return one.size(field) % tile != 0; }));
}

// The tightest bounds that all bad records keep.
void add_bounds(const Sides& sides, std::vector<Trait>& traits) {
  for (const char* field : kSizes) {
    const auto of_field = [&](const Spec& one) { return one.size(field); };
    const auto [least, most] = std::ranges::minmax(sides.bad, {}, of_field);
    const int64_t low = least.size(field), high = most.size(field);
    traits.push_back(trait(fmt::format("{} of {} or more", field, low), false, sides,
                           [&](const Spec& one) { return one.size(field) >= low; }));
    traits.push_back(trait(fmt::format("{} of {} or less", field, high), false, sides,
                           [&](const Spec& one) { return one.size(field) <= high; }));
  }
}

// What users name comes first, sizes by chance come last.
std::vector<Trait> traits_of(const Sides& sides) {
  std::vector<Trait> traits;
  add_words(sides, traits);
  add_different_sizes(sides, traits);
  add_rests(sides, traits);
  add_bounds(sides, traits);
  return traits;
}

std::optional<std::string> one_divides(const std::vector<Trait>& traits, size_t passing) {
  const auto divides = [](const Trait& t) { return t.all_bad_have_it() && t.in_passing() == 0; };
  if (const auto t = std::ranges::find_if(traits, divides); t != traits.end())
    return fmt::format("all {} bad records have {}; none of the {} that pass has it", t->bad.size(),
                       t->words, passing);
  const auto is_lacking = [&](const Trait& t) {
    return t.no_bad_has_it() && t.in_passing() == passing;
  };
  if (const auto t = std::ranges::find_if(traits, is_lacking); t != traits.end())
    return fmt::format("none of the {} bad records has {}; all {} that pass have it", t->bad.size(),
                       t->words, passing);
  return std::nullopt;
}

// Of two traits that all bad records have, those that no passing record has together. Among sizes
// there would be two for almost any records.
std::optional<std::string> two_divide(const std::vector<const Trait*>& shared) {
  for (size_t first = 0; first < shared.size(); ++first)
    for (size_t second = first + 1; second < shared.size(); ++second) {
      const Trait &a = *shared[first], &b = *shared[second];
      if (!a.is_named || !b.is_named) continue;
      bool any_has_both = false;
      for (size_t i = 0; i < a.passing.size(); ++i) any_has_both |= a.passing[i] && b.passing[i];
      if (!any_has_both)
        return fmt::format("all {} bad records have {} and {}; none of the {} that pass has both",
                           a.bad.size(), a.words, b.words, a.passing.size());
    }
  return std::nullopt;
}

// The trait of all bad records that the fewest others have, if these are a quarter at most.
std::optional<std::string> one_nearly_divides(const std::vector<const Trait*>& shared,
                                              size_t passing) {
  const auto rarest = std::ranges::min_element(shared, {}, &Trait::in_passing);
  if (rarest == shared.end() || (*rarest)->in_passing() * 4 > passing) return std::nullopt;
  const size_t others = (*rarest)->in_passing();
  return fmt::format("all {} bad records have {}; so {} {} of the {} that pass",
                     (*rarest)->bad.size(), (*rarest)->words, others == 1 ? "has" : "have", others,
                     passing);
}

std::optional<std::string> what_divides(const Sides& sides) {
  const size_t passing = sides.passing.size();
  if (sides.bad.size() < kFewest || passing < kFewest) return std::nullopt;
  const std::vector<Trait> traits = traits_of(sides);
  if (auto words = one_divides(traits, passing)) return words;
  std::vector<const Trait*> shared;
  for (const Trait& one : traits)
    if (one.all_bad_have_it()) shared.push_back(&one);
  if (auto words = two_divide(shared)) return words;
  return one_nearly_divides(shared, passing);
}

struct OfImplementation {
  Sides sides;
  size_t bad = 0;                          // some of which fail only in a relation
  std::map<std::string, size_t> mistakes;  // how often each is named
  bool races = false;
};

// Whether all fills pass and a relation does not. The bug then lies in what the relation changed:
// another mask, another order of the keys.
bool fails_only_in_relation(const Record& record) {
  const auto passes = [](const auto& check) { return check.judgement.outcome.passes(); };
  return std::ranges::all_of(record.fills, passes) &&
         !std::ranges::all_of(record.relations, passes);
}

std::optional<std::string> most_frequent_mistake(const OfImplementation& all) {
  const auto most =
      std::ranges::max_element(all.mistakes, {}, &std::pair<const std::string, size_t>::second);
  if (most == all.mistakes.end() || all.bad < 2) return std::nullopt;
  return fmt::format("in {} of {} bad records {}", most->second, all.bad, most->first);
}

// Bad records that are left out of what divides the others.
std::string in_relations(size_t records) {
  return records == 0 ? ""
                      : fmt::format(" ({} more {} only in a relation)", records,
                                    records == 1 ? "fails" : "fail");
}

}  // namespace

std::vector<std::string> patterns(const std::vector<Record>& records) {
  std::map<std::string, OfImplementation> by_impl;
  for (const Record& record : records) {
    if (!record.outcome.is_bad() && !record.outcome.passes()) continue;
    OfImplementation& all = by_impl[record.impl];
    all.races |= core::shows_race(record);
    if (record.outcome.passes()) {
      all.sides.passing.emplace_back(record);
      continue;
    }
    ++all.bad;
    if (!fails_only_in_relation(record)) all.sides.bad.emplace_back(record);
    if (const std::string one = mistake(record); !one.empty()) ++all.mistakes[one];
  }
  std::vector<std::string> lines;
  for (const auto& [impl, all] : by_impl) {
    if (all.races) continue;
    const size_t others = all.bad - all.sides.bad.size();
    if (const auto words = what_divides(all.sides))
      lines.push_back(fmt::format("{}: {}{}", impl, *words, in_relations(others)));
    if (const auto words = most_frequent_mistake(all))
      lines.push_back(fmt::format("{}: {}", impl, *words));
  }
  return lines;
}

}  // namespace attest::reports
