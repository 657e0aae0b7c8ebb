// case.json folders: one operation of an upstream project, its parameters in that project's words,
// its tensors as .pb files.
#include <fmt/format.h>

#include <algorithm>

#include "core/operations/linear/linear.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/upstream/upstream_case.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

// The band, and where it is anchored; ALiBi counts its distances from there, with or without a
// band.
void set_band(JsonFields& params, attest_softmax_params& p, bool alibi) {
  const bool causal = params.truth("causal", false);
  p.window_left = params.whole("window_left", -1);
  p.window_right = params.whole("window_right", -1);
  if (causal && p.window_right > 0)
    throw Error(
        fmt::format("{}: window_right: {} where causal leaves 0", params.where(), p.window_right));
  if (causal) p.window_right = 0;
  if (p.window_left < 0 && p.window_right < 0 && !alibi) return params.skip("causal_align");
  const std::string align = params.text("causal_align");
  if (align != "bottom_right" && align != "top_left")
    throw Unsupported{"causal_align " + in_quotes(align)};
  p.diagonal = align == "bottom_right" ? ATTEST_BOTTOM_RIGHT : ATTEST_TOP_LEFT;
}

void map_sdpa(UpstreamCase& from, TestVector& vector, const std::string& usual_layout) {
  JsonFields& params = from.params();
  const std::string layout = params.text("layout", usual_layout);
  const FileTensor &q = from.needed("Q"), &k = from.needed("K"), &v = from.needed("V");
  auto seen = [&](const FileTensor& file) { return view(file, heads_first(file, layout)); };
  auto& p = give_qkvo<attest_softmax_params>(vector, softmax_operation(), seen(q), seen(k), seen(v),
                                             seen(from.output()));
  if (const int64_t heads = params.whole("kv_heads", p.num_kv_heads); heads != p.num_kv_heads)
    throw Error(
        fmt::format("{}: kv_heads: {} where K has {}", params.where(), heads, p.num_kv_heads));
  set_scale(vector, params.real("scale"));
  p.softcap = float(params.real("softcap", 0));
  from.demand("fully_masked_row", "zero");
  const bool alibi = params.truth("alibi", false);
  set_band(params, p, alibi);
  if (alibi) {
    const FileTensor& slopes = from.needed("alibi_slopes");
    give(vector, ATTEST_ALIBI_SLOPES,
         view(slopes, dense_axes(slopes.dims.size() == 1 ? std::vector<int64_t>{1, slopes.dims[0]}
                                                         : slopes.dims)),
         ATTEST_F32);
  }
  for (const auto& [name, role] :
       {std::pair("q_len", ATTEST_SEQ_LENS_Q), std::pair("kv_len", ATTEST_SEQ_LENS_KV)})
    if (const FileTensor* lengths = from.input(name))
      give(vector, role, flat_view(*lengths), ATTEST_I32);
  if (const FileTensor* mask = from.input("attn_mask"))
    give_mask_from_right(vector, *mask, "attn_mask");
  give_sinks(from, vector);
  from.input("centred_xyz");  // where the tokens were: the attention does not see it
}

void map_linear(UpstreamCase& from, TestVector& vector) {
  const std::string layout = from.params().text("layout", "NLHD");
  const FileTensor &q = from.needed("Q"), &k = from.needed("K"), &v = from.needed("V");
  auto seen = [&](const FileTensor& file) { return view(file, heads_first(file, layout)); };
  auto& p = give_qkvo<attest_linear_params>(vector, linear_operation(), seen(q), seen(k), seen(v),
                                            seen(from.output()));
  p.eps = float(from.params().real("eps"));
  if (const FileTensor* mask = from.input("kv_mask")) {
    expect_dims(*mask, {p.batch, p.seq_len_kv}, "kv_mask");
    give(vector, ATTEST_MASK, view(*mask, dense_axes({p.batch, 1, 1, p.seq_len_kv})), ATTEST_BOOL);
  }
  if (const FileTensor* mask = from.input("q_mask")) {
    expect_dims(*mask, {p.batch, p.seq_len_q}, "q_mask");
    give(vector, ATTEST_QUERY_MASK, view(*mask, dense_axes({p.batch, 1, p.seq_len_q, 1})),
         ATTEST_BOOL);
  }
}

// Q and K are turned here, in f64: the reference gets them so, implementations rounded to what they
// were stored in.
void map_rotated(UpstreamCase& from, TestVector& vector) {
  JsonFields& params = from.params();
  // Its first word says which channels are turned together; the rest explains it to people.
  const std::string rotary = params.text("rotary");
  if (rotary.substr(0, rotary.find(' ')) != "interleaved")
    throw Unsupported{"rope_then_sdpa: rotary " + in_quotes(rotary)};
  const FileTensor &q = from.needed("Q"), &k = from.needed("K"), &v = from.needed("V"),
                   &points = from.needed("keypoints"), &frequencies = from.needed("Wr");
  const FileTensor &turned_q = rotate_by_points(vector, q, points, frequencies),
                   &turned_k = rotate_by_points(vector, k, points, frequencies);
  auto seen = [](const FileTensor& file) { return view(file, heads_first(file, "BHSD")); };
  give_qkvo<attest_softmax_params>(vector, softmax_operation(), seen(q), seen(k), seen(v),
                                   seen(from.output()));
  give(vector, ATTEST_Q, seen(turned_q), q.dtype);
  give(vector, ATTEST_K, seen(turned_k), k.dtype);
  set_scale(vector, params.real("scale"));
}

struct UpstreamMapping {
  std::string_view op;
  void (*map)(UpstreamCase& from, TestVector& vector);
};
constexpr UpstreamMapping kMappings[] = {
    {"sdpa", [](UpstreamCase& from, TestVector& vector) { map_sdpa(from, vector, "BHSD"); }},
    {"sdpa_bshd", [](UpstreamCase& from, TestVector& vector) { map_sdpa(from, vector, "BSHD"); }},
    {"rope_then_sdpa", map_rotated},
    {"linear_elu1", map_linear},
    {"swin_window", map_swin},
    {"swinv2_window", map_swin},
    {"sam_relpos", map_sam},
    {"serialized_attention", map_serialized},
    {"set_attention", map_sets},
    {"group_attention", map_groups},
    {"bidirectional_cross_attention", map_cross},
    {"ms_deform_attn", map_deformable},
};

}  // namespace

void map_upstream(const json& description, TestVector& vector, const std::string& file_name) {
  UpstreamCase from(description, vector, file_name);
  const auto mapping = std::ranges::find(kMappings, from.op(), &UpstreamMapping::op);
  if (mapping != std::end(kMappings))
    mapping->map(from, vector);
  else if (!map_library(from, vector))
    throw Unsupported{from.op()};
  from.done();
  if (vector.problem) finish(vector);
}

}  // namespace attest::core
