// A description with `problem`: a whole spec line, and tensors in the order of their dims, as
// capture.cpp writes them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/inputs/prepared.hpp"
#include "core/operations/declaration.hpp"
#include "core/problem/hint.hpp"
#include "core/problem/spec.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/assembly.hpp"
#include "core/vectors/file_store.hpp"
#include "core/vectors/json_fields.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

Problem problem_of(const std::string& line, const std::string& where) {
  try {
    return parse_problem(line);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: problem: {}", where, error.what()));
  }
}

/// The bfloat16 numbers of a float32 file that has no others. NumPy has no bfloat16, so its files
/// have float32 in their place. The lower halves of their bits are 0.
void to_bf16(FileTensor& file) {
  std::vector<std::byte> upper(file.bytes.size() / 2);
  for (size_t from = 0, to = 0; from < file.bytes.size(); from += 4, to += 2) {
    if (file.bytes[from] != std::byte{} || file.bytes[from + 1] != std::byte{}) return;
    upper[to] = file.bytes[from + 2];
    upper[to + 1] = file.bytes[from + 3];
  }
  file.bytes = std::move(upper);
  file.dtype = ATTEST_BF16;
}

/// The same of numbers of 8 bits.
void to_f8(FileTensor& file, DType dtype) {
  std::vector<std::byte> codes(file.bytes.size() / 4);
  for (size_t n = 0; n < codes.size(); ++n) {
    const double number = load(file.bytes.data(), ATTEST_F32, int64_t(n));
    store(codes.data(), dtype, int64_t(n), number);
    if (!std::isnan(number) && load(codes.data(), dtype, int64_t(n)) != number) return;
  }
  file.bytes = std::move(codes);
  file.dtype = dtype;
}

/// The tensors of an object of roles, each with the dims that the problem has.
class RoleTensors {
 public:
  RoleTensors(const json& object, const Problem& problem, FileStore& store, TestVector& vector,
              const std::string& where)
      : fields_(object, where), problem_(problem), store_(store), vector_(vector) {
    for (const auto& [key, value] : object.items())
      if (!find_role(*problem.operation, key) ||
          !present(problem.tensor[size_t(find_role(*problem.operation, key)->index)]))
        throw Error(fmt::format("{}: the problem has no tensor {}", where, in_quotes(key)));
  }

  /// Nothing where the object does not name it.
  Tensor find(const Role& role) {
    if (!fields_.has(role.name)) return {};
    const std::string where = fmt::format("{}: {}", fields_.where(), role.name);
    FileTensor& file = vector_.files.emplace_back(store_.get(fields_.text(role.name), where));
    const TensorSpec& spec = problem_.tensor[size_t(role.index)];
    if (!std::ranges::equal(file.dims, dims(spec)))
      throw Error(fmt::format("{}: dims {} where the problem has {}", where, print_dims(file.dims),
                              print_dims(dims(spec))));
    if (file.dtype == ATTEST_F32 && spec.dtype == ATTEST_BF16) to_bf16(file);
    if (file.dtype == ATTEST_F32 && is_f8(spec.dtype)) to_f8(file, spec.dtype);
    return view(usable(file, where), dense_axes(file.dims));
  }
  const std::string& where() const { return fields_.where(); }

 private:
  JsonFields fields_;
  const Problem& problem_;
  FileStore& store_;
  TestVector& vector_;
};

/// Inputs are the problem's own bits; float64 may be given in place of another float, and then the
/// reference gets it as it is.
void give_input(TestVector& vector, const Role& role, const Tensor& tensor,
                const std::string& where) {
  const auto at = size_t(role.index);
  const DType wanted = vector.problem->tensor[at].dtype, got = tensor.spec.dtype;
  const bool rounded = got == ATTEST_F64 && is_float(wanted);
  if (got != wanted && !rounded)
    throw Error(fmt::format("{}: {}: is {} where the problem has {}", where, role.name,
                            dtype_name(got), dtype_name(wanted)));
  vector.given[at] = tensor;
  if (got != wanted) vector.exact[at] = tensor;
}

/// Outputs that are judged like an implementation's are all there, or none is.
void check_outputs(TestVector& vector, const std::string& where) {
  if (vector.outputs.empty()) return vector.arithmetic.reset();
  for (const Role& role : vector.problem->operation->roles())
    if (is_output(role) && present(vector.problem->tensor[size_t(role.index)]) &&
        std::ranges::find(vector.outputs, role.index, &VectorOutput::role) == vector.outputs.end())
      throw Error(fmt::format("{}: tensors: '{}' is missing; outputs are judged together", where,
                              role.name));
}

void check_hash(const TestVector& vector, const std::string& hash, const std::string& where) {
  const std::string now = PreparedInputs(*vector.problem, vector.given).hash();
  if (now != hash)
    throw Error(fmt::format("{}: inputs_hash: {} where the inputs have {}: they were changed",
                            where, in_quotes(hash), now));
}

}  // namespace

void map_captured(const json& description, TestVector& vector, const VectorPlace& place) {
  const std::string where = place.model.string();
  JsonFields fields(description, where);
  vector.problem = problem_of(fields.text("problem"), where);
  const Problem& problem = *vector.problem;
  vector.operation = problem.operation->name();
  vector.dtype = dtype_name(problem.dtype);
  vector.source = fields.text("source", "");
  if (fields.has("arithmetic"))
    vector.arithmetic =
        parse_arithmetic(fields.text("arithmetic"), *problem.operation, where + ": arithmetic");
  if (fields.has("tolerance")) vector.tolerance = fields.real("tolerance");
  const bool partial = fields.truth("partial", false);
  FileStore store(place.data);
  RoleTensors tensors(fields.any("tensors"), problem, store, vector, where + ": tensors");
  for (const Role& role : problem.operation->roles()) {
    const Tensor tensor = tensors.find(role);
    if (!tensor) continue;
    if (!is_output(role))
      give_input(vector, role, tensor, tensors.where());
    else if (!is_float(tensor.spec.dtype))
      throw Error(fmt::format("{}: {}: is {} where a float is right", tensors.where(), role.name,
                              dtype_name(tensor.spec.dtype)));
    else
      vector.outputs.push_back({.name = role.name,
                                .kind = VectorOutput::Kind::kRole,
                                .role = role.index,
                                .score_mode = 0,
                                .values = {},
                                .expected = tensor,
                                .partial = partial});
  }
  if (fields.has("exact")) {
    RoleTensors exact(fields.any("exact"), problem, store, vector, where + ": exact");
    for (const Role& role : problem.operation->roles())
      if (const Tensor tensor = exact.find(role)) vector.exact[size_t(role.index)] = tensor;
  }
  fields.skip("golden");  // for people: what run_dump.cpp wrote of the expected values
  if (vector.arithmetic) check_outputs(vector, where);
  const std::string hash = fields.text("inputs_hash", "");
  if (const std::string key = fields.unused(); !key.empty())
    throw Error(fmt::format(
        "{}: unknown key {}{}", where, in_quotes(key),
        did_you_mean(
            key, std::vector<std::string>{"problem", "source", "arithmetic", "tolerance", "partial",
                                          "tensors", "exact", "golden", "inputs_hash"})));
  if (!hash.empty()) check_hash(vector, hash, where);
}

}  // namespace attest::core
