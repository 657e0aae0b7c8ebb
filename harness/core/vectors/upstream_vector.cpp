// case.json folders: one operation of an upstream project, its parameters in that project's words, its tensors as .pb files.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "core/inputs/bytes.hpp"
#include "core/operations/linear/linear.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/assembly.hpp"
#include "core/vectors/json_fields.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

/// The case as its mapping reads it; what a mapping does not ask for is unsupported.
class Upstream {
 public:
  Upstream(const json& description, VectorCase& vector, const std::string& file_name)
      : vector_(vector), fields_(description, file_name), params_(fields_.any("params"), file_name + ": params") {
    op_ = fields_.text("op");
    vector.source = fmt::format("{}: {}", op_, fields_.text("computed_by", "unknown"));
    if (fields_.has("tolerance")) vector.tolerance = fields_.real("tolerance");
    for (const char* key : {"name", "commit", "licence", "compute_dtype", "note"}) fields_.skip(key);
    const std::filesystem::path folder = std::filesystem::path(file_name).parent_path();
    read(fields_.any("inputs"), folder, file_name + ": inputs", inputs_);
    read(fields_.any("outputs"), folder, file_name + ": outputs", outputs_);
    if (const std::string key = fields_.unused(); !key.empty()) throw Unsupported{fmt::format("{}: key {}", op_, in_quotes(key))};
  }

  const std::string& op() const { return op_; }
  JsonFields& params() { return params_; }
  const FileTensor* input(const std::string& name) { return take(inputs_, name); }
  const FileTensor& needed(const std::string& name) {
    if (const FileTensor* file = input(name)) return *file;
    throw Error(fmt::format("{}: input '{}' is missing", fields_.where(), name));
  }
  const FileTensor& output() {
    if (outputs_.size() != 1) throw Unsupported{fmt::format("{}: {} outputs", op_, outputs_.size())};
    return *outputs_.begin()->second;
  }
  /// A parameter that has one meaning here.
  void demand(const std::string& key, const std::string& right) {
    if (const std::string got = params_.text(key, right); got != right)
      throw Unsupported{fmt::format("{}: {} {}", op_, key, in_quotes(got))};
  }
  void done() const {
    if (const std::string key = params_.unused(); !key.empty())
      throw Unsupported{fmt::format("{}: parameter {}", op_, in_quotes(key))};
    if (!inputs_.empty()) throw Unsupported{fmt::format("{}: input {}", op_, in_quotes(inputs_.begin()->first))};
  }

 private:
  using Files = std::map<std::string, const FileTensor*>;

  void read(const json& list, const std::filesystem::path& folder, const std::string& where, Files& files) {
    if (!list.is_array()) throw Error(where + ": must be a list");
    for (const json& item : list) {
      JsonFields fields(item, where);
      const std::string name = fields.text("name"), file = fields.text("file");
      if (file.find('/') != file.npos) throw Error(fmt::format("{}: file {}: must lie beside the case", where, in_quotes(file)));
      const std::filesystem::path path = folder / file;
      need_onnx();
      FileTensor& tensor = vector_.files.emplace_back(parse_onnx_tensor(read_bytes(path), path.string()));
      tensor.name = name;
      if (fields.has("shape") && fields.any("shape") != json(tensor.dims))
        throw Error(fmt::format("{}: dims {} where {} says {}", path.string(), print_dims(tensor.dims), where,
                                fields.any("shape").dump()));
      if (!files.emplace(name, &tensor).second) throw Error(fmt::format("{}: {} comes twice", where, in_quotes(name)));
    }
  }
  static const FileTensor* take(Files& files, const std::string& name) {
    const auto at = files.find(name);
    if (at == files.end()) return nullptr;
    const FileTensor* file = at->second;
    files.erase(at);
    return file;
  }

  VectorCase& vector_;
  JsonFields fields_, params_;
  std::string op_;
  Files inputs_, outputs_;
};

/// [batch, heads, tokens, channels] of a tensor stored so, or with tokens before heads.
Axes heads_first(const FileTensor& file, bool tokens_first) {
  expect_dims(file, {-1, -1, -1, -1}, "tensor");
  Axes axes = dense_axes(file.dims);
  if (tokens_first) std::swap(axes.dims[1], axes.dims[2]), std::swap(axes.strides[1], axes.strides[2]);
  return axes;
}

/// Sizes of Q, K, V and Y into the params of the softmax or the linear problem, which begin alike.
template <class Params>
Params& give_qkvo(VectorCase& vector, const Operation& operation, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& y) {
  auto& p = start_problem(vector, operation, q.spec.dtype).template as<Params>();
  p.batch = q.spec.dim[0], p.num_heads = q.spec.dim[1], p.seq_len_q = q.spec.dim[2], p.head_dim = q.spec.dim[3];
  p.num_kv_heads = k.spec.dim[1], p.seq_len_kv = k.spec.dim[2], p.head_dim_v = v.spec.dim[3];
  give(vector, ATTEST_Q, q), give(vector, ATTEST_K, k), give(vector, ATTEST_V, v);
  expect_role(vector, ATTEST_O, "Y", y, vector.problem->dtype);
  return p;
}

void set_band(JsonFields& params, attest_softmax_params& p) {
  const bool causal = params.truth("causal", false);
  p.window_left = params.whole("window_left", -1), p.window_right = params.whole("window_right", -1);
  if (causal && p.window_right > 0)
    throw Error(fmt::format("{}: window_right: {} where causal leaves 0", params.where(), p.window_right));
  if (causal) p.window_right = 0;
  if (p.window_left < 0 && p.window_right < 0) return params.skip("causal_align");
  const std::string align = params.text("causal_align");
  if (align != "bottom_right" && align != "top_left") throw Unsupported{"causal_align " + in_quotes(align)};
  p.diagonal = align == "bottom_right" ? ATTEST_BOTTOM_RIGHT : ATTEST_TOP_LEFT;
}

void map_sdpa(Upstream& from, VectorCase& vector, const std::string& usual_layout) {
  JsonFields& params = from.params();
  const std::string layout = params.text("layout", usual_layout);
  if (layout != "BSHD" && layout != "BHSD") throw Unsupported{"layout " + in_quotes(layout)};
  const FileTensor &q = from.needed("Q"), &k = from.needed("K"), &v = from.needed("V");
  auto seen = [&](const FileTensor& file) { return view(file, heads_first(file, layout == "BSHD")); };
  auto& p = give_qkvo<attest_softmax_params>(vector, softmax_operation(), seen(q), seen(k), seen(v), seen(from.output()));
  if (const int64_t heads = params.whole("kv_heads", p.num_kv_heads); heads != p.num_kv_heads)
    throw Error(fmt::format("{}: kv_heads: {} where K has {}", params.where(), heads, p.num_kv_heads));
  set_scale(vector, params.real("scale"));
  p.softcap = float(params.real("softcap", 0));
  from.demand("fully_masked_row", "zero");
  set_band(params, p);
  if (params.truth("alibi", false)) {
    const FileTensor& slopes = from.needed("alibi_slopes");
    give(vector, ATTEST_ALIBI_SLOPES,
         view(slopes, dense_axes(slopes.dims.size() == 1 ? std::vector<int64_t>{1, slopes.dims[0]} : slopes.dims)), ATTEST_F32);
  }
  for (const auto& [name, role] : {std::pair("q_len", ATTEST_SEQ_LENS_Q), std::pair("kv_len", ATTEST_SEQ_LENS_KV)})
    if (const FileTensor* lengths = from.input(name)) give(vector, role, flat_view(*lengths), ATTEST_I32);
  from.input("centred_xyz");  // where the tokens were: the attention does not see it
}

void map_linear(Upstream& from, VectorCase& vector) {
  from.demand("layout", "NLHD");
  const FileTensor &q = from.needed("Q"), &k = from.needed("K"), &v = from.needed("V");
  auto seen = [](const FileTensor& file) { return view(file, heads_first(file, true)); };
  auto& p = give_qkvo<attest_linear_params>(vector, linear_operation(), seen(q), seen(k), seen(v), seen(from.output()));
  p.eps = float(from.params().real("eps"));
  if (const FileTensor* mask = from.input("kv_mask")) {
    expect_dims(*mask, {p.batch, p.seq_len_kv}, "kv_mask");
    give(vector, ATTEST_MASK, view(*mask, dense_axes({p.batch, 1, 1, p.seq_len_kv})), ATTEST_BOOL);
  }
  if (const FileTensor* mask = from.input("q_mask")) {
    expect_dims(*mask, {p.batch, p.seq_len_q}, "q_mask");
    give(vector, ATTEST_QUERY_MASK, view(*mask, dense_axes({p.batch, 1, p.seq_len_q, 1})), ATTEST_BOOL);
  }
}

/// Q, K or V (part 0, 1, 2) of [outer, tokens, q|k|v, head, channel].
Tensor part_of(const FileTensor& qkv, int64_t outer, int64_t tokens, int64_t heads, int64_t part) {
  const int64_t width = qkv.count() / (outer * tokens), channels = width / 3 / heads;
  if (width != 3 * heads * channels) throw Error(fmt::format("qkv: {} channels are no 3 * {} heads", width, heads));
  return view(qkv, {.dims = {outer, heads, tokens, channels},
                    .strides = {tokens * width, channels, width, 1},
                    .offset = part * heads * channels});
}

attest_softmax_params& give_packed(Upstream& from, VectorCase& vector, int64_t outer, int64_t tokens) {
  const int64_t heads = from.params().whole("heads");
  const FileTensor &qkv = from.needed("qkv"), &y = from.output();
  if (heads < 1 || heads > 65536) throw Error(fmt::format("{}: heads: {}", from.params().where(), heads));
  const Tensor q = part_of(qkv, outer, tokens, heads, 0), k = part_of(qkv, outer, tokens, heads, 1),
               v = part_of(qkv, outer, tokens, heads, 2);
  const int64_t channels = q.spec.dim[3];
  if (y.count() * 3 != qkv.count())
    throw Error(fmt::format("Y: dims {} do not fit qkv {}", print_dims(y.dims), print_dims(qkv.dims)));
  const Tensor out = view(y, {.dims = {outer, heads, tokens, channels},
                              .strides = {tokens * heads * channels, channels, heads * channels, 1},
                              .offset = 0});
  auto& p = give_qkvo<attest_softmax_params>(vector, softmax_operation(), q, k, v, out);
  set_scale(vector, from.params().real("scale"));
  return p;
}

// Windows as batch: the relative position bias and the mask between regions together are the bias.
void map_swin(Upstream& from, VectorCase& vector) {
  JsonFields& params = from.params();
  from.demand("qkv_layout", "(nW, N, [q|k|v][head][d])");
  for (const char* key : {"shift", "res", "mask_value"}) params.skip(key);  // in the tensors already
  const int64_t window = params.whole("window"), tokens = window * window;
  if (window < 1 || window > 1024) throw Error(fmt::format("{}: window: {}", params.where(), window));
  const FileTensor &table = from.needed("rel_pos_bias_table"), &index = from.needed("rel_pos_index");
  const FileTensor* mask = from.input("attn_mask");
  const int64_t outer = table.dims.empty() ? 0 : vector.files.front().dims.at(0);
  auto& p = give_packed(from, vector, outer, tokens);
  expect_dims(table, {(2 * window - 1) * (2 * window - 1), p.num_heads}, "rel_pos_bias_table");
  expect_dims(index, {tokens, tokens}, "rel_pos_index");
  if (mask) expect_dims(*mask, {-1, tokens, tokens}, "attn_mask");
  if (mask && (mask->dims[0] < 1 || outer % mask->dims[0] != 0))
    throw Error(fmt::format("attn_mask: {} windows where a divisor of {} is right", mask->dims[0], outer));
  const int64_t windows = mask ? mask->dims[0] : 1, repeated = mask ? outer : 1;
  FileTensor& bias = make_file(vector, "bias", ATTEST_F64, {repeated, p.num_heads, tokens, tokens});
  int64_t at = 0;
  for (int64_t w = 0; w < repeated; ++w)
    for (int64_t h = 0; h < p.num_heads; ++h)
      for (int64_t pair = 0; pair < tokens * tokens; ++pair) {
        const double row = index.at(pair);
        if (!(row >= 0 && row < double(table.dims[0])))
          throw Error(fmt::format("rel_pos_index: {} where 0 to {} is right", row, table.dims[0] - 1));
        const double region = mask ? mask->at(w % windows * tokens * tokens + pair) : 0;
        store(bias.bytes.data(), ATTEST_F64, at++, table.at(int64_t(row) * p.num_heads + h) + region);
      }
  give(vector, ATTEST_BIAS, view(bias, dense_axes(bias.dims)), vector.problem->dtype);
}

// Global attention with decomposed relative positions of the query before scaling: they are a bias.
void map_sam(Upstream& from, VectorCase& vector) {
  JsonFields& params = from.params();
  from.demand("qkv_layout", "(1,h,w,[q|k|v][head][d])");
  const int64_t height = params.whole("h"), width = params.whole("w");
  if (height < 1 || width < 1 || height > 4096 || width > 4096)
    throw Error(fmt::format("{}: h, w: {}, {}", params.where(), height, width));
  if (params.whole("window") != 0 || params.any("padded") != json{height, width})
    throw Unsupported{"sam_relpos: windows with padding"};
  auto& p = give_packed(from, vector, 1, height * width);
  const FileTensor &rows = from.needed("rel_pos_h"), &columns = from.needed("rel_pos_w");
  expect_dims(rows, {2 * height - 1, p.head_dim}, "rel_pos_h");
  expect_dims(columns, {2 * width - 1, p.head_dim}, "rel_pos_w");
  const Tensor& q = vector.given[ATTEST_Q];
  const int64_t tokens = height * width;
  FileTensor& bias = make_file(vector, "bias", ATTEST_F64, {1, p.num_heads, tokens, tokens});
  auto dot = [&](int64_t h, int64_t i, const FileTensor& table, int64_t row) {
    double sum = 0;
    for (int64_t d = 0; d < p.head_dim; ++d) sum += q.at({0, h, i, d}) * table.at(row * p.head_dim + d);
    return sum;
  };
  std::vector<double> by_row(static_cast<size_t>(height)), by_column(static_cast<size_t>(width));
  int64_t at = 0;
  for (int64_t h = 0; h < p.num_heads; ++h)
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t y = 0; y < height; ++y) by_row[size_t(y)] = dot(h, i, rows, i / width - y + height - 1);
      for (int64_t x = 0; x < width; ++x) by_column[size_t(x)] = dot(h, i, columns, i % width - x + width - 1);
      for (int64_t j = 0; j < tokens; ++j)
        store(bias.bytes.data(), ATTEST_F64, at++, by_row[size_t(j / width)] + by_column[size_t(j % width)]);
    }
  give(vector, ATTEST_BIAS, view(bias, dense_axes(bias.dims)), vector.problem->dtype);
}

// Q and K are turned here, in f64: the reference gets them so, implementations rounded to what they were stored in.
void map_rotated(Upstream& from, VectorCase& vector) {
  constexpr std::string_view kKnown = "interleaved pairs: (x0,x1)->(x0 c - x1 s, x1 c + x0 s), angle_i = Wr[i].xy, ";
  JsonFields& params = from.params();
  if (const std::string rotary = params.text("rotary"); !rotary.starts_with(kKnown))
    throw Unsupported{"rope_then_sdpa: rotary " + in_quotes(rotary)};
  const FileTensor &q = from.needed("Q"), &k = from.needed("K"), &v = from.needed("V"), &points = from.needed("keypoints"),
                   &frequencies = from.needed("Wr");
  const FileTensor &turned_q = rotate_by_points(vector, q, points, frequencies),
                   &turned_k = rotate_by_points(vector, k, points, frequencies);
  auto seen = [](const FileTensor& file) { return view(file, heads_first(file, false)); };
  give_qkvo<attest_softmax_params>(vector, softmax_operation(), seen(q), seen(k), seen(v), seen(from.output()));
  give(vector, ATTEST_Q, seen(turned_q), q.dtype), give(vector, ATTEST_K, seen(turned_k), k.dtype);
  set_scale(vector, params.real("scale"));
}

}  // namespace

void map_upstream(const json& description, VectorCase& vector, const std::string& file_name) {
  Upstream from(description, vector, file_name);
  if (from.op() == "sdpa")
    map_sdpa(from, vector, "BHSD");
  else if (from.op() == "sdpa_bshd")
    map_sdpa(from, vector, "BSHD");
  else if (from.op() == "rope_then_sdpa")
    map_rotated(from, vector);
  else if (from.op() == "linear_elu1")
    map_linear(from, vector);
  else if (from.op() == "swin_window")
    map_swin(from, vector);
  else if (from.op() == "sam_relpos")
    map_sam(from, vector);
  else
    throw Unsupported{from.op()};
  from.done();
  finish(vector);
}

}  // namespace attest::core
