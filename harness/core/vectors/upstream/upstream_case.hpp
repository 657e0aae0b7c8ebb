// A vector of an upstream project (a folder with case.json), as its mapping reads it: one
// operation, its parameters in the project's words, its tensors as .pb files.
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/vectors/assembly.hpp"
#include "core/vectors/json_fields.hpp"

namespace attest::core {

/// A mapping must read every key and tensor; anything else makes the vector unsupported.
class UpstreamCase {
 public:
  UpstreamCase(const nlohmann::json& description, TestVector& vector, const std::string& file_name);

  const std::string& op() const { return op_; }
  JsonFields& params() { return params_; }
  /// Null: it is absent.
  const FileTensor* input(const std::string& name) { return take(inputs_, name); }
  /// Throws Error if the input is absent.
  const FileTensor& needed(const std::string& name);
  /// The only output. Throws Unsupported if there is not exactly one.
  const FileTensor& output();
  const FileTensor* output(const std::string& name) { return take(outputs_, name); }
  const FileTensor& needed_output(const std::string& name);
  /// Throws Unsupported unless the parameter is absent or has the value `right`.
  void demand(const std::string& key, const std::string& right);
  /// Throws Unsupported that names a key or tensor that nobody read.
  void done() const;

 private:
  using Files = std::map<std::string, const FileTensor*>;

  void read(const nlohmann::json& list, const std::filesystem::path& folder,
            const std::string& where, Files& files);
  static const FileTensor* take(Files& files, const std::string& name);

  TestVector& vector_;
  JsonFields fields_, params_;
  std::string op_;
  Files inputs_, outputs_;
};

/// Views a tensor as [batch, heads, tokens, channels]. `layout` names its dims, outermost first: B
/// (or N) batch, H heads, S or L (or N) tokens, D channels: "BSHD", "NLHD", "BDHN" (SuperGlue:
/// heads are the fastest index within the channels). Throws Unsupported: any other word.
Axes heads_first(const FileTensor& file, const std::string& layout);

/// Starts a softmax or linear problem with the sizes of Q, K, V and Y, and gives these tensors.
template <class Params>
Params& give_qkvo(TestVector& vector, const Operation& operation, const Tensor& q, const Tensor& k,
                  const Tensor& v, const Tensor& y) {
  auto& p = start_problem(vector, operation, q.spec.dtype).template as<Params>();
  p.batch = q.spec.dim[0];
  p.num_heads = q.spec.dim[1];
  p.seq_len_q = q.spec.dim[2];
  p.head_dim = q.spec.dim[3];
  p.num_kv_heads = k.spec.dim[1];
  p.seq_len_kv = k.spec.dim[2];
  p.head_dim_v = v.spec.dim[3];
  give(vector, ATTEST_Q, q);
  give(vector, ATTEST_K, k);
  give(vector, ATTEST_V, v);
  expect_role(vector, ATTEST_O, "Y", y, vector.problem->dtype);
  return p;
}

/// Gives MASK from a bool tensor, BIAS from any other. Missing dims on the left become 1.
void give_mask_from_right(TestVector& vector, const FileTensor& mask, const char* name);

/// Gives SINKS if the vector has an input of that name.
void give_sinks(UpstreamCase& from, TestVector& vector);

// The mappings of the operations fill `vector`. They throw Error or Unsupported.
void map_swin(UpstreamCase& from, TestVector& vector);
void map_sam(UpstreamCase& from, TestVector& vector);
void map_serialized(UpstreamCase& from, TestVector& vector);
void map_sets(UpstreamCase& from, TestVector& vector);
void map_groups(UpstreamCase& from, TestVector& vector);
void map_cross(UpstreamCase& from, TestVector& vector);
void map_deformable(UpstreamCase& from, TestVector& vector);
/// Maps a call of a library. Returns false, and does nothing, if the operation is not one.
bool map_library(UpstreamCase& from, TestVector& vector);

}  // namespace attest::core
