// Attention that is right in each feature, and wrong where two of them meet: one bug for each case
// of the default suite that pairs features. A bug is planted in a copy of the problem that the
// kernel then reads. An implementation refuses problems where its bug does nothing.
#include <algorithm>
#include <cmath>

#include "mutants/all_of_softmax.hpp"
#include "mutants/features/planted.hpp"
#include "mutants/features/problem_copy.hpp"
#include "mutants/plain_attention.hpp"

namespace {

using Copy = mutants::ProblemCopy<attest_softmax_params>;

enum class Bug {
  kNone,
  kAlibiOfKeyHead,
  kSinkOfKeyHead,
  kMaskOfKeyHead,
  kBiasOfKeyHead,
  kWindowLeftOfGroups,
  kMaskAtTheBand,
  kWindowLeftZero,
  kBiasDense,
  kBiasAligned,
  kLseDense,
  kOrderOfPacked,
  kOrderOfFirst,
  kPagesInPowers,
  kDiagonalOfLongest,
  kHeadDim128,
  kHeadDimInFours,
  kBlockMaskOfKeyHead,
  kRelBiasOfKeyHead,
  kPagesForgetWindow,
  kGlobalsForgetMask,
  kGlobalsForgetBlockMask,
  kCapAfterAlibi,
  kSinkCapped,
  kMaskByOrder,
  kPatchesForgetMask,
  kWindowBeyondKeys,
  kAlibiInBytes,
};

constexpr mutants::PlantedBug kBugs[] = {
    {"pair_none", "plain attention, healthy"},
    {"pair_alibi_of_key_head", "the slope of ALiBi is that of the key head's number"},
    {"pair_sink_of_key_head", "the sink is that of the key head's number"},
    {"pair_mask_of_key_head", "the mask is that of the key head's number"},
    {"pair_bias_of_key_head", "the bias is that of the key head's number"},
    {"pair_window_left_of_groups", "query heads that share a key head forget the left bound"},
    {"pair_mask_at_the_band", "tiles of 16 x 16 pairs that the band cuts forget the mask"},
    {"pair_window_left_zero", "a left bound of 0 is taken for none"},
    {"pair_bias_dense", "the bias is read as if it were dense"},
    {"pair_bias_aligned", "the bias is read from the 64 bytes that its first element lies in"},
    {"pair_lse_dense", "the log-sum-exp is written as if it were dense"},
    {"pair_order_of_packed", "packed sequences forget the order"},
    {"pair_order_of_first", "every sequence has the first one's order"},
    {"pair_pages_in_powers", "rows of the page table have room for pages of a power of two keys"},
    {"pair_diagonal_of_longest", "the band ends where it would if no sequence were short"},
    {"pair_head_dim_128", "channels beyond the 128th are left out of the score"},
    {"pair_head_dim_in_fours", "channels beyond a multiple of 4 are left out of the score"},
    {"pair_block_mask_of_key_head", "the block mask is that of the key head's number"},
    {"pair_rel_bias_of_key_head", "the relative bias is that of the key head's number"},
    {"pair_pages_forget_window", "the left bound is forgotten where keys are paged"},
    {"pair_globals_forget_mask", "global tokens ignore the mask"},
    {"pair_globals_forget_block_mask", "global tokens ignore the block mask"},
    {"pair_cap_after_alibi", "the softcap is applied after ALiBi, not before"},
    {"pair_sink_capped", "the softcap is applied to the sink too"},
    {"pair_mask_by_order", "the mask counts rows of the order, not positions"},
    {"pair_patches_forget_mask", "the mask is forgotten where there are patches"},
    {"pair_window_beyond_keys", "a band with a bound as long as the keys is forgotten"},
    {"pair_alibi_in_bytes", "distances of ALiBi are cut at 255"},
};
static_assert(std::size(kBugs) == size_t(Bug::kAlibiInBytes) + 1);

constexpr int64_t kLargestByte = 255;

bool is_dense(const attest_tensor& tensor) {
  int64_t stride = 1;
  for (int axis = tensor.rank - 1; axis >= 0; --axis) {
    if (tensor.dim[axis] > 1 && tensor.stride[axis] != stride) return false;
    stride *= tensor.dim[axis];
  }
  return true;
}

int64_t next_power_of_two(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

bool does_something(Bug bug, const attest_problem& problem) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  const auto has = [&](int32_t role) { return problem.tensor[role].dtype != ATTEST_NONE; };
  const bool gqa = p.num_kv_heads < p.num_heads;
  switch (bug) {
    case Bug::kNone: return true;
    case Bug::kAlibiOfKeyHead: return gqa && has(ATTEST_ALIBI_SLOPES);
    case Bug::kSinkOfKeyHead: return gqa && has(ATTEST_SINKS);
    case Bug::kMaskOfKeyHead: return gqa && problem.tensor[ATTEST_MASK].dim[1] > 1;
    case Bug::kBiasOfKeyHead: return gqa && problem.tensor[ATTEST_BIAS].dim[1] > 1;
    case Bug::kWindowLeftOfGroups: return gqa && p.window_left >= 0;
    case Bug::kMaskAtTheBand:
      return has(ATTEST_MASK) && !has(ATTEST_ORDER) && p.global_tokens == 0 &&
             (p.window_left >= 0 || p.window_right >= 0);
    case Bug::kWindowLeftZero: return p.window_left == 0;
    case Bug::kBiasDense: return has(ATTEST_BIAS) && !is_dense(problem.tensor[ATTEST_BIAS]);
    case Bug::kBiasAligned:
      return has(ATTEST_BIAS) && (problem.features & ATTEST_WITH_UNALIGNED) != 0;
    case Bug::kLseDense: return has(ATTEST_LSE) && !is_dense(problem.tensor[ATTEST_LSE]);
    case Bug::kOrderOfPacked: return has(ATTEST_ORDER) && has(ATTEST_CU_SEQLENS_Q);
    case Bug::kOrderOfFirst: return has(ATTEST_ORDER) && problem.tensor[ATTEST_ORDER].dim[0] > 1;
    case Bug::kPagesInPowers:
      return has(ATTEST_PAGE_TABLE) && next_power_of_two(p.page_size) != p.page_size;
    case Bug::kDiagonalOfLongest:
      return p.diagonal == ATTEST_BOTTOM_RIGHT &&
             (has(ATTEST_SEQ_LENS_Q) || has(ATTEST_SEQ_LENS_KV));
    case Bug::kHeadDim128: return p.head_dim > 128;
    case Bug::kHeadDimInFours: return p.head_dim % 4 != 0 && p.head_dim > 4;
    case Bug::kBlockMaskOfKeyHead: return gqa && problem.tensor[ATTEST_BLOCK_MASK].dim[1] > 1;
    case Bug::kRelBiasOfKeyHead: return gqa && has(ATTEST_REL_BIAS);
    case Bug::kPagesForgetWindow: return has(ATTEST_PAGE_TABLE) && p.window_left >= 0;
    case Bug::kGlobalsForgetMask: return has(ATTEST_MASK) && p.global_tokens > 0;
    case Bug::kGlobalsForgetBlockMask: return has(ATTEST_BLOCK_MASK) && p.global_tokens > 0;
    case Bug::kCapAfterAlibi: return p.softcap > 0 && has(ATTEST_ALIBI_SLOPES);
    case Bug::kSinkCapped: return p.softcap > 0 && has(ATTEST_SINKS);
    case Bug::kMaskByOrder:
      return has(ATTEST_ORDER) && has(ATTEST_MASK) && p.seq_len_q == p.seq_len_kv;
    case Bug::kPatchesForgetMask: return has(ATTEST_MASK) && p.patch_size > 0;
    case Bug::kWindowBeyondKeys:
      return p.window_left >= p.seq_len_kv || p.window_right >= p.seq_len_kv;
    case Bug::kAlibiInBytes: return has(ATTEST_ALIBI_SLOPES) && p.seq_len_kv > kLargestByte + 1;
  }
  return false;
}

size_t bytes_of(const attest_tensor& tensor) { return tensor.dtype == ATTEST_F32 ? 4 : 2; }

/// Slopes or sinks: the last dim counts heads.
void take_those_of_key_heads(Copy& c, int32_t role) {
  attest_tensor& spec = c.tensor[role];
  const int64_t heads = c.params.num_heads, group = heads / c.params.num_kv_heads,
                batch = spec.rank > 1 ? spec.dim[0] : 1;
  const int head_axis = spec.rank - 1;
  const auto* given = static_cast<const float*>(c.data[role]);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      c.numbers.push_back(
          given[(spec.rank > 1 ? b * spec.stride[0] : 0) + h / group * spec.stride[head_axis]]);
  c.take_for_dense(role);
  c.data[role] = c.numbers.data();
}

/// MASK, BLOCK_MASK or BIAS as a copy: head h has what head h / group of the given tensor has.
void take_pairs_of_key_heads(Copy& c, int32_t role, size_t element) {
  attest_tensor& spec = c.tensor[role];
  const int64_t group = c.params.num_heads / c.params.num_kv_heads;
  const auto* given = static_cast<const uint8_t*>(c.data[role]);
  for (int64_t b = 0; b < spec.dim[0]; ++b)
    for (int64_t h = 0; h < spec.dim[1]; ++h)
      for (int64_t i = 0; i < spec.dim[2]; ++i)
        for (int64_t j = 0; j < spec.dim[3]; ++j) {
          const int64_t at = b * spec.stride[0] + h / group * spec.stride[1] + i * spec.stride[2] +
                             j * spec.stride[3];
          const uint8_t* from = given + size_t(at) * element;
          c.bytes.insert(c.bytes.end(), from, from + element);
        }
  c.take_for_dense(role);
  c.data[role] = c.bytes.data();
}

/// REL_BIAS as a copy, in the same way: [num_heads, rows, columns].
void take_rel_bias_of_key_heads(Copy& c) {
  attest_tensor& spec = c.tensor[ATTEST_REL_BIAS];
  const int64_t group = c.params.num_heads / c.params.num_kv_heads,
                cells = spec.dim[1] * spec.dim[2];
  const size_t element = bytes_of(spec);
  const auto* given = static_cast<const uint8_t*>(c.data[ATTEST_REL_BIAS]);
  for (int64_t h = 0; h < spec.dim[0]; ++h)
    for (int64_t cell = 0; cell < cells; ++cell) {
      const int64_t at = h / group * spec.stride[0] + cell / spec.dim[2] * spec.stride[1] +
                         cell % spec.dim[2] * spec.stride[2];
      c.bytes.insert(c.bytes.end(), given + size_t(at) * element, given + size_t(at + 1) * element);
    }
  c.take_for_dense(ATTEST_REL_BIAS);
  c.data[ATTEST_REL_BIAS] = c.bytes.data();
}

/// Whether the band leaves out any pair of the tile of 16 x 16 with that one.
bool band_cuts(const attest::Sequences& s, int64_t b, int64_t i, int64_t j) {
  constexpr int64_t kSide = 16;
  const int64_t row = i / kSide * kSide, key = j / kSide * kSide,
                last = std::min(row + kSide, s.length_q(b)) - 1;
  return s.keys(b, last).begin > key || s.keys(b, row).end < key + kSide;
}

/// Puts a mask in the place of the problem's: sees(b, h, i, j) of each pair.
template <class Sees>
void take_as_mask(Copy& c, const Sees& sees) {
  const attest_softmax_params& p = c.params;
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.num_heads; ++h)
      for (int64_t i = 0; i < p.seq_len_q; ++i)
        for (int64_t j = 0; j < p.seq_len_kv; ++j) c.bytes.push_back(sees(b, h, i, j));
  attest_tensor& spec = c.tensor[ATTEST_MASK];
  const int64_t dims[] = {p.batch, p.num_heads, p.seq_len_q, p.seq_len_kv};
  spec.rank = 4;
  spec.dtype = ATTEST_BOOL;
  std::copy_n(dims, 4, spec.dim);
  c.take_for_dense(ATTEST_MASK);
  c.data[ATTEST_MASK] = c.bytes.data();
}

/// The tensors of the problem that say which pairs are seen.
struct Masks {
  explicit Masks(const Copy& c)
      : sequences(c.problem, c.data.data()),
        mask(c.problem, c.data.data(), ATTEST_MASK),
        blocks(c.problem, c.data.data(), ATTEST_BLOCK_MASK),
        order(c.problem, c.data.data(), ATTEST_ORDER) {}
  attest::Sequences sequences;
  attest::View<const uint8_t> mask, blocks;
  attest::View<const int32_t> order;
};

void forget_mask_at_the_band(Copy& c) {
  const Masks given(c);
  take_as_mask(c, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    return given.mask(b, h, i, j) || band_cuts(given.sequences, b, i, j);
  });
}

bool is_global(const Copy& c, int64_t i, int64_t j) {
  return i < c.params.global_tokens || j < c.params.global_tokens;
}

void forget_mask_of_globals(Copy& c) {
  const Masks given(c);
  take_as_mask(c, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    return given.mask(b, h, i, j) || is_global(c, i, j);
  });
}

void forget_block_mask_of_globals(Copy& c) {
  const Masks given(c);
  take_as_mask(c, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    return (!given.mask || given.mask(b, h, i, j)) &&
           (is_global(c, i, j) || given.blocks(b, h, i / c.params.block_q, j / c.params.block_kv));
  });
  c.forget(ATTEST_BLOCK_MASK);
}

void take_mask_by_order(Copy& c) {
  const Masks given(c);
  const bool has_many = c.tensor[ATTEST_ORDER].dim[0] > 1;
  take_as_mask(c, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t of = has_many ? b : 0;
    return given.mask(b, h, given.order(of, i), given.order(of, j));
  });
}

void cap_sinks(Copy& c) {
  const attest::View<const float> sinks(c.problem, c.data.data(), ATTEST_SINKS);
  const float cap = c.params.softcap;
  for (int64_t h = 0; h < c.params.num_heads; ++h)
    c.numbers.push_back(cap * std::tanh(sinks(h) / cap));
  c.take_for_dense(ATTEST_SINKS);
  c.data[ATTEST_SINKS] = c.numbers.data();
}

void spoil(Bug bug, Copy& c) {
  attest_softmax_params& p = c.params;
  switch (bug) {
    case Bug::kNone: break;
    case Bug::kAlibiOfKeyHead: take_those_of_key_heads(c, ATTEST_ALIBI_SLOPES); break;
    case Bug::kSinkOfKeyHead: take_those_of_key_heads(c, ATTEST_SINKS); break;
    case Bug::kMaskOfKeyHead: take_pairs_of_key_heads(c, ATTEST_MASK, 1); break;
    case Bug::kBiasOfKeyHead:
      take_pairs_of_key_heads(c, ATTEST_BIAS, bytes_of(c.tensor[ATTEST_BIAS]));
      break;
    case Bug::kWindowLeftOfGroups: p.window_left = -1; break;
    case Bug::kMaskAtTheBand: forget_mask_at_the_band(c); break;
    case Bug::kGlobalsForgetMask: forget_mask_of_globals(c); break;
    case Bug::kGlobalsForgetBlockMask: forget_block_mask_of_globals(c); break;
    case Bug::kMaskByOrder: take_mask_by_order(c); break;
    case Bug::kWindowLeftZero: p.window_left = -1; break;
    case Bug::kBiasDense: c.take_for_dense(ATTEST_BIAS); break;
    case Bug::kBiasAligned: c.align(ATTEST_BIAS); break;
    case Bug::kLseDense: c.take_for_dense(ATTEST_LSE); break;
    case Bug::kOrderOfPacked: c.forget(ATTEST_ORDER); break;
    case Bug::kOrderOfFirst: c.tensor[ATTEST_ORDER].stride[0] = 0; break;
    case Bug::kPagesInPowers: {
      const int64_t keys = next_power_of_two(p.page_size);
      c.tensor[ATTEST_PAGE_TABLE].stride[0] = (p.seq_len_kv + keys - 1) / keys;
      break;
    }
    case Bug::kDiagonalOfLongest:
      p.diagonal = ATTEST_TOP_LEFT;
      p.diagonal_offset += p.seq_len_kv - p.seq_len_q;
      break;
    case Bug::kHeadDim128: p.head_dim = 128; break;
    case Bug::kHeadDimInFours: p.head_dim -= p.head_dim % 4; break;
    case Bug::kBlockMaskOfKeyHead: take_pairs_of_key_heads(c, ATTEST_BLOCK_MASK, 1); break;
    case Bug::kRelBiasOfKeyHead: take_rel_bias_of_key_heads(c); break;
    case Bug::kPagesForgetWindow: p.window_left = -1; break;
    case Bug::kSinkCapped: cap_sinks(c); break;
    case Bug::kPatchesForgetMask: c.forget(ATTEST_MASK); break;
    case Bug::kWindowBeyondKeys: p.window_left = p.window_right = -1; break;
    case Bug::kCapAfterAlibi:
    case Bug::kAlibiInBytes: break;  // in the logit
  }
}

/// Softmax attention with the bugs that change a logit.
template <class T>
struct Attention : attest::Softmax<T> {
  Attention(Bug planted, const Copy& c)
      : attest::Softmax<T>(c.problem, c.data.data()), bug(planted) {}
  float logit(float dot, int64_t b, int64_t h, int64_t i, int64_t j) const {
    const float logit = attest::Softmax<T>::logit(dot, b, h, i, j);
    const auto distance = static_cast<float>(std::abs(this->diagonal(b, i) - j));
    if (logit == -INFINITY) return logit;
    if (bug == Bug::kAlibiInBytes)
      return logit + this->alibi_slopes(b, h) * std::max(distance - kLargestByte, 0.0f);
    if (bug != Bug::kCapAfterAlibi) return logit;
    const float cap = this->p.softcap, far = this->alibi_slopes(b, h) * distance;
    const float others = this->pair_term(b, h, i, j) + far;
    return cap * std::tanh((this->p.softmax_scale * dot - far) / cap) + others;
  }
  const Bug bug;
};

constexpr uint64_t kFeatures =
    mutants::kSoftmaxFeatures | ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL;

template <size_t kIndex>
struct Implementation : mutants::Planted<Bug{kIndex}, kBugs, does_something, kFeatures> {
  template <class T>
  void run(void* const* data, void* /*workspace*/, void* /*stream*/) const {
    Copy copy(this->problem, data);
    spoil(this->kBug, copy);
    mutants::attend(Attention<T>(this->kBug, copy));
  }
};

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  return mutants::table_at<Implementation, std::size(kBugs)>(index);
}
