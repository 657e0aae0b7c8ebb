// onednn/graph.hpp: softmax attention as a graph of oneDNN: MatMul, Multiply by the scale, Add
// where something is added to scores, SoftMax, MatMul. oneDNN divides it into partitions; each is
// one kernel to the caller. The tensors between several partitions lie in the workspace, scores
// among them; what one partition keeps inside, oneDNN allocates.
#pragma once
#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_graph.hpp>
#include <string>
#include <vector>

#include "attest.h"

namespace onednn {

class Graph {
 public:
  /// Compiles the graph of a problem. `terms` says where what is added to the scores lies
  /// ([batch|1, num_heads|1, seq_len_q|1, seq_len_kv|1], dtype of Q); null: nothing is. It throws
  /// dnnl::error where oneDNN does not take the problem, and std::runtime_error where oneDNN would
  /// round the scale or is known to be wrong.
  Graph(const attest_problem& problem, const attest_tensor* terms);

  uint64_t workspace_bytes() const { return bytes_; }
  /// The dtype of the scores, an ATTEST_ number.
  int32_t score_dtype() const { return score_dtype_; }
  /// "does not fuse attention: 3 partitions (MatMul Multiply, SoftMax, MatMul)".
  std::string partitions() const;

  /// `terms`: what is added to the scores.
  void run(void* const* data, const void* terms, char* workspace, dnnl::stream& stream) const;

 private:
  using Tensor = dnnl::graph::logical_tensor;
  struct Op {
    const char* name;
    dnnl::graph::op op;
  };
  struct Step {
    std::string name;  // of its operations
    std::vector<Tensor> inputs, outputs;
    dnnl::graph::compiled_partition compiled;
  };

  std::vector<Op> operations(const attest_problem& problem, const attest_tensor* terms,
                             int32_t score_dtype) const;
  void compile(const attest_problem& problem, const attest_tensor* terms, int32_t score_dtype);
  void set_scale(float scale);
  void refuse_what_one_partition_gets_wrong(const attest_problem& problem) const;
  void place(const Step& step);
  void* address(const Tensor& tensor, void* const* data, const void* terms, char* workspace) const;

  std::vector<Step> steps_;
  std::vector<uint64_t> offsets_;  // by number of a tensor: where it lies in the workspace
  uint64_t bytes_ = 0;
  int32_t score_dtype_ = 0;
  bool heads_first_ = false;  // whether heads are the first dim, and sequences the second
  alignas(4) mutable unsigned char scale_[4]{};  // one element of the scores' dtype
};

}  // namespace onednn
