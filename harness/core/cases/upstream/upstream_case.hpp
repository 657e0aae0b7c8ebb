// A case.json folder as its mapping reads it: one operation of an upstream project, its parameters
// in that project's words, its tensors as .pb files.
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/cases/assembly.hpp"
#include "core/cases/json_fields.hpp"

namespace attest::core {

/// What a mapping does not ask for is unsupported.
class UpstreamCase {
 public:
  UpstreamCase(const nlohmann::json& description, VectorCase& vector, const std::string& file_name);

  const std::string& op() const { return op_; }
  JsonFields& params() { return params_; }
  /// Null where it is absent.
  const FileTensor* input(const std::string& name) { return take(inputs_, name); }
  const FileTensor& needed(const std::string& name);
  /// The only one.
  const FileTensor& output();
  const FileTensor* output(const std::string& name) { return take(outputs_, name); }
  const FileTensor& needed_output(const std::string& name);
  /// A parameter that has one meaning here.
  void demand(const std::string& key, const std::string& right);
  /// Throws Unsupported with the name of what nobody asked for.
  void done() const;

 private:
  using Files = std::map<std::string, const FileTensor*>;

  void read(const nlohmann::json& list, const std::filesystem::path& folder,
            const std::string& where, Files& files);
  static const FileTensor* take(Files& files, const std::string& name);

  VectorCase& vector_;
  JsonFields fields_, params_;
  std::string op_;
  Files inputs_, outputs_;
};

/// [batch, heads, tokens, channels] of a tensor whose dims a word names, outermost first: B (or N)
/// batch, H heads, S or L (or N) tokens, D channels: "BSHD", "NLHD", "BDHN" (SuperGlue: the head is
/// the fast index of a channel). Throws Unsupported: no such word.
Axes heads_first(const FileTensor& file, const std::string& layout);

/// Sizes of Q, K, V and Y into the params of the softmax or the linear problem, which begin alike.
template <class Params>
Params& give_qkvo(VectorCase& vector, const Operation& operation, const Tensor& q, const Tensor& k,
                  const Tensor& v, const Tensor& y) {
  auto& p = start_problem(vector, operation, q.spec.dtype).template as<Params>();
  p.batch = q.spec.dim[0];
  p.num_heads = q.spec.dim[1];
  p.seq_len_q = q.spec.dim[2];
  p.head_dim = q.spec.dim[3];
  p.num_kv_heads = k.spec.dim[1];
  p.seq_len_kv = k.spec.dim[2];
  p.head_dim_v = v.spec.dim[3];
  give(vector, ATTEST_Q, q), give(vector, ATTEST_K, k), give(vector, ATTEST_V, v);
  expect_role(vector, ATTEST_O, "Y", y, vector.problem->dtype);
  return p;
}

/// MASK of a bool tensor, BIAS of another, broadcast by dims of 1 on its left.
void give_mask_from_right(VectorCase& vector, const FileTensor& mask, const char* name);

/// SINKS, where the case has an input of that name.
void give_sinks(UpstreamCase& from, VectorCase& vector);

// One file each. They fill `vector`; throw Error or Unsupported.
void map_swin(UpstreamCase& from, VectorCase& vector);
void map_sam(UpstreamCase& from, VectorCase& vector);
void map_serialized(UpstreamCase& from, VectorCase& vector);
void map_sets(UpstreamCase& from, VectorCase& vector);
void map_groups(UpstreamCase& from, VectorCase& vector);
void map_cross(UpstreamCase& from, VectorCase& vector);
void map_deformable(UpstreamCase& from, VectorCase& vector);
/// Whether the operation is a call of a library, which was mapped then.
bool map_library(UpstreamCase& from, VectorCase& vector);

}  // namespace attest::core
