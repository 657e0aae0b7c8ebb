// Variants of a softmax problem: what a cache of plans has to have in its keys.
#include "core/operations/variant.hpp"

#include <algorithm>
#include <vector>

#include "core/operations/relation.hpp"
#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/tensor/error.hpp"
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

void refuse_unless(bool fits) {
  if (!fits) throw Error("the problem has no such variant");
}
// Gives the problem a tensor of that role, or takes it away. One of pairs is the same for all
// heads.
void toggle(Problem& problem, int32_t role) {
  TensorSpec& spec = problem.tensor[size_t(role)];
  if (present(spec)) {
    spec = TensorSpec{};
    return;
  }
  const Role* const known = find_role(*problem.operation, role);
  refuse_unless(known != nullptr);  // gradients lack some roles of softmax attention
  const Role& of = *known;
  std::vector<int64_t> dims = problem.operation->dims(problem, role);
  for (size_t axis = 0; axis + 2 < dims.size(); ++axis)
    if (problem.operation->may_broadcast(role, int(axis))) dims[axis] = 1;
  spec = dense_tensor(of.dtype == ATTEST_NONE ? problem.dtype : of.dtype, of.access, dims);
}
template <int32_t kRole>
void toggle(Problem& problem) {
  toggle(problem, kRole);
}

void resize(Problem& problem, void (*change)(Params&)) {
  problem = resized(problem, [=](Problem& other) { change(other.as<Params>()); });
}

bool has_lengths(const Problem& problem) {
  return (problem.features & (ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS)) != 0;
}
// The size of a band that a variant adds.
int64_t width(const Params& p) { return std::max<int64_t>(1, p.seq_len_kv / 8); }

// Makes the problem causal if it has no band. A diagonal only matters to a band.
Params& with_band(Problem& problem) {
  auto& p = problem.as<Params>();
  if (!has_band(p)) p.window_right = 0;
  return p;
}

// Aligns the band's diagonal at the other corner, if rows then see other keys.
void turn_diagonal(Problem& problem) {
  const auto& sizes = problem.as<Params>();
  refuse_unless((has_lengths(problem) || sizes.seq_len_q != sizes.seq_len_kv) &&
                sizes.patch_size == 0);
  Params& p = with_band(problem);
  p.diagonal = p.diagonal == ATTEST_TOP_LEFT ? ATTEST_BOTTOM_RIGHT : ATTEST_TOP_LEFT;
}

// Another number of key heads: one for all heads, for every two, for every three, or for each. The
// last of these leaves heads ungrouped, which even a coarse cache may know, so it is tried last.
void group_heads(Problem& problem, bool second) {
  const auto& p = problem.as<Params>();
  std::vector<int64_t> others;
  for (const int64_t group : {p.num_heads, int64_t{2}, int64_t{3}, int64_t{1}}) {
    const int64_t count = p.num_heads / group;
    if (count * group == p.num_heads && count != p.num_kv_heads &&
        std::ranges::find(others, count) == others.end())
      others.push_back(count);
  }
  refuse_unless(others.size() > size_t(second));
  const int64_t wanted = others[second];
  problem = resized(problem, [=](Problem& other) { other.as<Params>().num_kv_heads = wanted; });
}

// Changes the problem so that it differs in one thing from the problem or from another variant.
// Throws Error if the problem has no such variant. A cache that only knows whether a parameter is
// used confuses two values of it; so some parameters have a second variant.
struct OneThing {
  const char* name;
  void (*change)(Problem&);
};
constexpr OneThing kThings[] = {
    {"seq_len_q",
     [](Problem& other) { resize(other, [](Params& p) { p.seq_len_q += p.seq_len_q / 4 + 1; }); }},
    {"seq_len_kv",
     [](Problem& other) {
       resize(other, [](Params& p) { p.seq_len_kv += p.seq_len_kv / 4 + 1; });
     }},
    {"head_dim_v", [](Problem& other) { resize(other, [](Params& p) { p.head_dim_v += 8; }); }},
    {"scale", [](Problem& other) { other.as<Params>().softmax_scale *= 0.5f; }},
    {"num_kv_heads", [](Problem& other) { group_heads(other, false); }},
    {"second num_kv_heads", [](Problem& other) { group_heads(other, true); }},
    {"mask", toggle<ATTEST_MASK>},
    {"window",
     [](Problem& other) {
       auto& p = other.as<Params>();
       refuse_unless(p.patch_size == 0);
       p.window_right = p.window_right == 0 ? -1 : 0;
     }},
    {"window_right",
     [](Problem& other) {
       auto& p = other.as<Params>();
       p.window_right = std::max<int64_t>(p.window_right, 0) + width(p);
     }},
    {"window_left",
     [](Problem& other) {
       auto& p = other.as<Params>();
       p.window_left = std::max<int64_t>(p.window_left, 0) + width(p);
     }},
    {"second window_left",
     [](Problem& other) {
       auto& p = other.as<Params>();
       refuse_unless(p.window_left < 0);
       p.window_left = 2 * width(p);
     }},
    {"diagonal",
     [](Problem& other) {
       refuse_unless(has_band(other.as<Params>()));
       turn_diagonal(other);
     }},
    {"diagonal of a new band",
     [](Problem& other) {
       refuse_unless(!has_band(other.as<Params>()));
       turn_diagonal(other);
     }},
    {"diagonal_offset", [](Problem& other) { with_band(other).diagonal_offset += 2; }},
    {"second diagonal_offset",
     [](Problem& other) {
       Params& p = with_band(other);
       refuse_unless(p.diagonal_offset == 0);
       p.diagonal_offset = -2;
     }},
    {"softcap",
     [](Problem& other) {
       float& cap = other.as<Params>().softcap;
       cap = cap > 0 ? cap / 2 : 1;
     }},
    {"second softcap",
     [](Problem& other) {
       float& cap = other.as<Params>().softcap;
       refuse_unless(cap == 0);
       cap = 2;
     }},
    {"bias", toggle<ATTEST_BIAS>},
    {"alibi_slopes", toggle<ATTEST_ALIBI_SLOPES>},
    {"sinks", toggle<ATTEST_SINKS>},
    {"lse", toggle<ATTEST_LSE>},
    {"rel_bias", toggle<ATTEST_REL_BIAS>},
    {"order",
     [](Problem& other) {
       const auto& p = other.as<Params>();
       refuse_unless(has_band(p) || p.patch_size > 0);  // else no order shows
       toggle(other, ATTEST_ORDER);
     }},
    {"patch_size",
     [](Problem& other) {
       auto& p = other.as<Params>();
       p.patch_size = p.patch_size > 0 ? (p.patch_size + 1) / 2 : (p.seq_len_kv + 2) / 3;
     }},
    {"second patch_size",
     [](Problem& other) {
       auto& p = other.as<Params>();
       refuse_unless(p.patch_size == 0);
       p.patch_size = (p.seq_len_kv + 1) / 2;
     }},
    {"shift_y",
     [](Problem& other) {
       auto& p = other.as<Params>();
       refuse_unless(p.window_height > 0);
       p.shift_y = (p.shift_y + 1) % p.window_height;
     }},
    {"shift_x",
     [](Problem& other) {
       auto& p = other.as<Params>();
       refuse_unless(p.window_width > 0);
       p.shift_x = (p.shift_x + 1) % p.window_width;
     }},
    {"shift_bias",
     [](Problem& other) {
       auto& p = other.as<Params>();
       refuse_unless(p.shift_y != 0 || p.shift_x != 0);
       p.shift_bias = p.shift_bias == -1 ? -2 : -1;  // small: it must show in the output
     }},
    {"block_mask",
     [](Problem& other) {
       refuse_unless(other.has(ATTEST_BLOCK_MASK));
       toggle(other, ATTEST_BLOCK_MASK);
       other.as<Params>().block_q = other.as<Params>().block_kv = 0;
     }},
    {"block_q",
     [](Problem& other) {
       refuse_unless(other.as<Params>().block_q > 1);
       resize(other, [](Params& p) { p.block_q = (p.block_q + 1) / 2; });
     }},
    {"block_kv",
     [](Problem& other) {
       refuse_unless(other.as<Params>().block_kv > 1);
       resize(other, [](Params& p) { p.block_kv = (p.block_kv + 1) / 2; });
     }},
    {"global_tokens",
     [](Problem& other) {
       refuse_unless(other.as<Params>().global_tokens > 0);
       other.as<Params>().global_tokens = 0;
     }},
    {"second global_tokens",
     [](Problem& other) {
       auto& p = other.as<Params>();
       refuse_unless(p.global_tokens > 0 && p.global_tokens < p.seq_len_q);
       ++p.global_tokens;
     }},
    {"top_k",
     [](Problem& other) {
       refuse_unless(other.as<Params>().top_k > 0);
       other.as<Params>().top_k = 0;
       other.as<Params>().top_k_ties = 0;
     }},
    {"second top_k",
     [](Problem& other) {
       auto& p = other.as<Params>();
       refuse_unless(p.top_k > 0 && p.top_k < p.seq_len_kv);
       ++p.top_k;
     }},
    {"f8",
     [](Problem& other) {
       refuse_unless(has_f8(other));
       const DType dtype = other_f8(other.tensor[ATTEST_Q].dtype);
       for (const StoredRole& stored : kStoredRoles)
         other.tensor[size_t(stored.role)].dtype = dtype;
     }},
    {"q_descale", toggle<ATTEST_Q_DESCALE>},
    {"k_descale", toggle<ATTEST_K_DESCALE>},
    {"v_descale", toggle<ATTEST_V_DESCALE>},
    {"descale_block_q",
     [](Problem& other) {
       refuse_unless(other.as<Params>().descale_block_q > 1);
       resize(other, [](Params& p) { p.descale_block_q = (p.descale_block_q + 1) / 2; });
     }},
    {"descale_block_kv",
     [](Problem& other) {
       refuse_unless(other.as<Params>().descale_block_kv > 1);
       resize(other, [](Params& p) { p.descale_block_kv = (p.descale_block_kv + 1) / 2; });
     }},
    {"window_height",
     [](Problem& other) {
       refuse_unless(other.as<Params>().grid_height > 0);
       other = resized(other, [](Problem& changed) {
         auto& p = changed.as<Params>();
         p.window_height = p.window_height == p.grid_height ? 1 : p.grid_height;
         p.shift_y = std::min(p.shift_y, p.window_height - 1);
       });
     }},
};

}  // namespace

std::vector<Variant> SoftmaxOperation::variants(const Problem& problem) const {
  std::vector<Variant> variants = common_variants(problem);
  const auto& p = problem.as<Params>();
  auto has = [&](size_t role) { return present(problem.tensor[role]); };
  if (p.batch > 1 && has_lengths(problem) && !has(ATTEST_ORDER) && !has(ATTEST_MASK) &&
      !has(ATTEST_BIAS))
    add_variant(variants, "lengths", problem, [](Problem&) {}, reverse_lengths);
  if (!has_lengths(problem) && p.grid_height == 0 && p.patch_size == 0)
    add_variant(
        variants, "lengths", problem,
        [&](Problem& other) {
          other.tensor[ATTEST_SEQ_LENS_KV] =
              dense_tensor(ATTEST_I32, ATTEST_READ, std::vector<int64_t>{p.batch});
        },
        [longest = p.seq_len_kv](const Tensors& inputs) { shorten(inputs, longest); });
  for (const OneThing& thing : kThings) add_variant(variants, thing.name, problem, thing.change);
  return variants;
}

}  // namespace attest::core
