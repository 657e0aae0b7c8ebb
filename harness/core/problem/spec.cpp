#include "core/problem/spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "core/problem/hint.hpp"
#include "core/problem/quantities.hpp"
#include "core/problem/tensor_words.hpp"
#include "core/problem/values.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

constexpr int64_t kLargestField = int64_t{1} << 31;  // products of two stay in int64_t
constexpr std::string_view kDTypeWord = "dtype", kUnalignedWord = "unaligned",
                           kOrderSuffix = ".order", kStridesSuffix = ".strides";
constexpr std::string_view kTrue = "true";  // as in suites: the word alone says the same

// Short forms of fields, for operations that have all of them.
struct Sugar {
  std::string_view word, value;
  std::vector<std::pair<std::string_view, std::string_view>> fields;
};
const std::vector<Sugar>& sugars() {
  static const std::vector<Sugar> all{
      {"causal", "", {{"window_right", "0"}}},
      {"causal", "top_left", {{"window_right", "0"}}},
      {"causal", "bottom_right", {{"window_right", "0"}, {"diagonal", "1"}}}};
  return all;
}

const Field* find_field(const Operation& operation, std::string_view name) {
  for (const Field& field : operation.fields())
    if (field.name == name) return &field;
  return nullptr;
}

bool has_sugar(const Operation& operation, std::string_view word) {
  for (const Sugar& sugar : sugars())
    if (sugar.word == word && !std::ranges::all_of(sugar.fields, [&](const auto& field) {
          return find_field(operation, field.first);
        }))
      return false;
  return std::ranges::any_of(sugars(), [word](const Sugar& sugar) { return sugar.word == word; });
}

// Why a word names no dtype of tensors: "'k=f8e4m3': f8e4m3 is not judged here; must be f32, f16,
// bf16 or f64".
std::string wrong_dtype(std::string_view text, std::optional<DType> dtype,
                        const std::string& right) {
  return fmt::format(
      "{}: {}must be {}", in_quotes(text),
      dtype && is_f8(*dtype) ? fmt::format("{} is not judged here; ", dtype_name(*dtype)) : "",
      right);
}
// Of the dtype of a whole problem: "... or f64; for 8 bits give dtype=f16 q=f8e4m3 k=f8e4m3
// v=f8e4m3".
std::string wrong_main_dtype(const Operation& operation, std::string_view text,
                             std::optional<DType> dtype) {
  std::string right(kJudgedFloats), tensors;
  for (const Role& role : operation.roles())
    if (dtype && is_f8(*dtype) && operation.may_be_f8(role.index))
      tensors += fmt::format(" {}={}", role.name, dtype_name(*dtype));
  if (!tensors.empty())
    right += fmt::format(", that of the outputs; 8 bits are those of single tensors: dtype=f16{}",
                         tensors);
  return wrong_dtype(text, dtype, right);
}

// What a field may be whose value `text` is none, or none from -most to most.
std::string right_count(std::string_view text, int64_t most) {
  const bool is_whole = text.find_first_not_of("-0123456789") == std::string_view::npos ||
                        parse_count(text, INT64_MIN, INT64_MAX);
  return is_whole ? fmt::format("a whole number from {} to {}", -most, most)
                  : std::string(kCountWords);
}

class Parser {
 public:
  explicit Parser(const Operation& operation)
      : operation_(operation), problem_(blank_problem(operation, ATTEST_F32)) {}

  void word(std::string_view text) {
    const size_t equals = text.find('=');
    key_ = text.substr(0, equals);
    text_ = text;
    value_ = equals == std::string_view::npos ? "" : text.substr(equals + 1);
    if (equals != std::string_view::npos && value_.empty())
      throw Error(fmt::format("{}: a value must follow the '='", in_quotes(text)));
    once(key_);
    if (key_ == kDTypeWord) return read_dtype();
    if (const Field* field = find_field(operation_, key_)) return read_field(*field, value_);
    if (has_sugar(operation_, key_)) return read_sugar();
    if (const Role* role = find_role(operation_, key_)) return read_tensor(*role);
    if (key_ == kUnalignedWord) return read_unaligned();
    if (key_.ends_with(kOrderSuffix))
      return read_layout(kOrderSuffix, parse_order,
                         "the dims' numbers, outermost first, e.g. 0213");
    if (key_.ends_with(kStridesSuffix))
      return read_layout(kStridesSuffix, parse_strides, "a list in elements, e.g. [2048,64,128,1]");
    unknown();
  }

  Problem finish() {
    for (const auto& [index, word] : words_) {
      const Role& role = *find_role(operation_, index);
      if (!role.required && !named_.contains(index))
        throw Error(
            fmt::format("{0}: this problem has no such tensor; add the word {0}", role.name));
    }
    operation_.complete(problem_);
    place_tensors(problem_, words_);
    finish_problem(problem_);
    return problem_;
  }

 private:
  void once(std::string_view key) {
    if (!seen_.emplace(key).second) throw Error(fmt::format("{}: given twice", in_quotes(key)));
  }

  [[noreturn]] void unknown() const {
    throw Error(fmt::format("unknown word {} for {}{}", in_quotes(key_), operation_.name(),
                            did_you_mean(key_, spec_words(operation_))));
  }

  void read_dtype() {
    const auto dtype = dtype_from_name(value_);
    if (!dtype || !is_judged_float(*dtype)) throw Error(wrong_main_dtype(operation_, text_, dtype));
    problem_.dtype = *dtype;
  }

  void read_field(const Field& field, std::string_view value) {
    if (field.type == Field::Type::kF32) {
      const auto number = parse_float(value);
      if (!number)
        throw Error(fmt::format("{}: {} must be a number that a float holds, e.g. 0.125",
                                in_quotes(text_), field.name));
      return set_field(problem_, field, double(*number));
    }
    const int64_t most =
        field.type == Field::Type::kI32 ? std::numeric_limits<int32_t>::max() : kLargestField;
    const auto number = parse_count(value, -most, most);
    if (!number)
      throw Error(
          fmt::format("{}: {} must be {}", in_quotes(text_), field.name, right_count(value, most)));
    set_field(problem_, field, double(*number));
  }

  void read_sugar() {
    if (value_ == kTrue) value_ = "";
    std::vector<std::string> values;
    for (const Sugar& sugar : sugars()) {
      if (sugar.word != key_) continue;
      values.push_back(std::string(key_) + (sugar.value.empty() ? "" : "=") +
                       std::string(sugar.value));
      if (sugar.value != value_) continue;
      for (const auto& [name, value] : sugar.fields) {
        once(name);
        read_field(*find_field(operation_, name), value);
      }
      return;
    }
    throw Error(fmt::format("{}: must be {}", in_quotes(text_), fmt::join(values, " or ")));
  }

  void read_tensor(const Role& role) {
    named_.insert(role.index);
    TensorWord& word = words_[role.index];
    if (text_.size() == key_.size() || value_ == kTrue) return;
    if (!parse_tensor(value_, word))
      throw Error(fmt::format(
          "{0}: must be a dtype, dims, or both, e.g. {1}={2}[1,1,197,197]; or the word {1} alone",
          in_quotes(text_), role.name,
          dtype_name(role.dtype == ATTEST_NONE ? problem_.dtype : role.dtype)));
    if (role.dtype == ATTEST_NONE && word.dtype != ATTEST_NONE &&
        !may_have(operation_, role, word.dtype))
      throw Error(wrong_dtype(text_, word.dtype, right_dtypes(operation_, role)));
  }

  void read_unaligned() {
    if (text_.size() != key_.size() && value_ != kTrue)
      throw Error(fmt::format("{}: unaligned has no value but true", in_quotes(text_)));
    problem_.features |= ATTEST_WITH_UNALIGNED;
  }

  void read_layout(std::string_view suffix, bool (*parse)(std::string_view, TensorWord&),
                   const char* right) {
    const Role* role = find_role(operation_, key_.substr(0, key_.size() - suffix.size()));
    if (!role) unknown();
    TensorWord& word = words_[role->index];
    if (!word.order.empty() || !word.strides.empty())
      throw Error(fmt::format("{}: {} has both order and strides; leave one out", in_quotes(text_),
                              role->name));
    if (!parse(value_, word)) throw Error(fmt::format("{}: must be {}", in_quotes(text_), right));
  }

  const Operation& operation_;
  Problem problem_;
  std::set<std::string, std::less<>> seen_;
  TensorWords words_;
  std::set<int32_t> named_;  // roles that have a word of their own
  std::string_view key_, value_, text_;
};

// Field values that completion would not give by itself; the others stay neutral in a line.
std::vector<const Field*> stated_fields(const Problem& problem) {
  std::vector<const Field*> stated;
  Problem sketch = problem;
  for (const Field& field : problem.operation->fields()) {
    const double value = get_field(sketch, field);
    set_field(sketch, field, field.neutral);
    Problem completed = sketch;
    problem.operation->complete(completed);
    if (completed.params == problem.params) continue;
    set_field(sketch, field, value);
    stated.push_back(&field);
  }
  return stated;
}

std::string print_field(const Problem& problem, const Field& field) {
  const double value = get_field(problem, field);
  return field.type == Field::Type::kF32 ? print_float(float(value))
                                         : fmt::format("{}", int64_t(value));
}

}  // namespace

std::string print_problem(const Problem& problem) {
  const Operation& operation = *problem.operation;
  std::string line =
      fmt::format("{} {}={}", operation.name(), kDTypeWord, dtype_name(problem.dtype));
  for (const Field* field : stated_fields(problem))
    line += fmt::format(" {}={}", field->name, print_field(problem, *field));
  const TensorWords words = tensor_words(problem);
  for (const Role& role : operation.roles())
    if (const auto at = words.find(role.index); at != words.end())
      line += print_tensor(role, at->second);
  if (problem.features & ATTEST_WITH_UNALIGNED) line += fmt::format(" {}", kUnalignedWord);
  return line;
}

Problem parse_problem(std::string_view line) {
  if (line.size() > kLongestSpec)
    throw Error(fmt::format("a problem of {} characters; {} at most", line.size(), kLongestSpec));
  for (size_t i = 0; i < line.size(); ++i)
    if (line[i] < ' ' || line[i] > '~')
      throw Error(fmt::format("character {} of the problem is not printable ASCII", i + 1));
  std::vector<std::string_view> words;
  for (size_t at = line.find_first_not_of(' '); at != std::string_view::npos;
       at = line.find_first_not_of(' ', at)) {
    const size_t end = std::min(line.find(' ', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  if (words.empty())
    throw Error("an empty problem; e.g. softmax dtype=f16 num_heads=12 seq_len_q=197 head_dim=64");
  Parser parser(operation_of(words[0]));
  for (size_t i = 1; i < words.size(); ++i) parser.word(words[i]);
  return parser.finish();
}

std::vector<std::string> lines_in_dtypes(const std::string& line,
                                         const std::vector<std::string>& dtypes) {
  if (dtypes.empty()) return {line};
  if ((" " + line).find(fmt::format(" {}=", kDTypeWord)) != std::string::npos)
    throw Error("--dtype: the problem has dtype= too; leave one out");
  std::vector<std::string> lines;
  for (const std::string& dtype : dtypes)
    lines.push_back(fmt::format("{} {}={}", line, kDTypeWord, dtype));
  return lines;
}

std::vector<std::string> spec_words(const Operation& operation) {
  std::vector<std::string> words{std::string(kDTypeWord), std::string(kUnalignedWord)};
  for (const Field& field : operation.fields()) words.emplace_back(field.name);
  for (const Sugar& sugar : sugars())
    if (has_sugar(operation, sugar.word) && std::ranges::find(words, sugar.word) == words.end())
      words.emplace_back(sugar.word);
  for (const Role& role : operation.roles())
    for (const std::string_view suffix : {std::string_view(), kOrderSuffix, kStridesSuffix})
      words.push_back(std::string(role.name) + std::string(suffix));
  return words;
}

const Operation& operation_of(std::string_view name) {
  if (const Operation* operation = find_operation(name)) return *operation;
  std::vector<std::string> names;
  for (const Operation* operation : all_operations()) names.emplace_back(operation->name());
  throw Error(fmt::format("unknown operation {}{} (there are: {})", in_quotes(name),
                          did_you_mean(name, names), fmt::join(names, ", ")));
}

}  // namespace attest::core
