#include "core/problem/sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "core/problem/hint.hpp"
#include "core/problem/quantities.hpp"
#include "core/problem/spec.hpp"
#include "core/problem/values.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

constexpr double kSizeStep = 4;  // from point to point
constexpr int64_t kLargestSize = int64_t{1} << 31;
// Fields of which a problem needs only one, and those that say how many tokens it has.
constexpr std::string_view kBatch = "batch", kTokenFields[] = {"seq_len_q", "seq_len_kv"};
constexpr int64_t kMostSmallestTokens = 64;
// The smallest problem does less work than this share of the first point of its sweep.
constexpr double kSmallestShare = 0.1;

std::optional<int64_t> parse_size(std::string_view text, int64_t n) {
  return text == "n" && n > 0 ? std::optional(n) : parse_count(text, 1, kLargestSize);
}

std::optional<double> parse_step(std::string_view text) {
  const std::optional<float> step = parse_float(text);
  return step && *step >= 1.1f && *step <= 1024 ? std::optional(double(*step)) : std::nullopt;
}

// Points a factor of `step` apart, and the end in place of one that is close to it.
std::vector<int64_t> log_steps(int64_t low, int64_t high, double step) {
  std::set<int64_t> values{low, high};
  for (double value = double(low) * step; value * std::sqrt(step) <= double(high) * (1 + 1e-9);
       value *= step)
    values.insert(std::llround(value));
  return {values.begin(), values.end()};
}

struct OverWord {
  std::string field;
  std::vector<int64_t> values;
};

/// The field that is meant, or those that there are.
std::string hint_of(const std::string& field, const std::vector<std::string>& known) {
  const std::string hint = did_you_mean(field, known);
  return hint.empty() ? fmt::format("; it has {}", fmt::join(known, ", ")) : hint;
}

OverWord parse_over(const Operation& operation, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw Error(fmt::format("over {}: must be a field and its sizes, e.g. seq_len_q=1k..256k",
                            in_quotes(text)));
  OverWord over{text.substr(0, equals), {}};
  std::vector<std::string> known;
  for (const Field& field : operation.fields())
    if (field.type != Field::Type::kF32) known.emplace_back(field.name);
  if (std::ranges::find(known, over.field) == known.end())
    throw Error(fmt::format("over {}: {} has no such field with whole numbers{}", in_quotes(text),
                            operation.name(), hint_of(over.field, known)));
  const auto values = parse_range(std::string_view(text).substr(equals + 1), kSizeStep);
  if (!values)
    throw Error(
        fmt::format("over {}: must be {}, the smallest first", in_quotes(text), kRangeWords));
  over.values = *values;
  return over;
}

Word* find_word(std::vector<Word>& words, std::string_view key) {
  const auto at = std::ranges::find(words, key, &Word::key);
  return at == words.end() ? nullptr : &*at;
}

void set_word(std::vector<Word>& words, std::string_view key, int64_t value) {
  Word* word = find_word(words, key);
  if (!word) word = &words.emplace_back(Word{std::string(key), ""});
  word->value = fmt::format("{}", value);
}

std::vector<Word> split_words(std::string_view spec) {
  std::vector<Word> words;
  for (size_t at = spec.find_first_not_of(' '); at != spec.npos;
       at = spec.find_first_not_of(' ', at)) {
    const size_t end = std::min(spec.find(' ', at), spec.size());
    const std::string_view word = spec.substr(at, end - at);
    const size_t equals = std::min(word.find('='), word.size());
    words.push_back({std::string(word.substr(0, equals)),
                     std::string(word.substr(std::min(equals + 1, word.size())))});
    at = end;
  }
  return words;
}

std::string print_spec(const std::string& operation, const std::vector<Word>& words) {
  std::string line = operation;
  for (const auto& [key, value] : words)
    line += fmt::format(" {}{}{}", key, value.empty() ? "" : "=", value);
  return line;
}

std::string name_by_features(const Problem& problem) {
  std::string name(problem.operation->name());
  for (const std::string& feature : feature_names(problem.features, problem.operation))
    name += "+" + feature;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return name;
}

bool is_valid(const Case& one, DType dtype) {
  try {
    one.problem(dtype, 0);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The problem with so many tokens in one sequence.
Case with_tokens(const Sweep& sweep, int64_t tokens) {
  Case one = sweep.of.base;
  std::erase_if(one.words, [](const Word& word) { return word.key == kBatch; });
  for (const std::string_view field : kTokenFields)
    if (find_word(one.words, field)) set_word(one.words, field, tokens);
  return one;
}

}  // namespace

std::optional<std::vector<int64_t>> parse_range(std::string_view text, double step, int64_t n) {
  std::vector<int64_t> values;
  if (const size_t dots = text.find(".."); dots != text.npos) {
    const size_t colon = std::min(text.find(':', dots), text.size());
    const std::optional<int64_t> low = parse_size(text.substr(0, dots), n),
                                 high = parse_size(text.substr(dots + 2, colon - dots - 2), n);
    const std::optional<double> own_step =
        colon < text.size() ? parse_step(text.substr(colon + 1)) : step;
    if (!low || !high || !own_step || *low > *high) return std::nullopt;
    values = log_steps(*low, *high, *own_step);
  } else {
    for (size_t at = 0; at <= text.size();) {
      const size_t comma = std::min(text.find(',', at), text.size());
      const std::optional<int64_t> value = parse_size(text.substr(at, comma - at), n);
      if (!value || (!values.empty() && *value <= values.back())) return std::nullopt;
      values.push_back(*value);
      at = comma + 1;
    }
  }
  return values.size() <= kMostSweepValues ? std::optional(values) : std::nullopt;
}

Problem Sweep::at(DType dtype, int64_t value) const {
  Case one = of.base;
  set_word(one.words, over, value);
  try {
    return one.problem(dtype, 0);
  } catch (const Error& error) {
    throw Error(fmt::format("over {}={}: {}", over, value, error.what()));
  }
}

std::optional<Problem> Sweep::smallest(DType dtype) const {
  const Problem first = at(dtype, values.front());
  const double most = kSmallestShare * first.operation->flops(first);
  for (int64_t tokens = 1; tokens <= kMostSmallestTokens; tokens *= 2) {
    const Case one = with_tokens(*this, tokens);
    if (!is_valid(one, dtype)) continue;
    const Problem problem = one.problem(dtype, 0);
    if (problem.operation->flops(problem) < most) return problem;
  }
  return std::nullopt;
}

std::optional<int64_t> Sweep::between(int64_t low, int64_t high) const {
  constexpr int64_t kTile = 16;  // where both ends are whole tiles, so is the middle
  auto middle = std::llround(std::sqrt(double(low) * double(high)));
  if (low % kTile == 0 && high % kTile == 0) middle = (middle + kTile / 2) / kTile * kTile;
  if (middle <= low || middle >= high) return std::nullopt;
  Case one = of.base;
  set_word(one.words, over, middle);
  const bool valid =
      std::ranges::all_of(one.dtypes, [&](const DType dtype) { return is_valid(one, dtype); });
  return valid ? std::optional(int64_t(middle)) : std::nullopt;
}

std::vector<Sweep> sweeps_of(const Scaling& scaling) {
  std::vector<Sweep> sweeps;
  const Operation& operation = operation_of(scaling.base.operation);
  for (const std::string& word : scaling.over) {
    OverWord over = parse_over(operation, word);
    if (std::ranges::find(sweeps, over.field, &Sweep::over) != sweeps.end())
      throw Error(fmt::format("over {}: {} is swept twice", in_quotes(word), over.field));
    const Sweep& sweep = sweeps.emplace_back(Sweep{scaling, over.field, std::move(over.values)});
    for (const DType dtype : scaling.base.dtypes)
      for (const int64_t value : sweep.values) sweep.at(dtype, value);
  }
  return sweeps;
}

void add_first_sizes(const Operation& operation, const std::vector<std::string>& over,
                     std::vector<Word>& words) {
  for (const std::string& word : over) {
    const OverWord one = parse_over(operation, word);
    if (!find_word(words, one.field)) set_word(words, one.field, one.values.front());
  }
}

Scaling scaling_of_spec(std::string_view spec, const std::vector<std::string>& over,
                        const std::vector<std::string>& dtypes) {
  std::vector<Word> words = split_words(spec);
  if (words.empty()) throw Error("an empty problem; e.g. softmax num_heads=8 head_dim=64");
  const std::string operation = words.front().key;
  words.erase(words.begin());
  add_first_sizes(operation_of(operation), over, words);
  Scaling scaling;
  scaling.over = over;
  scaling.base.operation = operation;
  const std::string line = print_spec(operation, words);
  const std::vector<std::string> lines = lines_in_dtypes(line, dtypes);
  scaling.base.name = name_by_features(parse_problem(line));
  for (const std::string& in_dtype : lines)
    scaling.base.dtypes.push_back(parse_problem(in_dtype).dtype);
  std::erase_if(words, [](const Word& word) { return word.key == "dtype"; });
  scaling.base.words = std::move(words);
  return scaling;
}

}  // namespace attest::core
