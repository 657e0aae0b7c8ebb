// Attention that is right in each feature, and wrong where two of them meet: one bug for each case
// of the default suite that pairs features. A bug is planted in a copy of the problem that the
// kernel then reads. An implementation refuses problems where its bug does nothing.
#include <algorithm>

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
};
static_assert(std::size(kBugs) == size_t(Bug::kHeadDim128) + 1);

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
      return has(ATTEST_MASK) && (p.window_left >= 0 || p.window_right >= 0);
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
  }
  return false;
}

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

/// MASK or BIAS as a copy: head h has what head h / group of the given tensor has.
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

size_t bytes_of(const attest_tensor& tensor) { return tensor.dtype == ATTEST_F32 ? 4 : 2; }

/// Whether the band leaves out any pair of the tile of 16 x 16 with that one.
bool band_cuts(const attest::Sequences& s, int64_t b, int64_t i, int64_t j) {
  constexpr int64_t kSide = 16;
  const int64_t row = i / kSide * kSide, key = j / kSide * kSide,
                last = std::min(row + kSide, s.length_q(b)) - 1;
  return s.keys(b, last).begin > key || s.keys(b, row).end < key + kSide;
}

void forget_mask_at_the_band(Copy& c) {
  const attest_softmax_params& p = c.params;
  const attest::Sequences s(c.problem, c.data.data());
  const attest::View<const uint8_t> mask(c.problem, c.data.data(), ATTEST_MASK);
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.num_heads; ++h)
      for (int64_t i = 0; i < p.seq_len_q; ++i)
        for (int64_t j = 0; j < p.seq_len_kv; ++j)
          c.bytes.push_back(mask(b, h, i, j) || band_cuts(s, b, i, j));
  const int64_t dims[] = {p.batch, p.num_heads, p.seq_len_q, p.seq_len_kv};
  std::copy_n(dims, 4, c.tensor[ATTEST_MASK].dim);
  c.take_for_dense(ATTEST_MASK);
  c.data[ATTEST_MASK] = c.bytes.data();
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
  }
}

template <size_t kIndex>
struct Implementation
    : mutants::Planted<Bug{kIndex}, kBugs, does_something, mutants::kSoftmaxFeatures> {
  template <class T>
  void run(void* const* data, void* /*workspace*/, void* /*stream*/) const {
    Copy copy(this->problem, data);
    spoil(this->kBug, copy);
    mutants::attend(attest::Softmax<T>(copy.problem, copy.data.data()));
  }
};

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  return mutants::table_at<Implementation, std::size(kBugs)>(index);
}
