#include "core/operations/declaration.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

constexpr ArithmeticWay kSharedWays[] = {
    {ATTEST_FLUSHES_SUBNORMALS, "flushes"},
    {ATTEST_NONDETERMINISTIC, "nondeterministic"},
};

bool names(const ArithmeticStage& stage, std::string_view word) {
  return word == stage.name || (*stage.alias != 0 && word == stage.alias);
}

const ArithmeticStage* find_stage(const Operation& operation, std::string_view word) {
  for (const ArithmeticStage& stage : operation.stages())
    if (names(stage, word)) return &stage;
  return nullptr;
}

bool has_stage(const Operation& operation, size_t index) {
  return std::ranges::any_of(operation.stages(), [&](const ArithmeticStage& stage) {
    return size_t(stage.index) == index;
  });
}

/// The shared ways and the operation's own.
std::vector<ArithmeticWay> all_ways(const Operation& operation) {
  const std::span<const ArithmeticWay> own = operation.ways();
  std::vector<ArithmeticWay> ways(own.begin(), own.end());
  ways.insert(ways.end(), std::begin(kSharedWays), std::end(kSharedWays));
  return ways;
}

constexpr std::string_view kRelError = "-rel-error", kChain = "chain";

// A word that says more of an arithmetic than the dtype of a stage; false: `item` is no such word.
bool read_more(std::string_view item, const Operation& operation, Arithmetic& arithmetic) {
  for (const ArithmeticWay& way : all_ways(operation))
    if (item == way.name) {
      arithmetic.ways |= way.bit;
      return true;
    }
  const size_t equals = item.find('=');
  if (equals == item.npos) return false;
  const std::string_view word = item.substr(0, equals);
  const std::string value(item.substr(equals + 1));
  char* end = nullptr;
  if (word == kChain) {
    arithmetic.sum_chain = std::strtoll(value.c_str(), &end, 10);
    return *end == '\0' && arithmetic.sum_chain > 0;
  }
  if (!word.ends_with(kRelError)) return false;
  const ArithmeticStage* stage =
      find_stage(operation, word.substr(0, word.size() - kRelError.size()));
  if (!stage || !stage->has_function) return false;
  double& error = arithmetic.stage[size_t(stage->index)].rel_error;
  error = std::strtod(value.c_str(), &end);
  return *end == '\0' && error > 0 && error <= unit_roundoff(ATTEST_BF16);
}

}  // namespace

std::string wrong_declaration(const Operation& operation, const attest_support& support) {
  for (size_t index = 0; index < ATTEST_STAGES; ++index) {
    const attest_stage& declared = support.stage[index];
    if ((declared.dtype != ATTEST_NONE || declared.rel_error != 0) && !has_stage(operation, index))
      return fmt::format("stage[{}] is declared, which {} does not have", index, operation.name());
  }
  for (const ArithmeticStage& stage : operation.stages()) {
    const attest_stage& declared = support.stage[stage.index];
    const DType dtype = declared.dtype;
    if (dtype != ATTEST_NONE && (dtype < 0 || dtype > ATTEST_3XTF32 || !is_float(dtype)))
      return fmt::format(
          "the dtype of stage {} is {}, which is no arithmetic that this harness knows", stage.name,
          dtype);
    const auto error = double(declared.rel_error);
    if (error != 0 && !stage.has_function)
      return fmt::format("rel_error of stage {} is {}, where no function is computed", stage.name,
                         error);
    if (!(error >= 0 && error <= unit_roundoff(ATTEST_BF16)))
      return fmt::format("rel_error of stage {} is {}, where 0 to 2^-8 can be judged", stage.name,
                         error);
  }
  uint32_t unknown = support.arithmetic;
  for (const ArithmeticWay& way : all_ways(operation)) unknown &= ~way.bit;
  if (unknown != 0)
    return fmt::format("arithmetic has bits {:#x}, which {} does not have", unknown,
                       operation.name());
  if (support.sum_chain < 0) return fmt::format("sum_chain is {}", support.sum_chain);
  return {};
}

Arithmetic declared_arithmetic(const attest_support& support, DType output) {
  Arithmetic arithmetic{
      .output = output, .ways = support.arithmetic, .sum_chain = support.sum_chain};
  for (size_t index = 0; index < ATTEST_STAGES; ++index) {
    const attest_stage& declared = support.stage[index];
    arithmetic.stage[index] = {.dtype = is_float(declared.dtype) ? declared.dtype : ATTEST_F32,
                               .rel_error = double(declared.rel_error)};
  }
  return arithmetic;
}

std::string print(const Operation& operation, const Arithmetic& arithmetic) {
  std::vector<std::string> words;
  for (const ArithmeticStage& stage : operation.stages())
    words.push_back(
        fmt::format("{}={}", stage.name, dtype_name(arithmetic.stage[size_t(stage.index)].dtype)));
  for (const ArithmeticWay& way : all_ways(operation))
    if (arithmetic.has(way.bit)) words.emplace_back(way.name);
  for (const ArithmeticStage& stage : operation.stages())
    if (const double error = arithmetic.stage[size_t(stage.index)].rel_error; error > 0)
      words.push_back(fmt::format("{}{}={:g}", stage.name, kRelError, error));
  if (arithmetic.sum_chain > 0) words.push_back(fmt::format("{}={}", kChain, arithmetic.sum_chain));
  return fmt::format("{}", fmt::join(words, ","));
}

std::string stage_words(std::span<const Operation* const> operations) {
  std::vector<std::string> words;
  for (const Operation* operation : operations)
    for (const ArithmeticStage& stage : operation->stages())
      if (std::ranges::find(words, stage.name) == words.end()) words.emplace_back(stage.name);
  return fmt::format("{}", fmt::join(words, ", "));
}

MinArithmetic parse_min_arithmetic(std::string_view text,
                                   std::span<const Operation* const> operations,
                                   std::string_view where) {
  MinArithmetic least;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t equals = item.find('=');
    const std::string_view word = item.substr(0, equals);
    if (std::ranges::none_of(operations, [&](const Operation* operation) {
          return find_stage(*operation, word) != nullptr;
        }))
      throw Error(fmt::format("{}: {}: a word of {}, then = and a dtype, e.g. acc=f32", where,
                              in_quotes(item), stage_words(operations)));
    const auto dtype =
        equals == item.npos ? std::nullopt : dtype_from_name(item.substr(equals + 1));
    if (!dtype || !is_float(*dtype))
      throw Error(fmt::format("{}: {}: the dtype must be f64, f32, 3xtf32, tf32, f16 or bf16",
                              where, in_quotes(item)));
    least.emplace_back(word, *dtype);
  }
  return least;
}

Arithmetic parse_arithmetic(std::string_view text, const Operation& operation,
                            std::string_view where) {
  Arithmetic arithmetic;
  const Operation* const only = &operation;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    if (read_more(item, operation, arithmetic)) continue;
    for (const auto& [word, dtype] : parse_min_arithmetic(item, {&only, 1}, where))
      arithmetic.stage[size_t(find_stage(operation, word)->index)].dtype = dtype;
  }
  return arithmetic;
}

std::string falls_short(const Operation& operation, const Arithmetic& arithmetic,
                        const MinArithmetic& least) {
  for (const auto& [word, wanted] : least) {
    for (const ArithmeticStage& stage : operation.stages()) {
      if (!names(stage, word)) continue;
      const auto& [declared, rel_error] = arithmetic.stage[size_t(stage.index)];
      if (unit_roundoff(declared) > unit_roundoff(wanted))
        return fmt::format("declares {}={}, less than {}={}", stage.name, dtype_name(declared),
                           word, dtype_name(wanted));
      // A coarse exp is a coarse probability. A few units in the last place are any exp's.
      if (rel_error > 8 * unit_roundoff(wanted))
        return fmt::format("declares an exp with an error of {:g}, less than {}={}", rel_error,
                           word, dtype_name(wanted));
    }
  }
  return {};
}

}  // namespace attest::core
