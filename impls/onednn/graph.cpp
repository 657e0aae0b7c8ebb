#include "onednn/graph.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "attest.hpp"
#include "onednn/library.hpp"

namespace onednn {
namespace {

using Tensor = dnnl::graph::logical_tensor;
using Dims = Tensor::dims;
using OpKind = dnnl::graph::op::kind;

constexpr uint64_t kAlignment = 64, kOutside = ~uint64_t{0};

/// The numbers of the graph's tensors. Those from kScores on lie between operations.
enum Number : size_t { kQ, kK, kV, kO, kScale, kTerms, kScores, kScaled, kLogits, kWeights, kEnd };

Tensor::data_type graph_type(int32_t dtype) {
  return static_cast<Tensor::data_type>(dnnl::memory::convert_to_c(type_of(dtype)));
}

/// The number of query heads that share a head of K and V.
int64_t group_of(const attest_problem& problem) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  return p.num_heads / p.num_kv_heads;
}

/// A tensor of the problem. With GQA its heads are two dims: [batch, num_kv_heads, group, rows,
/// columns], where the group is 1 in K and V. Else `heads_first` gives [num_heads, batch, ...].
Tensor outer(const attest_problem& problem, Number number, const attest_tensor& t, bool of_keys,
             bool heads_first) {
  Dims dims{t.dim[0], t.dim[1]}, strides{t.stride[0], t.stride[1]};
  if (heads_first) {
    std::swap(dims[0], dims[1]);
    std::swap(strides[0], strides[1]);
  }
  if (const int64_t group = group_of(problem); group > 1) {
    const int64_t shared = of_keys || t.dim[1] == 1 ? 1 : group;
    dims = {t.dim[0], t.dim[1] / shared, shared};
    strides = {t.stride[0], t.stride[1] * shared, t.stride[1]};
  }
  dims.insert(dims.end(), t.dim + 2, t.dim + 4);
  strides.insert(strides.end(), t.stride + 2, t.stride + 4);
  set_strides_of_ones(dims, strides);
  return {number, graph_type(t.dtype), dims, strides};
}

/// A dense matrix of queries and keys for each query head.
Tensor inner(const attest_problem& problem, Number number, int32_t dtype, bool heads_first) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  const int64_t group = group_of(problem);
  Dims dims{p.batch, p.num_kv_heads};
  if (heads_first) std::swap(dims[0], dims[1]);
  if (group > 1) dims.push_back(group);
  dims.insert(dims.end(), {p.seq_len_q, p.seq_len_kv});
  return {number, graph_type(dtype), dims, Tensor::layout_type::strided};
}

/// Whether every sequence, but not every head, adds the same terms. oneDNN 3.2 has fast code for
/// terms that the second of two outer dims shares, and multiplies by a reference a hundred times
/// slower where the first one does.
bool only_sequences_share(const attest_problem& problem, const attest_tensor* terms) {
  return terms && terms->dim[0] == 1 && terms->dim[1] > 1 && problem.tensor[ATTEST_Q].dim[0] > 1 &&
         group_of(problem) == 1;
}

/// Compiled code is not kept: create is to take what compiling takes.
void keep_no_code() {
  static const bool once = [] {
    dnnl::graph::set_compiled_partition_cache_capacity(0);
    dnnl::set_primitive_cache_capacity(0);
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace

Graph::Graph(const attest_problem& problem, const attest_tensor* terms) {
  keep_no_code();
  const int32_t dtype = problem.tensor[ATTEST_Q].dtype;
  try {
    compile(problem, terms, ATTEST_F32);
  } catch (const dnnl::error&) {  // oneDNN 3.2 has scores of the tensors' dtype only
    if (dtype == ATTEST_F32) throw;
    compile(problem, terms, dtype);
  }
  if (steps_.size() > 1 && only_sequences_share(problem, terms)) {
    heads_first_ = true;
    compile(problem, terms, score_dtype_);
  }
  set_scale(attest::params<attest_softmax_params>(problem).softmax_scale);
  refuse_what_one_partition_gets_wrong(problem);
}

// Seen in oneDNN 3.7.2.
void Graph::refuse_what_one_partition_gets_wrong(const attest_problem& problem) const {
  if (steps_.size() != 1) return;
  const auto& p = attest::params<attest_softmax_params>(problem);
  if (p.head_dim_v != p.head_dim)
    throw std::runtime_error("would fuse attention, and only compute head_dim channels of V");
}

std::vector<Graph::Op> Graph::operations(const attest_problem& problem, const attest_tensor* terms,
                                         int32_t score_dtype) const {
  const auto tensor = [&](Number number, int32_t role) {
    const bool of_keys = role == ATTEST_K || role == ATTEST_V;
    return outer(problem, number, problem.tensor[role], of_keys, heads_first_);
  };
  const auto pairs = [&](Number number) {
    return inner(problem, number, score_dtype, heads_first_);
  };
  const Tensor scale(kScale, graph_type(score_dtype), Dims{1}, Tensor::layout_type::strided);
  const Tensor weights = inner(problem, kWeights, problem.tensor[ATTEST_Q].dtype, heads_first_);
  std::vector<Op> ops;
  const auto add = [&](const char* name, OpKind kind, const std::vector<Tensor>& inputs,
                       const Tensor& output) -> dnnl::graph::op& {
    return ops.emplace_back(Op{name, {ops.size(), kind, inputs, {output}, name}}).op;
  };
  add("MatMul", OpKind::MatMul, {tensor(kQ, ATTEST_Q), tensor(kK, ATTEST_K)}, pairs(kScores))
      .set_attr<bool>(dnnl::graph::op::attr::transpose_b, true);
  add("Multiply", OpKind::Multiply, {pairs(kScores), scale}, pairs(kScaled));
  if (terms)
    add("Add", OpKind::Add, {pairs(kScaled), outer(problem, kTerms, *terms, false, heads_first_)},
        pairs(kLogits));
  add("SoftMax", OpKind::SoftMax, {pairs(terms ? kLogits : kScaled)}, weights)
      .set_attr<int64_t>(dnnl::graph::op::attr::axis, -1);
  add("MatMul", OpKind::MatMul, {weights, tensor(kV, ATTEST_V)}, tensor(kO, ATTEST_O));
  return ops;
}

void Graph::compile(const attest_problem& problem, const attest_tensor* terms,
                    int32_t score_dtype) {
  steps_.clear();
  offsets_.assign(kEnd, kOutside);
  bytes_ = 0;
  score_dtype_ = score_dtype;
  const std::vector<Op> ops = operations(problem, terms, score_dtype);
  dnnl::graph::graph graph(dnnl::engine::kind::cpu, dnnl::fpmath_mode::strict);
  for (const Op& op : ops) graph.add_op(op.op);
  graph.finalize();
  // Operations are numbered in their order, and so partitions are by their first ones.
  std::vector<dnnl::graph::partition> parts = graph.get_partitions();
  const auto first = [](const dnnl::graph::partition& part) {
    const std::vector<size_t> numbers = part.get_ops();
    return *std::min_element(numbers.begin(), numbers.end());
  };
  std::sort(parts.begin(), parts.end(),
            [&](const auto& a, const auto& b) { return first(a) < first(b); });
  for (const dnnl::graph::partition& part : parts) {
    Step step{{}, part.get_input_ports(), part.get_output_ports(), {}};
    for (const size_t number : part.get_ops())
      step.name += (step.name.empty() ? "" : " ") + std::string(ops[number].name);
    step.compiled = part.compile(step.inputs, step.outputs, cpu());
    place(step);
    steps_.push_back(std::move(step));
  }
}

// An output lies in the place of an input that nothing reads afterwards, if the partition takes
// that; each tensor between partitions has one reader.
void Graph::place(const Step& step) {
  for (const Tensor& output : step.outputs) {
    if (output.get_id() < kScores) continue;
    uint64_t& offset = offsets_[output.get_id()];
    for (const Tensor& input : step.inputs)
      for (const auto& [from, to] : step.compiled.get_inplace_ports())
        if (from == input.get_id() && to == output.get_id() && from >= kScores &&
            input.get_mem_size() == output.get_mem_size())
          offset = offsets_[from];
    if (offset != kOutside) continue;
    offset = bytes_;
    bytes_ += (output.get_mem_size() + kAlignment - 1) / kAlignment * kAlignment;
  }
}

void Graph::set_scale(float scale) {
  if (score_dtype_ == ATTEST_F32) {
    std::memcpy(scale_, &scale, sizeof scale);
    return;
  }
  attest::BFloat16 rounded{};
  rounded = scale;
  if (score_dtype_ != ATTEST_BF16)
    throw std::runtime_error("would keep scores in f16, which ends at 65504");
  if (static_cast<float>(rounded) != scale) {
    char text[128];
    std::snprintf(text, sizeof text, "would round softmax_scale %.9g to bf16", scale);
    throw std::runtime_error(text);
  }
  std::memcpy(scale_, &rounded, sizeof rounded);
}

std::string Graph::partitions() const {
  std::string names;
  for (const Step& step : steps_) names += (names.empty() ? "" : ", ") + step.name;
  if (steps_.size() == 1) return "fuses attention into one partition (" + names + ")";
  return "does not fuse attention: " + std::to_string(steps_.size()) + " partitions (" + names +
         ")";
}

void* Graph::address(const Tensor& tensor, void* const* data, const void* terms,
                     char* workspace) const {
  switch (const size_t number = tensor.get_id()) {
    case kQ: return data[ATTEST_Q];
    case kK: return data[ATTEST_K];
    case kV: return data[ATTEST_V];
    case kO: return data[ATTEST_O];
    case kScale: return scale_;
    case kTerms: return const_cast<void*>(terms);  // an input, which oneDNN only reads
    default: return workspace + offsets_[number];
  }
}

void Graph::run(void* const* data, const void* terms, char* workspace, dnnl::stream& stream) const {
  const auto tensors = [&](const std::vector<Tensor>& described) {
    std::vector<dnnl::graph::tensor> made;
    for (const Tensor& tensor : described)
      made.emplace_back(tensor, cpu(), address(tensor, data, terms, workspace));
    return made;
  };
  for (const Step& step : steps_)
    step.compiled.execute(stream, tensors(step.inputs), tensors(step.outputs));
  stream.wait();
}

}  // namespace onednn
