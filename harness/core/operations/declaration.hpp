// What an implementation declares of its arithmetic: read, checked, printed, compared.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

/// "" when the declaration can be judged by, else what is wrong with it: a stage or a way that the
/// operation does not have, an unknown dtype, an error of exp that is not finite, negative or above
/// the roundoff of bf16, a negative chain. An implementation that could declare any error would
/// pass with any.
std::string wrong_declaration(const Operation& operation, const attest_support& support);
/// What `support` declares for outputs of dtype `output`; a dtype of 0 counts as f32.
Arithmetic declared_arithmetic(const attest_support& support, DType output);
/// As a record shows it: "qk=f32,pv=f32,score=f32,prob=f32,acc=f32,chain=64".
std::string print(const Operation& operation, const Arithmetic& arithmetic);

/// The least that `--min-arithmetic` accepts: a dtype for each word. A word says nothing of an
/// operation without such a stage.
using MinArithmetic = std::vector<std::pair<std::string, DType>>;
/// The words of these operations' stages, each once: "qk, pv, score, prob, acc".
std::string stage_words(std::span<const Operation* const> operations);
/// Words of stages, each with = and a dtype, separated by commas: "acc=f32,prob=bf16". Throws
/// Error, which begins with `where`, on a dtype that is none and on a word that names no stage of
/// any of `operations`.
MinArithmetic parse_min_arithmetic(std::string_view text,
                                   std::span<const Operation* const> operations,
                                   std::string_view where = "--min-arithmetic");
/// The same as a declaration of the operation: stages that are left out compute in f32. It reads
/// all that print() writes: "acc=f32,nondeterministic,prob-rel-error=1e-05,chain=64".
Arithmetic parse_arithmetic(std::string_view text, const Operation& operation,
                            std::string_view where);
/// "" when `arithmetic` is at least `least` in every stage that it names, else the reason, e.g.
/// "declares acc=f16, less than acc=f32". More precise is a smaller unit roundoff.
std::string falls_short(const Operation& operation, const Arithmetic& arithmetic,
                        const MinArithmetic& least);

}  // namespace attest::core
