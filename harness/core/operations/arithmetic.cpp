#include "core/operations/arithmetic.hpp"

#include <fmt/format.h>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

struct Word {
  const char* name;
  DType Arithmetic::* declared;
  DType MinArithmetic::* least;
};
constexpr Word kWords[] = {
    {"qk", &Arithmetic::qk, &MinArithmetic::qk},
    {"pv", &Arithmetic::pv, &MinArithmetic::pv},
    {"score", &Arithmetic::score, &MinArithmetic::score},
    {"prob", &Arithmetic::probability, &MinArithmetic::probability},
    {"acc", &Arithmetic::accumulator, &MinArithmetic::accumulator},
};
struct Flag {
  uint32_t bit;
  const char* name;
};
constexpr Flag kFlags[] = {
    {ATTEST_P_NORMALISED_FIRST, "normalised-first"}, {ATTEST_P_TRUNCATED, "truncated"},
    {ATTEST_SUMS_ROUNDED_P, "sums-rounded"},         {ATTEST_FLUSHES_SUBNORMALS, "flushes"},
    {ATTEST_NONDETERMINISTIC, "nondeterministic"},   {ATTEST_WEIGHS_BY_LSE, "weighs-by-lse"},
    {ATTEST_WEIGHS_PAIRS, "weighs-pairs"},
};

}  // namespace

std::string wrong_declaration(const attest_support& support) {
  for (const auto& [name, dtype] : {std::pair{"qk_operand_dtype", support.qk_operand_dtype},
                                    {"pv_operand_dtype", support.pv_operand_dtype},
                                    {"score_dtype", support.score_dtype},
                                    {"probability_dtype", support.probability_dtype},
                                    {"accumulator_dtype", support.accumulator_dtype}})
    if (dtype != ATTEST_NONE && (dtype < 0 || dtype > ATTEST_3XTF32 || !is_float(dtype)))
      return fmt::format("{} is {}, which is no arithmetic that this harness knows", name, dtype);
  const double error = double(support.probability_rel_error);
  if (!(error >= 0 && error <= unit_roundoff(ATTEST_BF16)))
    return fmt::format("probability_rel_error is {}, where 0 to 2^-8 can be judged", error);
  if (support.sum_chain < 0) return fmt::format("sum_chain is {}", support.sum_chain);
  return {};
}

Arithmetic declared_arithmetic(const attest_support& support, DType output) {
  auto or_f32 = [](int32_t dtype) { return is_float(dtype) ? dtype : ATTEST_F32; };
  return {.qk = or_f32(support.qk_operand_dtype),
          .pv = or_f32(support.pv_operand_dtype),
          .score = or_f32(support.score_dtype),
          .probability = or_f32(support.probability_dtype),
          .accumulator = or_f32(support.accumulator_dtype),
          .output = output,
          .flags = support.arithmetic,
          .probability_rel_error = double(support.probability_rel_error),
          .sum_chain = support.sum_chain};
}

std::string print(const Arithmetic& arithmetic) {
  std::string text;
  for (const Word& word : kWords)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", word.name,
                        dtype_name(arithmetic.*word.declared));
  for (const Flag& flag : kFlags)
    if (arithmetic.has(flag.bit)) text += fmt::format(",{}", flag.name);
  if (arithmetic.probability_rel_error > 0)
    text += fmt::format(",prob-rel-error={:g}", arithmetic.probability_rel_error);
  if (arithmetic.sum_chain > 0) text += fmt::format(",chain={}", arithmetic.sum_chain);
  return text;
}

MinArithmetic parse_min_arithmetic(std::string_view text, std::string_view where) {
  MinArithmetic least;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t equals = item.find('=');
    const Word* word = nullptr;
    for (const Word& candidate : kWords)
      if (item.substr(0, equals) == candidate.name) word = &candidate;
    if (!word)
      throw Error(fmt::format(
          "{}: {}: a word of qk, pv, score, prob, acc, then = and a dtype, e.g. acc=f32,prob=bf16",
          where, in_quotes(item)));
    const auto dtype =
        equals == item.npos ? std::nullopt : dtype_from_name(item.substr(equals + 1));
    if (!dtype || !is_float(*dtype))
      throw Error(fmt::format("{}: {}: the dtype must be f64, f32, 3xtf32, tf32, f16 or bf16",
                              where, in_quotes(item)));
    least.*word->least = *dtype;
  }
  return least;
}

std::string falls_short(const Arithmetic& arithmetic, const MinArithmetic& least) {
  for (const Word& word : kWords) {
    const DType wanted = least.*word.least, declared = arithmetic.*word.declared;
    if (wanted != ATTEST_NONE && unit_roundoff(declared) > unit_roundoff(wanted))
      return fmt::format("declares {0}={1}, less than {0}={2}", word.name, dtype_name(declared),
                         dtype_name(wanted));
    // A coarse exp is a coarse probability. A few units in the last place are any exp's.
    const bool probability = word.declared == &Arithmetic::probability;
    if (probability && wanted != ATTEST_NONE &&
        arithmetic.probability_rel_error > 8 * unit_roundoff(wanted))
      return fmt::format("declares an exp with an error of {:g}, less than prob={}",
                         arithmetic.probability_rel_error, dtype_name(wanted));
  }
  return {};
}

}  // namespace attest::core
