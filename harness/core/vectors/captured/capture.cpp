#include "core/vectors/captured/capture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/inputs/golden_store.hpp"
#include "core/operations/declaration.hpp"
#include "core/problem/spec.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/assembly.hpp"
#include "core/vectors/captured/case_folder.hpp"
#include "core/vectors/formats/safetensors.hpp"

namespace attest::core {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char *kInputs = "inputs.safetensors", *kOutputs = "outputs.safetensors";
// The golden of one machine against that of another: the same sums in another order, of another
// instruction set.
constexpr double kGoldenTolerance = 1e-11;
constexpr int64_t kLargestGolden_bytes = int64_t{256} << 20;

/// What goes into the folder.
struct Folder {
  json description = json::object();
  std::vector<NamedTensor> inputs, outputs;

  void add_input(const std::string& name, const Tensor& tensor) {
    inputs.push_back({name, tensor});
    description["tensors"][name] = fmt::format("{}:{}", kInputs, name);
  }
  void add_output(const std::string& name, const Tensor& tensor) {
    outputs.push_back({name, tensor});
    description["tensors"][name] = fmt::format("{}:{}", kOutputs, name);
  }
  void write(const fs::path& path) {
    make_case_folder(path);
    write_safetensors(path / kInputs, std::move(inputs));
    if (!outputs.empty()) write_safetensors(path / kOutputs, std::move(outputs));
    write_description(path, description);
  }
};

/// An output of the golden, NaN where it says nothing exact.
FileTensor exact_values(const Problem& problem, const Golden& golden, const Role& role) {
  const TensorSpec& spec = problem.tensor[size_t(role.index)];
  FileTensor file{.name = role.name,
                  .dtype = ATTEST_F64,
                  .type = "F64",
                  .dims = {spec.dim, spec.dim + spec.rank},
                  .bytes = {}};
  file.bytes.resize(size_t(element_count(spec)) * sizeof(double));
  auto* values = reinterpret_cast<double*>(file.bytes.data());
  std::fill_n(values, element_count(spec), std::numeric_limits<double>::quiet_NaN());
  std::mutex lock;
  golden.expect({}, [&](const Expected& chunk) {
    if (chunk.role != role.index || !chunk.value) return;
    const std::lock_guard guard(lock);
    for (size_t r = 0; r < chunk.rows.size(); ++r)
      for (int64_t d = 0; d < chunk.width; ++d)
        values[chunk.rows[r] * chunk.width + d] =
            chunk.value[(chunk.shared ? 0 : r * size_t(chunk.width)) + size_t(d)];
  });
  return file;
}

bool has_nan(const FileTensor& file) {
  for (int64_t i = 0, count = file.count(); i < count; ++i)
    if (file.at(i) != file.at(i)) return true;
  return false;
}

}  // namespace

void capture_case(const Problem& problem, const PreparedInputs& inputs, const std::string& source,
                  const fs::path& folder) {
  Folder out;
  out.description = {
      {"problem", print_problem(problem)}, {"source", source}, {"inputs_hash", inputs.hash()}};
  for (const Role& role : problem.operation->roles())
    if (const Tensor& tensor = inputs.shared().tensors()[size_t(role.index)])
      out.add_input(role.name, tensor);
  // Not the closed form that a fill may have: what a reader of the folder can compute.
  const PreparedInputs given(problem, inputs.shared().tensors());
  GoldenStore goldens(nullptr);
  std::vector<FileTensor> golden;
  golden.reserve(problem.operation->roles().size());  // they are referred to
  bool partial = false;
  for (const Role& role : problem.operation->roles()) {
    const TensorSpec& spec = problem.tensor[size_t(role.index)];
    if (!is_output(role) || !present(spec) ||
        element_count(spec) * int64_t(sizeof(double)) > kLargestGolden_bytes)
      continue;
    golden.push_back(goldens.of(given).use(
        [&](const Golden& values) { return exact_values(problem, values, role); }));
    partial |= has_nan(golden.back());
    out.add_output(role.name, view(golden.back(), dense_axes(golden.back().dims)));
  }
  if (!golden.empty()) out.description["tolerance"] = kGoldenTolerance;
  if (partial) out.description["partial"] = true;
  out.write(folder);
}

std::vector<std::string> capture_vector(const TestVector& vector, const fs::path& folder) {
  Folder out;
  std::vector<std::string> left_out;
  const Problem& problem = *vector.problem;
  const PreparedInputs prepared(problem, vector.given);
  out.description = {{"problem", print_problem(problem)},
                     {"source", vector.source},
                     {"inputs_hash", prepared.hash()}};
  for (const Role& role : problem.operation->roles()) {
    const auto at = size_t(role.index);
    // Floats as they were given: float64 is more than the problem has. Lengths and places may lie
    // there in other integers.
    if (vector.given[at])
      out.add_input(role.name, is_float(problem.tensor[at].dtype)
                                   ? vector.given[at]
                                   : prepared.shared().tensors()[at]);
    // What is given in float64 is read as exact by itself.
    if (!vector.exact[at] || vector.exact[at].data == vector.given[at].data) continue;
    const std::string name = fmt::format("exact.{}", role.name);
    out.inputs.push_back({name, vector.exact[at]});
    out.description["exact"][role.name] = fmt::format("{}:{}", kInputs, name);
  }
  bool partial = false;
  for (const VectorOutput& output : vector.outputs) {
    if (output.kind != VectorOutput::Kind::kRole) {
      left_out.push_back(fmt::format("output '{}', which is no tensor of {}", output.name,
                                     problem.operation->name()));
      continue;
    }
    out.add_output(find_role(*problem.operation, output.role)->name, output.expected);
    partial |= output.partial;
  }
  if (vector.arithmetic)
    out.description["arithmetic"] = print(*problem.operation, *vector.arithmetic);
  else if (vector.tolerance)
    out.description["tolerance"] = *vector.tolerance;
  if (partial) out.description["partial"] = true;
  out.write(folder);
  return left_out;
}

}  // namespace attest::core
