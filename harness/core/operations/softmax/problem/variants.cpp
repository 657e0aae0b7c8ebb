// Variants of a softmax problem: what a cache of plans has to have in its keys.
#include "core/operations/variant.hpp"

#include <algorithm>
#include <vector>

#include "core/operations/relation.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

// Moves every row of dim 0 to the other end, [0] to [batch - 1] and so on.
void reverse_sequences(const Tensor& tensor) {
  const TensorSpec& spec = tensor.spec;
  const int64_t rows = row_count(spec, spec.rank), inner = rows / spec.dim[0];
  for (int64_t b = 0; b < spec.dim[0] / 2; ++b)
    for (int64_t i = 0; i < inner; ++i) {
      const int64_t one = row_offset(spec, spec.rank, b * inner + i);
      const int64_t other = row_offset(spec, spec.rank, (spec.dim[0] - 1 - b) * inner + i);
      const double kept = load(tensor.data, spec.dtype, one);
      store(tensor.data, spec.dtype, one, load(tensor.data, spec.dtype, other));
      store(tensor.data, spec.dtype, other, kept);
    }
}

// The same lengths from the last sequence to the first: cu[b] becomes cu[batch] - cu[batch - b].
void reverse_sums(const Tensor& cu_seqlens) {
  const TensorSpec& spec = cu_seqlens.spec;
  std::vector<double> sums;
  for (int64_t b = 0; b < spec.dim[0]; ++b)
    sums.push_back(load(cu_seqlens.data, spec.dtype, b * spec.stride[0]));
  for (size_t b = 0; b < sums.size(); ++b)
    store(cu_seqlens.data, spec.dtype, int64_t(b) * spec.stride[0],
          sums.back() - sums[sums.size() - 1 - b]);
}

// Sequences in the opposite order, with what hangs on their lengths: pages, and dense rows beyond a
// length, which hold decoys.
void reverse_lengths(const Tensors& inputs) {
  for (const int32_t role : {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV})
    if (inputs[size_t(role)]) reverse_sums(inputs[size_t(role)]);
  const bool paged = bool(inputs[ATTEST_PAGE_TABLE]);
  for (const int32_t role : {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_PAGE_TABLE})
    if (inputs[size_t(role)]) reverse_sequences(inputs[size_t(role)]);
  for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V})
    if (!paged && inputs[size_t(role)]) reverse_sequences(inputs[size_t(role)]);
}

// Sequences of half of `longest` keys, one more in each. Paged ones do not become longer than they
// are, because no page holds what lies behind their end.
void shorten(const Tensors& inputs, int64_t longest) {
  const Tensor& lengths = inputs[ATTEST_SEQ_LENS_KV];
  for (int64_t b = 0; b < lengths.spec.dim[0]; ++b) {
    const int64_t at = b * lengths.spec.stride[0],
                  filled = int64_t(load(lengths.data, ATTEST_I32, at)),
                  most = inputs[ATTEST_PAGE_TABLE] ? filled : longest;
    store(lengths.data, ATTEST_I32, at, double(std::min(most, longest / 2 + 1 + b)));
  }
}

void toggle_mask(Problem& problem) {
  TensorSpec& mask = problem.tensor[ATTEST_MASK];
  const auto& p = problem.as<Params>();
  mask = present(mask) ? TensorSpec{}
                       : dense_tensor(ATTEST_BOOL, ATTEST_READ,
                                      std::vector<int64_t>{1, 1, p.seq_len_q, p.seq_len_kv});
}

}  // namespace

std::vector<Variant> SoftmaxOperation::variants(const Problem& problem) const {
  std::vector<Variant> variants;
  const auto& p = problem.as<Params>();
  add_variant(variants, "scale", problem,
              [](Problem& other) { other.as<Params>().softmax_scale *= 0.5f; });
  for (Variant& common : common_variants(problem)) variants.push_back(std::move(common));
  add_variant(variants, "mask", problem, toggle_mask);
  if (p.grid_height == 0 && p.patch_size == 0)
    add_variant(variants, "window", problem, [](Problem& other) {
      auto& params = other.as<Params>();
      params.window_right = params.window_right == 0 ? -1 : 0;
    });
  if (p.num_heads > 1)
    add_variant(variants, "num_kv_heads", problem, [&](Problem& other) {
      other = resized(problem, [](Problem& larger) {
        auto& params = larger.as<Params>();
        params.num_kv_heads = params.num_kv_heads == params.num_heads ? 1 : params.num_heads;
      });
    });
  constexpr uint64_t kLengths = ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS;
  auto has = [&](size_t role) { return present(problem.tensor[role]); };
  if (p.batch > 1 && (problem.features & kLengths) && !has(ATTEST_ORDER) && !has(ATTEST_MASK) &&
      !has(ATTEST_BIAS))
    add_variant(variants, "lengths", problem, [](Problem&) {}, reverse_lengths);
  if (!(problem.features & kLengths) && p.grid_height == 0 && p.patch_size == 0)
    add_variant(
        variants, "lengths", problem,
        [&](Problem& other) {
          other.tensor[ATTEST_SEQ_LENS_KV] =
              dense_tensor(ATTEST_I32, ATTEST_READ, std::vector<int64_t>{p.batch});
        },
        [longest = p.seq_len_kv](const Tensors& inputs) { shorten(inputs, longest); });
  return variants;
}

}  // namespace attest::core
