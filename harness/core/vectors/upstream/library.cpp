// Calls of libraries, by the library's own names: FlashAttention (dense, packed, over a cache,
// paged), cuDNN, PyTorch.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/operations/softmax/softmax.hpp"
#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/upstream/upstream_case.hpp"
#include "core/vectors/upstream/window_bounds.hpp"

namespace attest::core {
namespace {

Tensor integers(const FileTensor& file, int64_t count, const char* name) {
  expect_dims(file, {count}, name);
  return flat_view(file);
}

/// [1, heads, all tokens, channels] of packed [all tokens, heads, channels].
Axes packed_heads_first(const FileTensor& file) {
  expect_dims(file, {-1, -1, -1}, "packed tensor");
  const int64_t heads = file.dims[1], channels = file.dims[2];
  return {.dims = {1, heads, file.dims[0], channels},
          .strides = {0, channels, heads * channels, 1},
          .offset = 0};
}

void set_scale_or_usual(UpstreamCase& from, TestVector& vector, const char* key) {
  const auto& p = vector.problem->as<attest_softmax_params>();
  set_scale(vector, from.params().real(key, 1 / std::sqrt(double(p.head_dim))));
}

void give_slopes(UpstreamCase& from, TestVector& vector) {
  const FileTensor* slopes = from.input("alibi_slopes");
  if (!slopes) return;
  // Distances count from it, with or without a band
  vector.problem->as<attest_softmax_params>().diagonal = ATTEST_BOTTOM_RIGHT;
  const bool shared = slopes->dims.size() == 1;
  give(vector, ATTEST_ALIBI_SLOPES,
       view(*slopes, dense_axes(shared ? std::vector<int64_t>{1, slopes->dims[0]} : slopes->dims)),
       ATTEST_F32);
}

/// Both signs of infinity have been stored for rows that see no key; ours is the negative one.
void expect_lse(UpstreamCase& from, TestVector& vector, bool packed) {
  const FileTensor* lse = from.output("softmax_lse");
  if (!lse) return;
  FileTensor& ours = make_file(vector, "softmax_lse", usable(*lse, "the vector").dtype, lse->dims);
  for (int64_t i = 0; i < ours.count(); ++i) {
    const double value = lse->at(i);
    store(ours.bytes.data(), ours.dtype, i,
          value == std::numeric_limits<double>::infinity() ? -value : value);
  }
  std::vector<int64_t> dims = lse->dims;
  if (packed) dims.insert(dims.begin(), 1);  // [heads, all tokens]
  expect_role(vector, ATTEST_LSE, "softmax_lse", view(ours, dense_axes(dims)), ATTEST_F32);
}

void set_flash_parameters(UpstreamCase& from, TestVector& vector, bool packed) {
  JsonFields& params = from.params();
  auto& p = vector.problem->as<attest_softmax_params>();
  set_scale_or_usual(from, vector, "softmax_scale");
  p.softcap = float(params.real("softcap", 0));
  Bounds window;
  if (params.has("window_size")) {
    const nlohmann::json& bounds = params.any("window_size");
    if (!bounds.is_array() || bounds.size() != 2 || !bounds[0].is_number_integer() ||
        !bounds[1].is_number_integer())
      throw Error(fmt::format("{}: window_size: must be two whole numbers", params.where()));
    window = {bounds[0].get<int64_t>(), bounds[1].get<int64_t>()};
  }
  set_flash_attention_band(p, window, params.truth("causal", false));
  give_slopes(from, vector);
  give_sinks(from, vector);
  expect_lse(from, vector, packed);
}

/// A pool [pages, page_size, heads, channels] and the table of each sequence's pages.
void give_pages(UpstreamCase& from, TestVector& vector, const FileTensor& pool) {
  const FileTensor* table = from.input("block_table");
  if (!table) return;
  auto& p = vector.problem->as<attest_softmax_params>();
  expect_dims(*table, {p.batch, -1}, "block_table");
  p.page_size = pool.dims[1];
  p.seq_len_kv = table->dims[1] * p.page_size;
  give(vector, ATTEST_PAGE_TABLE, view(*table, dense_axes(table->dims)), ATTEST_I32);
}

void map_flash_dense(UpstreamCase& from, TestVector& vector) {
  const auto seen = [](const FileTensor& file) { return view(file, heads_first(file, "BSHD")); };
  const FileTensor& out = from.needed_output("out");
  give_qkvo<attest_softmax_params>(vector, softmax_operation(), seen(from.needed("q")),
                                   seen(from.needed("k")), seen(from.needed("v")), seen(out));
  set_flash_parameters(from, vector, false);
}

void map_flash_varlen(UpstreamCase& from, TestVector& vector) {
  JsonFields& params = from.params();
  const FileTensor &q = from.needed("q"), &k = from.needed("k"), &v = from.needed("v"),
                   &starts_q = from.needed("cu_seqlens_q"),
                   &starts_kv = from.needed("cu_seqlens_k");
  const bool paged = k.dims.size() == 4;
  const auto seen = [](const FileTensor& file) { return view(file, packed_heads_first(file)); };
  const auto keys = [&](const FileTensor& file) {
    return view(file, paged ? heads_first(file, "BSHD") : packed_heads_first(file));
  };
  auto& p = give_qkvo<attest_softmax_params>(vector, softmax_operation(), seen(q), keys(k), keys(v),
                                             seen(from.needed_output("out")));
  p.batch = starts_q.count() - 1;
  if (p.batch < 1) throw Error("cu_seqlens_q: needs an entry for every sequence and one more");
  p.seq_len_q = params.whole("max_seqlen_q");
  p.seq_len_kv = params.whole("max_seqlen_k");
  give(vector, ATTEST_CU_SEQLENS_Q, integers(starts_q, p.batch + 1, "cu_seqlens_q"), ATTEST_I32);
  const Tensor starts = integers(starts_kv, p.batch + 1, "cu_seqlens_k");
  if (paged) {
    FileTensor& lengths = make_file(vector, "seq_lens_kv", ATTEST_I32, {p.batch});
    for (int64_t b = 0; b < p.batch; ++b)
      store(lengths.bytes.data(), ATTEST_I32, b, starts_kv.at(b + 1) - starts_kv.at(b));
    give(vector, ATTEST_SEQ_LENS_KV, flat_view(lengths));
    give_pages(from, vector, k);
    if (p.page_size == 0) throw Error("flash_attn_varlen_func: keys in pages need a block_table");
  } else {
    give(vector, ATTEST_CU_SEQLENS_KV, starts, ATTEST_I32);
  }
  set_flash_parameters(from, vector, true);
}

void map_flash_cache(UpstreamCase& from, TestVector& vector) {
  const FileTensor &q = from.needed("q"), &k = from.needed("k_cache"), &v = from.needed("v_cache");
  const auto seen = [](const FileTensor& file) { return view(file, heads_first(file, "BSHD")); };
  auto& p = give_qkvo<attest_softmax_params>(vector, softmax_operation(), seen(q), seen(k), seen(v),
                                             seen(from.needed_output("out")));
  give_pages(from, vector, k);
  if (const FileTensor* lengths = from.input("cache_seqlens"))
    give(vector, ATTEST_SEQ_LENS_KV, integers(*lengths, p.batch, "cache_seqlens"), ATTEST_I32);
  set_flash_parameters(from, vector, false);
}

std::optional<int64_t> bound(JsonFields& params, const char* key) {
  if (!params.has(key)) return std::nullopt;
  return params.whole(key);
}

void map_cudnn(UpstreamCase& from, TestVector& vector) {
  JsonFields& params = from.params();
  const auto seen = [](const FileTensor& file) { return view(file, heads_first(file, "BHSD")); };
  auto& p = give_qkvo<attest_softmax_params>(vector, softmax_operation(), seen(from.needed("q")),
                                             seen(from.needed("k")), seen(from.needed("v")),
                                             seen(from.needed_output("o")));
  set_scale(vector, params.real("attn_scale", 1));  // none is 1 there
  const std::string alignment = params.text("diagonal_alignment", "TOP_LEFT");
  if (alignment != "TOP_LEFT" && alignment != "BOTTOM_RIGHT")
    throw Unsupported{fmt::format("{}: diagonal_alignment {}", from.op(), in_quotes(alignment))};
  const auto left = bound(params, "diagonal_band_left_bound"),
             right = bound(params, "diagonal_band_right_bound");
  if (left.value_or(1) < 1 || right.value_or(0) < 0)
    throw Error(fmt::format("{}: diagonal_band_left_bound, _right_bound: at least 1, and 0",
                            params.where()));
  set_cudnn_band(p, left, right, alignment == "BOTTOM_RIGHT");
  if (const FileTensor* bias = from.input("bias")) give_mask_from_right(vector, *bias, "bias");
  for (const auto& [name, role] :
       {std::pair("seq_len_q", ATTEST_SEQ_LENS_Q), std::pair("seq_len_kv", ATTEST_SEQ_LENS_KV)})
    if (const FileTensor* lengths = from.input(name))
      give(vector, role, flat_view(*lengths), ATTEST_I32);
}

void map_torch(UpstreamCase& from, TestVector& vector) {
  JsonFields& params = from.params();
  const auto seen = [](const FileTensor& file) { return view(file, heads_first(file, "BHSD")); };
  auto& p = give_qkvo<attest_softmax_params>(
      vector, softmax_operation(), seen(from.needed("query")), seen(from.needed("key")),
      seen(from.needed("value")), seen(from.needed_output("out")));
  if (!params.truth("enable_gqa", false) && p.num_heads != p.num_kv_heads)
    throw Error(fmt::format("{}: {} query and {} key heads without enable_gqa", params.where(),
                            p.num_heads, p.num_kv_heads));
  if (params.real("dropout_p", 0) != 0) throw Unsupported{from.op() + ": dropout_p"};
  set_scale_or_usual(from, vector, "scale");
  if (params.truth("is_causal", false)) p.window_right = 0;  // top left
  if (const FileTensor* mask = from.input("attn_mask"))
    give_mask_from_right(vector, *mask, "attn_mask");
}

}  // namespace

bool map_library(UpstreamCase& from, TestVector& vector) {
  struct Known {
    std::string_view op;
    void (*map)(UpstreamCase&, TestVector&);
  };
  constexpr Known kKnown[] = {{"flash_attn_func", map_flash_dense},
                              {"flash_attn_varlen_func", map_flash_varlen},
                              {"flash_attn_with_kvcache", map_flash_cache},
                              {"cudnn_sdpa", map_cudnn},
                              {"scaled_dot_product_attention", map_torch}};
  for (const Known& known : kKnown)
    if (known.op == from.op()) {
      known.map(from, vector);
      return true;
    }
  return false;
}

}  // namespace attest::core
