// Softmax attention: o = softmax(softcap(softmax_scale q.k) + bias) v over the visible keys.
// Parameters, tensors, inputs, golden.
//
//   Problem problem = blank_problem(softmax_operation(), ATTEST_F16);
//   problem.as<attest_softmax_params>().seq_len_q = 197;
//   problem.as<attest_softmax_params>().head_dim = 64;
//   finish_problem(problem);  // sets the other parameters; throws Error if the problem is invalid
//   softmax_operation().fill(problem, {"random", 1}, tensors, false);
//   const auto golden = softmax_operation().golden(problem, {"random", 1}, tensors);
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/operations/attention_dims.hpp"
#include "core/operations/operation.hpp"
#include "core/operations/softmax/arithmetic.hpp"

namespace attest::core {

/// ATTEST_SOFTMAX. seq_len_q and head_dim must be given. Neutral values: -1 for num_kv_heads,
/// seq_len_kv and head_dim_v (same as num_heads, seq_len_q and head_dim), 0 for softmax_scale
/// (1 / sqrt(head_dim), rounded to float), -1 for windows.
///
/// Packed tensors (CU_SEQLENS present) have as many tokens as the first given spec among Q, O and
/// LSE, or K and V. If none is given, they have seq_len_q + (batch - 1) * seq_len_q / 2: one
/// longest sequence, and others that are half as long on average. A paged pool has as many pages as
/// the given K or V; by default, one for every entry of the page table. ORDER of packed tokens is
/// [1, tokens] and contains rows of the packed tensor. BIAS and MASK are indexed by positions in
/// the sequence; on a grid, by tokens.
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
  bool may_be_f8(int32_t role) const override {
    return role == ATTEST_Q || role == ATTEST_K || role == ATTEST_V;
  }
  std::string dim_name(int32_t /*role*/, int axis) const override { return attention_dim(axis); }
  void check(const Problem& problem) const override;
  uint64_t features(const Problem& problem) const override;
  /// 2 (head_dim + head_dim_v) for each visible pair and query head; with top_k, head_dim_v counts
  /// for the top_k keys of a row alone. Pairs that MASK or BIAS hides count too, because their
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
  std::vector<Mistake> mistakes(const Problem& problem, const Tensors& inputs) const override;
  std::vector<std::unique_ptr<Relation>> relations(const Problem& problem,
                                                   const Tensors& inputs) const override;
  bool relations_hold_on(std::string_view fill) const override;
  int kernels(const Problem& problem, const Arithmetic& arithmetic) const override;
  void emulate(const Problem& problem, const Tensors& tensors, const Arithmetic& arithmetic,
               int kernel, std::span<const int64_t> rows, const EmulationSink& sink) const override;
  /// events/names.cpp has the list; events.hpp explains each event.
  std::vector<NumericEvent> events(const Problem& problem) const override;
  std::set<std::string> count_events(const Problem& problem, const Tensors& inputs,
                                     const std::vector<bool>& judged) const override;
};

const Operation& softmax_operation();

/// The lengths of the sequences in every fill of the problem: those in CU_SEQLENS or SEQ_LENS, else
/// seq_len for all. They depend on the problem alone, so its cost is known before the inputs exist.
/// One sequence has the full length. As far as batch, tokens and the other side allow, numbers of
/// queries and keys differ, so do their differences from sequence to sequence, some sequence is
/// short, and one is empty. With ORDER or patches, queries and keys have the same lengths.
/// If `other`, the function returns other lengths that the problem may have, made by with_edges().
std::vector<int64_t> sequence_lengths(const Problem& problem, bool kv, bool other = false);

/// Writes the tensors that do not depend on Q, K and V: CU_SEQLENS, SEQ_LENS, PAGE_TABLE, and ORDER
/// unless `only_own`. A fill must call it first, because the other tensors depend on the lengths.
/// The page table is a permutation of the pool; unread entries are -1.
void fill_tables(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own);
/// Writes ALIBI_SLOPES as ALiBi defines them: decreasing from head to head, from about 1/2 to 1 /
/// seq_len_kv, with which the last head sees all of its keys.
void fill_slopes(const Problem& problem, uint64_t seed, const Tensor& slopes);
/// Writes SINKS that weigh about as much as the keys of a row: the logarithm of the number of keys,
/// in whole octaves, plus a normal number and `lift`.
void fill_sinks(const Problem& problem, uint64_t seed, const Tensor& sinks, double lift);
/// Adds `lift` to the SINKS of every `step`-th head, beginning with head 0.
void lift_sinks(const Tensor& sinks, double lift, int64_t step);
/// Writes slopes, sinks, factors, BIAS and REL_BIAS (normal numbers; BIAS with a few -inf), and
/// MASK (80 % ones, and a few rows that see nothing).
void fill_terms(const Problem& problem, uint64_t seed, const Tensors& tensors);

/// The fill "random". Q and K are normal, scaled so that scores have standard deviation 1; V has
/// mean 0. Keys that no query may see (padding, unused pages) are decoys: large scores, V = 1000.
/// The fill "tokens" has these terms, too; "random" has finite_biases.hpp besides.
void fill_random(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own);
/// The fill "wild": "random" with a few NaN and infinities that rows see. Those of Q and BIAS are
/// in rows that every sample has (marked_places); those in the first and last tiles of rows are
/// seen by end_rows, which wild_golden judges.
/// Problems of few queries have further rounds (fills/wild_few.hpp).
void fill_wild(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own);
/// Returns 1 for "wild_2", 2 for "wild_3" and so on, 0 for "wild", and -1 for all other fills.
int64_t wild_round_of(std::string_view fill);
/// Returns how many rounds of "wild" a problem has, at least 1.
int64_t wild_rounds(const Problem& problem);
/// The golden for any inputs. `device` computes the rows if the host would take long; it may be
/// null. `values_may_follow`: from keys, as those of tokens do (SigmaModel::take_any_values).
std::unique_ptr<Golden> softmax_golden(const Problem& problem, const Tensors& tensors,
                                       const GoldenDevice* device = nullptr,
                                       bool values_may_follow = false);
/// The golden of the fill "wild", on fewer rows: one row that sees a NaN shows as much as many.
std::unique_ptr<Golden> wild_golden(const Problem& problem, const Tensors& tensors);

// The codebook fills (codebook.hpp).
/// The codebook fills of this problem, the one that shows most bugs first.
std::vector<std::string> codebook_fills(const Problem& problem);
/// Returns how many rounds of "rising" a problem has, at least 1.
int64_t rising_rounds(const Problem& problem);
void fill_codebook(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own);
/// Whether the output of these inputs has a closed form; always false for other fills.
bool has_closed_form(const Problem& problem, const Fill& fill);
/// The golden in closed form: every row.
std::unique_ptr<Golden> codebook_golden(const Problem& problem, const Fill& fill,
                                        const Tensors& tensors);
/// The golden of a codebook fill without a closed form: every row if that is cheap, else a sample
/// in which each query code has a row. `device` may be null.
std::unique_ptr<Golden> sampled_codebook_golden(const Problem& problem, const Fill& fill,
                                                const Tensors& tensors,
                                                const GoldenDevice* device = nullptr);

}  // namespace attest::core
