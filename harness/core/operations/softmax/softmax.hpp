// Softmax attention: o = softmax(softcap(softmax_scale q.k) + bias) v over the visible keys.
// Parameters, tensors, inputs, golden.
//
//   Problem problem = blank_problem(softmax_operation(), ATTEST_F16);
//   problem.as<attest_softmax_params>().seq_len_q = 197;
//   problem.as<attest_softmax_params>().head_dim = 64;
//   finish_problem(problem);  // the rest follows; Error where it makes no sense
//   softmax_operation().fill(problem, {"random", 1}, tensors, false);
//   const auto golden = softmax_operation().golden(problem, {"random", 1}, tensors);
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/operations/operation.hpp"
#include "core/operations/softmax/arithmetic.hpp"

namespace attest::core {

/// ATTEST_SOFTMAX. Neutral values: num_kv_heads, seq_len_kv, head_dim_v -1 (as num_heads,
/// seq_len_q, head_dim), softmax_scale 0 (1 / sqrt(head_dim), rounded to float), windows -1;
/// seq_len_q and head_dim have to be given.
///
/// Packed tensors (CU_SEQLENS present) hold as many tokens as the first given spec among Q, O, LSE
/// (K, V) says; where none is given, seq_len_q + (batch - 1) * seq_len_q / 2: one longest sequence,
/// the others half as long on average. A paged pool holds as many pages as the given K or V says,
/// else one for every entry of the page table. ORDER of packed tokens is [1, tokens] and counts
/// rows of the packed tensor; BIAS and MASK count places of the sequence (tokens on a grid).
class SoftmaxOperation final : public Operation {
 public:
  int32_t number() const override { return ATTEST_SOFTMAX; }
  std::string_view name() const override { return "softmax"; }
  size_t params_size() const override { return sizeof(attest_softmax_params); }
  std::span<const Field> fields() const override;
  std::span<const Role> roles() const override;
  std::span<const ArithmeticStage> stages() const override { return softmax_stages(); }
  std::span<const ArithmeticWay> ways() const override { return softmax_ways(); }
  void complete(Problem& problem) const override;
  std::vector<int64_t> dims(const Problem& problem, int32_t role) const override;
  bool may_broadcast(int32_t role, int axis) const override;
  void check(const Problem& problem) const override;
  uint64_t features(const Problem& problem) const override;
  /// 2 (head_dim + head_dim_v) a visible pair and query head; MASK and BIAS count as visible: their
  /// values are not known here.
  double flops(const Problem& problem) const override;
  std::vector<std::string> fills(const Problem& problem) const override;
  std::vector<std::string> more_fills(const Problem& problem) const override;
  void fill(const Problem& problem, const Fill& fill, const Tensors& tensors,
            bool only_own) const override;
  std::unique_ptr<Golden> golden(const Problem& problem, const Fill& fill,
                                 const Tensors& tensors) const override;
  std::unique_ptr<Golden> golden_with(const GoldenDevice& device, const Problem& problem,
                                      const Fill& fill, const Tensors& tensors) const override;
  std::vector<Variant> variants(const Problem& problem) const override;
  std::vector<std::unique_ptr<Relation>> relations(const Problem& problem,
                                                   const Tensors& inputs) const override;
  int kernels(const Problem& problem, const Arithmetic& arithmetic) const override;
  void emulate(const Problem& problem, const Tensors& tensors, const Arithmetic& arithmetic,
               int kernel, std::span<const int64_t> rows, const EmulationSink& sink) const override;
  /// event_names.cpp has the list, events.hpp says what each is.
  std::vector<NumericEvent> events(const Problem& problem) const override;
  std::set<std::string> count_events(const Problem& problem, const Tensors& inputs,
                                     const std::vector<bool>& judged) const override;
};

const Operation& softmax_operation();

/// Lengths of the sequences that every fill of the problem has (CU_SEQLENS, SEQ_LENS; else all
/// seq_len): a function of the problem alone, so that its cost is known before there are inputs.
/// One sequence is the longest; from two on, one is empty where the packed tokens allow it. Self
/// attention (ORDER, patches) has the same lengths on both sides.
std::vector<int64_t> sequence_lengths(const Problem& problem, bool kv);

/// The part of a fill that does not depend on Q, K, V: CU_SEQLENS, SEQ_LENS, PAGE_TABLE, and ORDER
/// unless `only_own`. Must come first: keys beyond the lengths are known only then. Pages are a
/// permutation of the pool, unread entries are -1.
void fill_tables(const Problem& problem, uint64_t seed, const Tensors& tensors, bool only_own);
/// ALIBI_SLOPES as ALiBi has them, each head's less steep than the one before, from about 1/2 down
/// to 1 / seq_len_kv: the last head sees all of its keys.
void fill_slopes(const Problem& problem, uint64_t seed, const Tensor& slopes);
/// SINKS that weigh about as much as the keys that a row sees: normal numbers on the logarithm of
/// their count, whole octaves of it, and `lift`.
void fill_sinks(const Problem& problem, uint64_t seed, const Tensor& sinks, double lift);
/// Slopes and sinks; BIAS and REL_BIAS normal (BIAS with a few -inf), MASK 80 % ones with a few
/// rows that see nothing.
void fill_terms(const Problem& problem, uint64_t seed, const Tensors& tensors);

/// The fill of standard normal Q and K scaled so that scores have standard deviation 1, and V of
/// mean 0; keys that nobody may see (padding, unused pages) are decoys: large scores, V = 1000.
void fill_random(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own);
/// The same with a few NaN and infinities that rows see. Those of Q and BIAS lie in rows that every
/// sample has (marked_places).
void fill_wild(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own);
/// The float64 golden for any inputs. Where it would take the host long, `device` makes more of its
/// rows; it may be null.
std::unique_ptr<Golden> softmax_golden(const Problem& problem, const Tensors& tensors,
                                       const GoldenDevice* device = nullptr);
/// The same golden for the fill "rising", whose vectors are of few codes.
std::unique_ptr<Golden> rising_golden(const Problem& problem, const Tensors& tensors,
                                      const GoldenDevice* device = nullptr);
/// The same golden on fewer rows, for the fill "wild": one row that sees a NaN tells as much as
/// many.
std::unique_ptr<Golden> wild_golden(const Problem& problem, const Tensors& tensors);

// The closed form of codebook.hpp.
/// Names of the fills that it has for this problem, most telling first; empty where it has none.
std::vector<std::string> codebook_fills(const Problem& problem);
void fill_codebook(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own);
std::unique_ptr<Golden> codebook_golden(const Problem& problem, const Fill& fill,
                                        const Tensors& tensors);

}  // namespace attest::core
