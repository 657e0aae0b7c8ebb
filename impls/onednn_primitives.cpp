// onednn_primitives: what one writes who has oneDNN's primitives: scores by a matrix product, their
// softmax, values by a second product. Scores and probabilities of some sequences, or of some query
// rows of one sequence, are in memory at a time.
#include <oneapi/dnnl/dnnl_debug.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attest.hpp"
#include "onednn/library.hpp"

#ifndef ATTEST_ONEDNN_SCORE_BYTES  // of a part, unless one row of it is more
#define ATTEST_ONEDNN_SCORE_BYTES (int64_t{16} << 20)
#endif

namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Type = dnnl::memory::data_type;

constexpr int64_t kScoreBytes = ATTEST_ONEDNN_SCORE_BYTES;
constexpr uint64_t kAlignment = 64;

uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
int64_t element_bytes(int32_t dtype) { return dtype == ATTEST_F32 ? 4 : 2; }
bool of_keys(int32_t role) { return role == ATTEST_K || role == ATTEST_V; }

/// What the primitives compute in one go: query rows of all heads of some sequences, or of one
/// head.
struct Part {
  int64_t sequences, heads, rows;
  bool one_head() const { return sequences == 1 && heads == 1; }
};

/// Dims and strides with the query heads that share a head of K and V apart: [sequences, kv heads,
/// query heads of each, rows, columns]. Without GQA the third is left out. One head: [rows,
/// columns].
struct Shape {
  Dims dims, strides;
  /// In the order of K's transpose.
  void transpose() {
    std::swap(dims[dims.size() - 2], dims.back());
    std::swap(strides[strides.size() - 2], strides.back());
  }
};

Dims dims_of(const attest_softmax_params& p, const Part& part, bool keys, int64_t rows,
             int64_t columns) {
  const int64_t group = p.num_heads / p.num_kv_heads;
  if (part.one_head()) return {rows, columns};
  if (group == 1) return {part.sequences, p.num_heads, rows, columns};
  return {part.sequences, p.num_kv_heads, keys ? 1 : group, rows, columns};
}

/// A part of a tensor of the problem.
Shape shape_of(const attest_problem& problem, int32_t role, const Part& part) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  const attest_tensor& t = problem.tensor[role];
  const int64_t group = p.num_heads / p.num_kv_heads;
  Shape shape{dims_of(p, part, of_keys(role), of_keys(role) ? p.seq_len_kv : part.rows, t.dim[3]),
              Dims(t.stride, t.stride + 4)};
  Dims& strides = shape.strides;
  if (part.one_head())
    strides.erase(strides.begin(), strides.begin() + 2);
  else if (group > 1 && of_keys(role))
    strides.insert(strides.begin() + 2, 0);
  else if (group > 1)
    strides.insert(strides.begin() + 1, group * t.stride[1]);
  // attest's stride of a dim of 1 is 0; oneDNN expects that of a dense tensor.
  for (size_t n = strides.size(); n-- > 0;)
    if (shape.dims[n] == 1)
      strides[n] = n + 1 == strides.size() ? 1 : shape.dims[n + 1] * strides[n + 1];
  return shape;
}
Desc desc_of(const attest_problem& problem, int32_t role, const Part& part) {
  Shape shape = shape_of(problem, role, part);
  if (role == ATTEST_K) shape.transpose();
  return {shape.dims, onednn::type_of(problem.tensor[role].dtype), shape.strides};
}

/// A dense matrix of queries and keys for each query head.
Desc pairs_of(const attest_problem& problem, const Part& part, Type type) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  const Dims dims = dims_of(p, part, false, part.rows, p.seq_len_kv);
  Dims strides(dims.size(), 1);
  for (size_t n = dims.size() - 1; n-- > 0;) strides[n] = dims[n + 1] * strides[n + 1];
  return {dims, type, strides};
}

dnnl::matmul::primitive_desc products_of_keys(const attest_problem& problem, const Part& part) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  dnnl::primitive_attr attr = onednn::attributes();
  dnnl::post_ops scaled;
  scaled.append_eltwise(dnnl::algorithm::eltwise_linear, p.softmax_scale, 0);
  attr.set_post_ops(scaled);
  return {onednn::cpu(), desc_of(problem, ATTEST_Q, part), desc_of(problem, ATTEST_K, part),
          pairs_of(problem, part, Type::f32), attr};
}

dnnl::softmax_forward::primitive_desc softmax(const attest_problem& problem, const Part& part) {
  const Desc scores = pairs_of(problem, part, Type::f32),
             weights = pairs_of(problem, part, onednn::type_of(problem.tensor[ATTEST_Q].dtype));
  const int axis = scores.get_ndims() - 1;
  return {onednn::cpu(),
          dnnl::prop_kind::forward_inference,
          dnnl::algorithm::softmax_accurate,
          scores,
          weights,
          axis,
          onednn::attributes()};
}

dnnl::matmul::primitive_desc products_of_values(const attest_problem& problem, const Part& part) {
  return {onednn::cpu(), pairs_of(problem, part, onednn::type_of(problem.tensor[ATTEST_Q].dtype)),
          desc_of(problem, ATTEST_V, part), desc_of(problem, ATTEST_O, part), onednn::attributes()};
}

/// Where the arrays of a part lie in the workspace.
struct Layout {
  uint64_t weights, scratch, bytes;  // scores lie at its start
};

/// The three primitives for parts of one size.
class Steps {
 public:
  Steps(const attest_problem& problem, const Part& part)
      : part_(part),
        keys_(products_of_keys(problem, part)),
        softmax_(softmax(problem, part)),
        values_(products_of_values(problem, part)) {
    const bool in_place = problem.tensor[ATTEST_Q].dtype == ATTEST_F32;
    layout_.weights = in_place ? 0 : aligned(softmax_.src_desc().get_size());
    layout_.scratch = layout_.weights + aligned(softmax_.dst_desc().get_size());
    layout_.bytes = layout_.scratch + std::max({keys_.scratchpad_desc().get_size(),
                                                softmax_.scratchpad_desc().get_size(),
                                                values_.scratchpad_desc().get_size()});
  }
  Part part() const { return part_; }
  uint64_t workspace_bytes() const { return layout_.bytes; }
  /// Whether all that oneDNN has for one of them is its reference: loops over single elements.
  bool uses_reference() const {
    for (const char* name :
         {keys_.impl_info_str(), softmax_.impl_info_str(), values_.impl_info_str()})
      if (std::string(name).rfind("ref", 0) == 0) return true;
    return false;
  }

  /// Generates the code.
  void compile() {
    multiply_keys_ = dnnl::matmul(keys_);
    normalise_ = dnnl::softmax_forward(softmax_);
    multiply_values_ = dnnl::matmul(values_);
  }

  /// The tensors begin with the part's first sequence and row.
  void run(dnnl::stream& stream, void* q, void* k, void* v, void* o, char* workspace) const {
    const dnnl::engine& cpu = onednn::cpu();
    const dnnl::memory scores(keys_.dst_desc(), cpu, workspace),
        weights(softmax_.dst_desc(), cpu, workspace + layout_.weights);
    const auto scratch = [&](const Desc& desc) {
      return dnnl::memory(desc, cpu, workspace + layout_.scratch);
    };
    multiply_keys_.execute(stream, {{DNNL_ARG_SRC, {keys_.src_desc(), cpu, q}},
                                    {DNNL_ARG_WEIGHTS, {keys_.weights_desc(), cpu, k}},
                                    {DNNL_ARG_DST, scores},
                                    {DNNL_ARG_SCRATCHPAD, scratch(keys_.scratchpad_desc())}});
    normalise_.execute(stream, {{DNNL_ARG_SRC, scores},
                                {DNNL_ARG_DST, weights},
                                {DNNL_ARG_SCRATCHPAD, scratch(softmax_.scratchpad_desc())}});
    multiply_values_.execute(stream, {{DNNL_ARG_SRC, weights},
                                      {DNNL_ARG_WEIGHTS, {values_.weights_desc(), cpu, v}},
                                      {DNNL_ARG_DST, {values_.dst_desc(), cpu, o}},
                                      {DNNL_ARG_SCRATCHPAD, scratch(values_.scratchpad_desc())}});
  }

 private:
  const Part part_;
  const dnnl::matmul::primitive_desc keys_;
  const dnnl::softmax_forward::primitive_desc softmax_;
  const dnnl::matmul::primitive_desc values_;
  Layout layout_{};
  dnnl::matmul multiply_keys_, multiply_values_;
  dnnl::softmax_forward normalise_;
};

class OneDnn {
 public:
  static constexpr attest::Info kInfo{
      .name = "onednn_primitives",
      .version = "",  // table()
      .summary = "oneDNN's matmul, softmax and matmul, the score matrix in memory",
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      .features = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_STRIDES};

  static const char* query(const attest_problem& problem, attest_support& support) {
    static thread_local std::string why;
    const onednn::Threads threads(problem.threads);
    try {
      for (const Steps& steps : plan(problem)) {
        if (steps.uses_reference()) {
          why = onednn::version_and_isa() + ": has only its slow reference for this layout";
          return why.c_str();
        }
        support.workspace_bytes = std::max(support.workspace_bytes, steps.workspace_bytes());
      }
    } catch (const dnnl::error& error) {
      why = onednn::version_and_isa() + ": " + error.message + " (" +
            dnnl_status2str(error.status) + ")";
      return why.c_str();
    }
    for (const int stage : {ATTEST_SOFTMAX_QK, ATTEST_SOFTMAX_PV, ATTEST_SOFTMAX_PROBABILITY})
      support.stage[stage].dtype = problem.tensor[ATTEST_Q].dtype;
    support.arithmetic = ATTEST_P_NORMALISED_FIRST;
    return nullptr;
  }

  explicit OneDnn(const attest_problem& given) : problem(given) {
    const onednn::Threads threads(problem.threads);
    steps_ = plan(problem);
    for (Steps& steps : steps_) steps.compile();
  }

  const attest_problem& problem;

  void run(void* const* data, void* workspace, void* /*stream*/) {
    const onednn::Threads threads(problem.threads);
    const auto& p = attest::params<attest_softmax_params>(problem);
    const Part whole = steps_.front().part();
    for (int64_t b = 0; b < p.batch; b += whole.sequences)
      for (int64_t h = 0; h < p.num_heads; h += whole.heads)
        for (int64_t i = 0; i < p.seq_len_q; i += whole.rows) {
          const bool last = b + whole.sequences > p.batch || i + whole.rows > p.seq_len_q;
          const Steps& steps = last ? steps_.back() : steps_.front();
          const auto at = [&](int32_t role) { return address(data, role, b, h, i); };
          steps.run(stream_, at(ATTEST_Q), at(ATTEST_K), at(ATTEST_V), at(ATTEST_O),
                    static_cast<char*>(workspace));
        }
  }

 private:
  /// Of the first element of sequence b and head h, and of row i where the rows are queries.
  void* address(void* const* data, int32_t role, int64_t b, int64_t h, int64_t i) const {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const attest_tensor& t = problem.tensor[role];
    const int64_t head = of_keys(role) ? h / (p.num_heads / p.num_kv_heads) : h,
                  row = of_keys(role) ? 0 : i;
    const int64_t element = b * t.stride[0] + head * t.stride[1] + row * t.stride[2];
    return static_cast<char*>(data[role]) + element * element_bytes(t.dtype);
  }

  /// All heads at once or, where oneDNN has nothing but its reference for these strides, one by
  /// one.
  static std::vector<Steps> plan(const attest_problem& problem) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    std::vector<Steps> together = split(problem, p.batch, p.num_heads);
    for (const Steps& steps : together)
      if (steps.uses_reference()) return split(problem, 1, 1);
    return together;
  }

  /// Parts of as many sequences as fit, or of rows of one sequence; then a smaller one, if they do
  /// not add up to the whole.
  static std::vector<Steps> split(const attest_problem& problem, int64_t sequences, int64_t heads) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const double row_bytes = 4.0 * static_cast<double>(heads) * static_cast<double>(p.seq_len_kv);
    const int64_t fitting = std::max<int64_t>(1, static_cast<int64_t>(kScoreBytes / row_bytes));
    Part part{1, heads, std::min(p.seq_len_q, fitting)}, rest = part;
    if (part.rows == p.seq_len_q) part.sequences = std::min(sequences, fitting / p.seq_len_q);
    rest.sequences = p.batch % part.sequences;
    rest.rows = p.seq_len_q % part.rows;
    std::vector<Steps> steps;
    steps.emplace_back(problem, part);
    if (rest.sequences > 0) steps.emplace_back(problem, Part{rest.sequences, heads, part.rows});
    if (rest.rows > 0) steps.emplace_back(problem, Part{1, heads, rest.rows});
    return steps;
  }

  std::vector<Steps> steps_;
  dnnl::stream stream_{onednn::cpu()};
};

/// With the version of the library that is loaded.
const attest_impl* table() {
  static const std::string version = onednn::version();
  static const attest_impl table = [] {
    attest_impl made = *attest::table<OneDnn>();
    made.version = version.c_str();
    return made;
  }();
  return &table;
}

}  // namespace

ATTEST_PLUGIN(table())
