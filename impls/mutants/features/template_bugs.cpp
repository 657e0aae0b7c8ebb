// The kernel that `attest new` writes, slow as it is, wrong in one feature or one dtype each: what
// the default suite has to show within about a minute. A bug is planted in a copy of the problem
// that the kernel then reads, or in the few lines that say so.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "attest.hpp"
#include "mutants/features/problem_copy.hpp"
#include "mutants/table_at.hpp"

namespace {

enum class Bug {
  kNone,
  kGqaTiled,
  kHeadDimV,
  kCausalOffByOne,
  kWindowExclusive,
  kDiagonalTopLeft,
  kDiagonalOffset,
  kSoftcap,
  kBias,
  kMaskInverted,
  kLseBase2,
  kCuSeqlens,
  kSeqLens,
  kPageTable,
  kOrder,
  kPatches,
  kGridShift,
  kRelBias,
  kStrides,
  kMixedDtype,
  kUnaligned,
  kAlibi,
  kSinks,
  kBlockMask,
  kGlobalTokens,
  kTopK,
  kTopKTies,
  kDescale,
  kDescaleBlocks,
  kF32,
  kF16,
  kBF16,
  kF64,
  kF8E4M3,
  kF8E5M2,
  kLinearNone,
  kLinearGqaTiled,
  kLinearHeadDimV,
  kLinearMask,
  kLinearQueryMask,
  kLinearStrides,
  kLinearMixedDtype,
  kLinearUnaligned,
  kLinearF64,
  kLinearLastKey,
};

struct Description {
  Bug bug;
  const char *name, *summary;
};
constexpr Description kBugs[] = {
    {Bug::kNone, "template_none", "the template with every feature, healthy"},
    {Bug::kGqaTiled, "template_gqa_tiled", "V of head h % num_kv_heads"},
    {Bug::kHeadDimV, "template_head_dim_v", "writes head_dim channels of head_dim_v"},
    {Bug::kCausalOffByOne, "template_causal_off_by_one",
     "a causal row sees the key after its diagonal"},
    {Bug::kWindowExclusive, "template_window_exclusive", "the window's left bound is exclusive"},
    {Bug::kDiagonalTopLeft, "template_diagonal_top_left",
     "the band starts top left where it should end bottom right"},
    {Bug::kDiagonalOffset, "template_diagonal_offset", "diagonal_offset is taken for 0"},
    {Bug::kSoftcap, "template_softcap", "the cap is forgotten"},
    {Bug::kBias, "template_bias", "the bias is forgotten"},
    {Bug::kMaskInverted, "template_mask_inverted", "the mask hides where it says attend"},
    {Bug::kLseBase2, "template_lse_base_2", "log-sum-exp in base 2"},
    {Bug::kCuSeqlens, "template_cu_seqlens", "every packed sequence reads the first one's keys"},
    {Bug::kSeqLens, "template_seq_lens", "seq_lens_kv is taken for seq_len_kv"},
    {Bug::kPageTable, "template_page_table", "pages are taken in the order of the pool"},
    {Bug::kOrder, "template_order", "the order is forgotten"},
    {Bug::kPatches, "template_patches", "patches are forgotten"},
    {Bug::kGridShift, "template_grid_shift", "the grid is not rolled"},
    {Bug::kRelBias, "template_rel_bias", "the relative bias is forgotten"},
    {Bug::kStrides, "template_strides", "V is read as if it were dense"},
    {Bug::kMixedDtype, "template_mixed_dtype", "every tensor is taken to have the dtype of Q"},
    {Bug::kUnaligned, "template_unaligned",
     "V is read from the 64 bytes that its first element lies in"},
    {Bug::kAlibi, "template_alibi", "distance is forgotten"},
    {Bug::kSinks, "template_sinks", "the sink is forgotten"},
    {Bug::kBlockMask, "template_block_mask", "the block mask is forgotten"},
    {Bug::kGlobalTokens, "template_global_tokens", "no token is global"},
    {Bug::kTopK, "template_top_k", "all keys of a row count"},
    {Bug::kTopKTies, "template_top_k_ties", "only the first of equal keys count"},
    {Bug::kDescale, "template_descale", "the factors of K are forgotten"},
    {Bug::kDescaleBlocks, "template_descale_blocks",
     "all keys have the factors of the first block"},
    {Bug::kF32, "template_f32", "the scale is forgotten in f32"},
    {Bug::kF16, "template_f16", "the scale is forgotten in f16"},
    {Bug::kBF16, "template_bf16", "the scale is forgotten in bf16"},
    {Bug::kF64, "template_f64", "the scale is forgotten in f64"},
    {Bug::kF8E4M3, "template_f8e4m3", "the scale is forgotten in f8e4m3"},
    {Bug::kF8E5M2, "template_f8e5m2", "the scale is forgotten in f8e5m2"},
    {Bug::kLinearNone, "template_linear_none", "linear attention as plain, healthy"},
    {Bug::kLinearGqaTiled, "template_linear_gqa_tiled", "V of head h % num_kv_heads"},
    {Bug::kLinearHeadDimV, "template_linear_head_dim_v", "writes head_dim channels of head_dim_v"},
    {Bug::kLinearMask, "template_linear_mask", "the mask of keys is forgotten"},
    {Bug::kLinearQueryMask, "template_linear_query_mask", "the mask of queries is forgotten"},
    {Bug::kLinearStrides, "template_linear_strides", "V is read as if it were dense"},
    {Bug::kLinearMixedDtype, "template_linear_mixed_dtype",
     "every tensor is taken to have the dtype of Q"},
    {Bug::kLinearUnaligned, "template_linear_unaligned",
     "V is read from the 64 bytes that its first element lies in"},
    {Bug::kLinearF64, "template_linear_f64", "eps is 1 in f64"},
    {Bug::kLinearLastKey, "template_linear_last_key",
     "the last tile of 64 keys is forgotten if it has one key"},
};
constexpr size_t kTables = sizeof kBugs / sizeof *kBugs;

constexpr uint64_t kDtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) |
                             ATTEST_BIT(ATTEST_BF16) | ATTEST_BIT(ATTEST_F64);
constexpr uint64_t kF8Dtypes = ATTEST_BIT(ATTEST_F8E4M3) | ATTEST_BIT(ATTEST_F8E5M2);
constexpr uint64_t kLayouts = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_MASK |
                              ATTEST_WITH_STRIDES | ATTEST_WITH_MIXED_DTYPE | ATTEST_WITH_UNALIGNED;
constexpr uint64_t kSoftmax =
    kLayouts | ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL |
    ATTEST_WITH_SOFTCAP | ATTEST_WITH_BIAS | ATTEST_WITH_LSE | ATTEST_WITH_VARLEN |
    ATTEST_WITH_SEQ_LENS | ATTEST_WITH_PAGES | ATTEST_WITH_ORDER | ATTEST_WITH_PATCHES |
    ATTEST_WITH_GRID | ATTEST_WITH_REL_BIAS | ATTEST_WITH_ALIBI | ATTEST_WITH_SINKS |
    ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL | ATTEST_WITH_TOP_K | ATTEST_WITH_DESCALE;

template <class Params>
using Copy = mutants::ProblemCopy<Params>;

void invert_mask(Copy<attest_softmax_params>& c) {
  if (!c.data[ATTEST_MASK]) return;
  const attest_tensor& spec = c.tensor[ATTEST_MASK];
  int64_t bytes = 1;
  for (int axis = 0; axis < spec.rank; ++axis) bytes += (spec.dim[axis] - 1) * spec.stride[axis];
  const auto* stored = static_cast<const uint8_t*>(c.data[ATTEST_MASK]);
  for (int64_t at = 0; at < bytes; ++at) c.bytes.push_back(stored[at] ? 0 : 1);
  c.data[ATTEST_MASK] = c.bytes.data();
}

void number_pages(Copy<attest_softmax_params>& c) {
  if (!c.data[ATTEST_PAGE_TABLE]) return;
  const int64_t entries = c.tensor[ATTEST_PAGE_TABLE].dim[0] * c.tensor[ATTEST_PAGE_TABLE].dim[1];
  for (int32_t page = 0; page < entries; ++page) c.integers.push_back(page);
  c.take_for_dense(ATTEST_PAGE_TABLE);
  c.data[ATTEST_PAGE_TABLE] = c.integers.data();
}

void spoil(Bug bug, Copy<attest_softmax_params>& c) {
  attest_softmax_params& p = c.params;
  switch (bug) {
    case Bug::kCausalOffByOne: p.window_right += p.window_right == 0; break;
    case Bug::kWindowExclusive: p.window_left -= p.window_left > 0; break;
    case Bug::kDiagonalTopLeft: p.diagonal = ATTEST_TOP_LEFT; break;
    case Bug::kDiagonalOffset: p.diagonal_offset = 0; break;
    case Bug::kSoftcap: p.softcap = 0; break;
    case Bug::kBias: c.forget(ATTEST_BIAS); break;
    case Bug::kMaskInverted: invert_mask(c); break;
    case Bug::kCuSeqlens: c.forget(ATTEST_CU_SEQLENS_KV); break;
    case Bug::kSeqLens: c.forget(ATTEST_SEQ_LENS_KV); break;
    case Bug::kPageTable: number_pages(c); break;
    case Bug::kOrder: c.forget(ATTEST_ORDER); break;
    case Bug::kPatches: p.patch_size = 0; break;
    case Bug::kGridShift: p.shift_y = p.shift_x = 0; break;
    case Bug::kRelBias: c.forget(ATTEST_REL_BIAS); break;
    case Bug::kStrides: c.take_for_dense(ATTEST_V); break;
    case Bug::kUnaligned: c.align(ATTEST_V); break;
    case Bug::kAlibi: c.forget(ATTEST_ALIBI_SLOPES); break;
    case Bug::kSinks: c.forget(ATTEST_SINKS); break;
    case Bug::kBlockMask: c.forget(ATTEST_BLOCK_MASK); break;
    case Bug::kGlobalTokens: p.global_tokens = 0; break;
    case Bug::kTopK: p.top_k = 0; break;
    case Bug::kTopKTies: p.top_k_ties = ATTEST_TOP_K_FIRST; break;
    case Bug::kDescale: c.forget(ATTEST_K_DESCALE); break;
    case Bug::kDescaleBlocks: p.descale_block_kv = 0; break;
    default: break;
  }
  constexpr std::pair<Bug, int32_t> kOfDtypes[] = {
      {Bug::kF32, ATTEST_F32}, {Bug::kF16, ATTEST_F16},       {Bug::kBF16, ATTEST_BF16},
      {Bug::kF64, ATTEST_F64}, {Bug::kF8E4M3, ATTEST_F8E4M3}, {Bug::kF8E5M2, ATTEST_F8E5M2}};
  for (const auto& [of, dtype] : kOfDtypes)
    if (bug == of && c.tensor[ATTEST_Q].dtype == dtype) p.softmax_scale = 1;
}

void spoil(Bug bug, Copy<attest_linear_params>& c) {
  if (bug == Bug::kLinearMask) c.forget(ATTEST_MASK);
  if (bug == Bug::kLinearQueryMask) c.forget(ATTEST_QUERY_MASK);
  if (bug == Bug::kLinearStrides) c.take_for_dense(ATTEST_V);
  if (bug == Bug::kLinearUnaligned) c.align(ATTEST_V);
  if (bug == Bug::kLinearF64 && c.tensor[ATTEST_Q].dtype == ATTEST_F64) c.params.eps = 1;
}

/// How the two bugs that are no change of the problem show.
int64_t value_head(bool tiled, int64_t h, int64_t right, int64_t num_kv_heads) {
  return tiled ? h % num_kv_heads : right;
}
int64_t written_channels(bool cut, int64_t head_dim, int64_t head_dim_v) {
  return cut ? std::min(head_dim, head_dim_v) : head_dim_v;
}

/// Hides all but the top_k largest logits of a row. NaN counts as the largest.
void keep_top_k(const attest_softmax_params& p, std::vector<float>& logits) {
  const auto rank = [&](size_t key) { return std::isnan(logits[key]) ? INFINITY : logits[key]; };
  std::vector<size_t> keys;
  for (size_t key = 0; key < logits.size(); ++key)
    if (logits[key] != -INFINITY) keys.push_back(key);
  std::stable_sort(keys.begin(), keys.end(), [&](size_t x, size_t y) { return rank(x) > rank(y); });
  size_t count = std::min(keys.size(), static_cast<size_t>(p.top_k));
  while (p.top_k_ties == ATTEST_TOP_K_ALL_TIES && count < keys.size() &&
         rank(keys[count]) == rank(keys[count - 1]))
    ++count;
  for (; count < keys.size(); ++count) logits[keys[count]] = -INFINITY;
}

// Declared: f32. So f64 is computed in f32 too.
template <class T>
void attend(Bug bug, const attest::Softmax<T>& a) {
  for (int64_t b = 0; b < a.p.batch; ++b)
    for (int64_t h = 0; h < a.p.num_heads; ++h)
      for (int64_t i = 0; i < a.rows(b); ++i) {
        const auto [bq, row] = a.query(b, i);
        const int64_t value_of =
            value_head(bug == Bug::kGqaTiled, h, a.kv_head(h), a.p.num_kv_heads);
        const int64_t channels =
            written_channels(bug == Bug::kHeadDimV, a.p.head_dim, a.p.head_dim_v);
        std::vector<float> sum(static_cast<size_t>(a.p.head_dim_v));
        float top = -INFINITY, total = 0;
        const attest::Keys keys = a.keys(b, i);
        std::vector<float> logits;
        for (int64_t j = keys.begin; j < keys.end; ++j) {
          const auto [bk, key] = a.key(b, j);
          float dot = 0;
          for (int64_t d = 0; d < a.p.head_dim; ++d)
            dot += static_cast<float>(a.q(bq, h, row, d)) *
                   static_cast<float>(a.k(bk, a.kv_head(h), key, d));
          const float factor = a.q_factor(b, h, i) * a.k_factor(b, a.kv_head(h), j);
          logits.push_back(a.logit(dot * factor, b, h, i, j));
        }
        if (a.p.top_k > 0) keep_top_k(a.p, logits);
        for (int64_t j = keys.begin; j < keys.end; ++j) {
          const auto [bk, key] = a.key(b, j);
          const float s = logits[static_cast<size_t>(j - keys.begin)];
          if (s == -INFINITY) continue;
          const float peak = std::max(top, s), keep = std::exp(top - peak),
                      weight = std::exp(s - peak),
                      weight_of_v = weight * a.v_factor(b, a.kv_head(h), j);
          for (int64_t d = 0; d < channels; ++d) {
            float& channel = sum[static_cast<size_t>(d)];
            channel = keep * channel + weight_of_v * static_cast<float>(a.v(bk, value_of, key, d));
          }
          total = keep * total + weight;
          top = peak;
        }
        if (top > -INFINITY && a.sinks) {
          const float sink = a.sink(h), peak = std::max(top, sink), keep = std::exp(top - peak);
          for (float& channel : sum) channel *= keep;
          total = keep * total + std::exp(sink - peak);
          top = peak;
        }
        for (int64_t d = 0; d < a.p.head_dim_v; ++d)
          a.o(bq, h, row, d) = total == 0 ? 0 : sum[static_cast<size_t>(d)] / total;
        if (a.lse)
          a.lse(bq, h, row) = (top + std::log(total)) * (bug == Bug::kLseBase2 ? 1.442695f : 1);
      }
}

constexpr int64_t kTile = 64;  // keys

template <class T>
void attend(Bug bug, const attest::Linear<T>& a) {
  const int64_t num_keys =
      a.p.seq_len_kv - (bug == Bug::kLinearLastKey && a.p.seq_len_kv % kTile == 1 ? 1 : 0);
  const int64_t channels =
      written_channels(bug == Bug::kLinearHeadDimV, a.p.head_dim, a.p.head_dim_v);
  for (int64_t b = 0; b < a.p.batch; ++b)
    for (int64_t h = 0; h < a.p.num_heads; ++h) {
      const int64_t value_of =
          value_head(bug == Bug::kLinearGqaTiled, h, a.kv_head(h), a.p.num_kv_heads);
      const auto at = [&](int64_t d, int64_t channel) {
        return static_cast<size_t>(d * a.p.head_dim_v + channel);
      };
      std::vector<float> state(at(a.p.head_dim, 0)), keys(static_cast<size_t>(a.p.head_dim));
      for (int64_t j = 0; j < num_keys; ++j) {
        if (!a.key_counts(b, j)) continue;
        for (int64_t d = 0; d < a.p.head_dim; ++d) {
          const float key = a.phi(static_cast<float>(a.k(b, a.kv_head(h), j, d)));
          keys[static_cast<size_t>(d)] += key;
          for (int64_t c = 0; c < channels; ++c)
            state[at(d, c)] += key * static_cast<float>(a.v(b, value_of, j, c));
        }
      }
      for (int64_t i = 0; i < a.p.seq_len_q; ++i) {
        std::vector<float> sum(static_cast<size_t>(a.p.head_dim_v));
        float total = 0;
        for (int64_t d = 0; d < a.p.head_dim && a.query_counts(b, i); ++d) {
          const float query = a.phi(static_cast<float>(a.q(b, h, i, d)));
          total += query * keys[static_cast<size_t>(d)];
          for (int64_t c = 0; c < a.p.head_dim_v; ++c)
            sum[static_cast<size_t>(c)] += query * state[at(d, c)];
        }
        for (int64_t c = 0; c < a.p.head_dim_v; ++c)
          a.o(b, h, i, c) = sum[static_cast<size_t>(c)] / (total + a.p.eps);
      }
    }
}

template <size_t kIndex>
struct Template {
  static constexpr Bug kBug = kBugs[kIndex].bug;
  static constexpr bool kIsLinear = kBug >= Bug::kLinearNone;
  static constexpr attest::Info kInfo{
      .name = kBugs[kIndex].name,
      .version = "1",
      .summary = kBugs[kIndex].summary,
      .operation = kIsLinear ? ATTEST_LINEAR : ATTEST_SOFTMAX,
      .dtypes = kIsLinear ? kDtypes : kDtypes | kF8Dtypes,
      .features = kIsLinear ? kLayouts | ATTEST_WITH_QUERY_MASK : kSoftmax};
  using Params = std::conditional_t<kIsLinear, attest_linear_params, attest_softmax_params>;
  const attest_problem& problem;

  void run(void* const* data, void* /*workspace*/, void* /*stream*/) {
    Copy<Params> copy(problem, data);
    spoil(kBug, copy);
    constexpr bool kOneDtype = kBug == Bug::kMixedDtype || kBug == Bug::kLinearMixedDtype;
    const bool mixed = !kOneDtype && (problem.features & ATTEST_WITH_MIXED_DTYPE);
    switch (mixed ? ATTEST_NONE : problem.tensor[ATTEST_Q].dtype) {
      case ATTEST_F32: return attend_as<float>(copy);
      case ATTEST_F16: return attend_as<attest::Half>(copy);
      case ATTEST_BF16: return attend_as<attest::BFloat16>(copy);
      case ATTEST_F64: return attend_as<double>(copy);
      default: return attend_as<attest::Any>(copy);
    }
  }

 private:
  template <class T>
  static void attend_as(const Copy<Params>& copy) {
    using Tensors = std::conditional_t<kIsLinear, attest::Linear<T>, attest::Softmax<T>>;
    attend(kBug, Tensors(copy.problem, copy.data.data()));
  }
};

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  return mutants::table_at<Template, kTables>(index);
}
