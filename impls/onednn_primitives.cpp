// onednn_primitives: what one writes who has oneDNN's primitives: scores by a matrix product, their
// softmax, values by a second product. Scores and probabilities of some sequences, or of some query
// rows of one sequence, are in memory at a time. Between the primitives, loops hide and add
// (onednn/hiding.hpp).
#include <oneapi/dnnl/dnnl_debug.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attest.hpp"
#include "onednn/hiding.hpp"
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

bool hides(const attest_problem& problem) { return (problem.features & onednn::kHiding) != 0; }

/// What the primitives compute in one go: query rows of all heads of some sequences, or of one
/// head.
struct Part {
  int64_t sequences, heads, rows;
  bool one_head() const { return sequences == 1 && heads == 1; }
  int64_t all_rows() const { return sequences * heads * rows; }
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
  if (role == ATTEST_V && hides(problem))  // Hiding::values
    strides = {p.num_kv_heads * p.seq_len_kv * p.head_dim_v, p.seq_len_kv * p.head_dim_v,
               p.head_dim_v, 1};
  if (part.one_head())
    strides.erase(strides.begin(), strides.begin() + 2);
  else if (group > 1 && of_keys(role))
    strides.insert(strides.begin() + 2, 0);
  else if (group > 1)
    strides.insert(strides.begin() + 1, group * t.stride[1]);
  onednn::set_strides_of_ones(shape.dims, strides);
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
  if (p.softcap > 0) {
    scaled.append_eltwise(dnnl::algorithm::eltwise_linear, p.softmax_scale / p.softcap, 0);
    scaled.append_eltwise(dnnl::algorithm::eltwise_tanh, 0, 0);
    scaled.append_eltwise(dnnl::algorithm::eltwise_linear, p.softcap, 0);
  } else {
    scaled.append_eltwise(dnnl::algorithm::eltwise_linear, p.softmax_scale, 0);
  }
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
    layout_.bytes = layout_.scratch + aligned(std::max({keys_.scratchpad_desc().get_size(),
                                                        softmax_.scratchpad_desc().get_size(),
                                                        values_.scratchpad_desc().get_size()}));
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

  float* scores(char* workspace) const { return reinterpret_cast<float*>(workspace); }

  /// The tensors of each step begin with the part's first sequence, head and row.
  void multiply_keys(dnnl::stream& stream, void* q, void* k, char* workspace) const {
    multiply_keys_.execute(stream,
                           {{DNNL_ARG_SRC, memory(keys_.src_desc(), q)},
                            {DNNL_ARG_WEIGHTS, memory(keys_.weights_desc(), k)},
                            {DNNL_ARG_DST, memory(keys_.dst_desc(), workspace)},
                            {DNNL_ARG_SCRATCHPAD, scratch(keys_.scratchpad_desc(), workspace)}});
  }
  void normalise(dnnl::stream& stream, char* workspace) const {
    normalise_.execute(stream,
                       {{DNNL_ARG_SRC, memory(softmax_.src_desc(), workspace)},
                        {DNNL_ARG_DST, memory(softmax_.dst_desc(), workspace + layout_.weights)},
                        {DNNL_ARG_SCRATCHPAD, scratch(softmax_.scratchpad_desc(), workspace)}});
  }
  void multiply_values(dnnl::stream& stream, void* v, void* o, char* workspace) const {
    multiply_values_.execute(
        stream, {{DNNL_ARG_SRC, memory(values_.src_desc(), workspace + layout_.weights)},
                 {DNNL_ARG_WEIGHTS, memory(values_.weights_desc(), v)},
                 {DNNL_ARG_DST, memory(values_.dst_desc(), o)},
                 {DNNL_ARG_SCRATCHPAD, scratch(values_.scratchpad_desc(), workspace)}});
  }

 private:
  static dnnl::memory memory(const Desc& desc, void* address) {
    return {desc, onednn::cpu(), address};
  }
  dnnl::memory scratch(const Desc& desc, char* workspace) const {
    return memory(desc, workspace + layout_.scratch);
  }

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
      .version = "",  // with_version
      .summary = "oneDNN's matmul, softmax and matmul, the score matrix in memory",
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      .features = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_STRIDES |
                  ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP | onednn::kHiding};

  static const char* query(const attest_problem& problem, attest_support& support) {
    static thread_local std::string why;
    const onednn::Threads threads(problem.threads);
    int64_t rows = 0;
    try {
      for (const Steps& steps : plan(problem)) {
        if (steps.uses_reference()) {
          why = onednn::version_and_isa() + ": has only its slow reference for this layout";
          return why.c_str();
        }
        support.workspace_bytes = std::max(support.workspace_bytes, steps.workspace_bytes());
        rows = std::max(rows, steps.part().all_rows());
      }
      if (hides(problem)) support.workspace_bytes += hiding_bytes(problem, rows);
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
    for (Steps& steps : steps_) {
      steps.compile();
      steps_bytes_ = std::max(steps_bytes_, steps.workspace_bytes());
    }
  }

  const attest_problem& problem;

  template <class T>
  void run(void* const* data, void* workspace, void* /*stream*/) {
    const onednn::Threads threads(problem.threads);
    const auto memory = static_cast<char*>(workspace);
    std::optional<onednn::Hiding<T>> hiding;
    if (hides(problem)) hiding.emplace(problem, data, memory + steps_bytes_);
    each_block([&](const Steps& steps, const onednn::Block& at) {
      const int64_t b = at.sequence, h = at.head, kv_head = kv_head_of(h);
      void* const v = hiding ? hiding->values(b, kv_head) : address(data, ATTEST_V, b, kv_head, 0);
      steps.multiply_keys(stream_, address(data, ATTEST_Q, b, h, at.row),
                          address(data, ATTEST_K, b, kv_head, 0), memory);
      if (hiding) hiding->edit(at, steps.scores(memory));
      steps.normalise(stream_, memory);
      steps.multiply_values(stream_, v, address(data, ATTEST_O, b, h, at.row), memory);
      if (hiding) hiding->right(at);
    });
  }

 private:
  template <class Body>
  void each_block(const Body& body) const {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const Part whole = steps_.front().part();
    for (int64_t b = 0; b < p.batch; b += whole.sequences)
      for (int64_t h = 0; h < p.num_heads; h += whole.heads)
        for (int64_t i = 0; i < p.seq_len_q; i += whole.rows) {
          const bool last = b + whole.sequences > p.batch || i + whole.rows > p.seq_len_q;
          const Steps& steps = last ? steps_.back() : steps_.front();
          const Part part = steps.part();
          body(steps, onednn::Block{b, h, i, part.sequences, part.heads, part.rows});
        }
  }

  int64_t kv_head_of(int64_t h) const {
    const auto& p = attest::params<attest_softmax_params>(problem);
    return h / (p.num_heads / p.num_kv_heads);
  }
  /// Of the first element of a row of a sequence and a head.
  void* address(void* const* data, int32_t role, int64_t b, int64_t h, int64_t row) const {
    const attest_tensor& t = problem.tensor[role];
    const int64_t element = b * t.stride[0] + h * t.stride[1] + row * t.stride[2];
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
    Part part{1, heads, std::min(p.seq_len_q, fitting)};
    if (part.rows == p.seq_len_q) part.sequences = std::min(sequences, fitting / p.seq_len_q);
    const int64_t more_sequences = p.batch % part.sequences, more_rows = p.seq_len_q % part.rows;
    std::vector<Steps> steps;
    steps.emplace_back(problem, part);
    if (more_sequences > 0) steps.emplace_back(problem, Part{more_sequences, heads, part.rows});
    if (more_rows > 0) steps.emplace_back(problem, Part{1, heads, more_rows});
    return steps;
  }

  static uint64_t hiding_bytes(const attest_problem& problem, int64_t rows) {
    return problem.tensor[ATTEST_Q].dtype == ATTEST_F32
               ? onednn::Hiding<float>::bytes(problem, rows)
               : onednn::Hiding<attest::Half>::bytes(problem, rows);
  }

  std::vector<Steps> steps_;
  uint64_t steps_bytes_ = 0;
  dnnl::stream stream_{onednn::cpu()};
};

}  // namespace

ATTEST_PLUGIN(onednn::with_version(*attest::table<OneDnn>()))
