#include "core/operations/operation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/tensor/error.hpp"

namespace attest::core {

// Defined in the folders of the built-in operations.
const Operation& softmax_operation();
const Operation& softmax_backward_operation();
const Operation& linear_operation();
const Operation& deformable_operation();

namespace {

std::vector<const Operation*>& table() {
  static std::vector<const Operation*> operations{&softmax_operation(), &linear_operation(),
                                                  &deformable_operation(),
                                                  &softmax_backward_operation()};
  return operations;
}

std::string join(std::span<const int64_t> dims) { return fmt::format("{}", fmt::join(dims, ",")); }

// "1,1 or 8,64,64": dims that may broadcast have both sizes.
std::string right_dims(const Problem& problem, const Role& role, std::span<const int64_t> full) {
  std::string text;
  for (size_t i = 0; i < full.size(); ++i) {
    const bool broadcasts = full[i] > 1 && problem.operation->may_broadcast(role.index, int(i));
    text += fmt::format("{}{}{}", i > 0 ? "," : "", broadcasts ? "1 or " : "", full[i]);
  }
  return text;
}

void check_spec(const Problem& problem, const Role& role) {
  const TensorSpec& spec = problem.tensor[size_t(role.index)];
  const std::vector<int64_t> full = problem.operation->dims(problem, role.index);
  if (full.empty()) throw Error(fmt::format("{}: does not belong to this problem", role.name));
  bool fits = spec.rank == int32_t(full.size());
  for (size_t i = 0; fits && i < full.size(); ++i)
    fits = spec.dim[i] == full[i] ||
           (spec.dim[i] == 1 && problem.operation->may_broadcast(role.index, int(i)));
  if (!fits)
    throw Error(fmt::format("{}: dims [{}] where [{}] is right", role.name, join(dims(spec)),
                            right_dims(problem, role, full)));
  for (int i = 0; i < spec.rank; ++i) {
    if ((spec.dim[i] == 1) != (spec.stride[i] == 0))
      throw Error(fmt::format("{}: stride {} of dim {} (size {}): 0 exactly where the size is 1",
                              role.name, spec.stride[i], i, spec.dim[i]));
  }
  if (role.dtype == ATTEST_NONE && !may_have(*problem.operation, role, spec.dtype))
    throw Error(fmt::format("{}: dtype {}; must be {}", role.name, dtype_title(spec.dtype),
                            right_dtypes(*problem.operation, role)));
  if (role.dtype != ATTEST_NONE && spec.dtype != role.dtype)
    throw Error(fmt::format("{}: dtype {} where {} is right", role.name, dtype_name(spec.dtype),
                            dtype_name(role.dtype)));
}

// The bits that follow from specs alone.
uint64_t layout_features(const Problem& problem) {
  uint64_t features = 0;
  for (const Role& role : problem.operation->roles()) {
    const TensorSpec& spec = problem.tensor[size_t(role.index)];
    if (!present(spec)) continue;
    if (!is_dense(spec)) features |= ATTEST_WITH_STRIDES;
    if (role.dtype == ATTEST_NONE && spec.dtype != problem.dtype)
      features |= ATTEST_WITH_MIXED_DTYPE;
  }
  return features;
}

}  // namespace

bool Problem::operator==(const Problem& other) const {
  return operation == other.operation && dtype == other.dtype && features == other.features &&
         params == other.params &&
         std::memcmp(tensor.data(), other.tensor.data(), sizeof(tensor)) == 0;
}

std::vector<std::string> default_fills(const Problem& problem, bool tokens) {
  std::vector<std::string> names = problem.operation->fills(problem);
  if (tokens) {
    std::erase(names, "random");
    names.insert(names.begin(), "tokens");
  }
  return names;
}

std::vector<std::string> known_fills(const Problem& problem, bool tokens) {
  std::vector<std::string> names = default_fills(problem, tokens);
  for (std::string& name : problem.operation->more_fills(problem)) names.push_back(std::move(name));
  return names;
}

bool may_have(const Operation& operation, const Role& role, DType dtype) {
  return is_judged_float(dtype) || (is_f8(dtype) && operation.may_be_f8(role.index));
}
std::string right_dtypes(const Operation& operation, const Role& role) {
  return operation.may_be_f8(role.index) ? "f32, f16, bf16, f64, f8e4m3 or f8e5m2"
                                         : std::string(kJudgedFloats);
}

void require_fills(const std::string& what, const std::vector<std::string>& wanted,
                   const std::vector<std::string>& known) {
  for (const std::string& name : wanted)
    if (name != kAllFills && std::find(known.begin(), known.end(), name) == known.end())
      throw Error(fmt::format("{} {}: matches none of: {}, {}", what, name, fmt::join(known, ", "),
                              kAllFills));
}

std::vector<bool> judged_rows(const Problem& problem, const Golden& golden) {
  const auto roles = problem.operation->roles();
  const auto output = std::find_if(roles.begin(), roles.end(), is_output);
  std::vector<bool> judged;
  if (output == roles.end()) return judged;
  const TensorSpec& spec = problem.tensor[size_t(output->index)];
  judged.resize(size_t(row_count(spec, spec.rank - 1)));
  for (const int64_t row : golden.exact_rows(Arithmetic{.output = spec.dtype}, output->index))
    judged[size_t(row)] = true;
  return judged;
}

const Operation* find_operation(int32_t number) {
  for (const Operation* operation : table())
    if (operation->number() == number) return operation;
  return nullptr;
}

const Operation* find_operation(std::string_view name) {
  for (const Operation* operation : table())
    if (operation->name() == name) return operation;
  return nullptr;
}

std::vector<const Operation*> all_operations() { return table(); }

std::string operation_title(int32_t number) {
  if (const Operation* operation = find_operation(number)) return std::string(operation->name());
  return fmt::format("operation {}", number);
}

void register_operation(const Operation* operation) {
  if (find_operation(operation->number()) || find_operation(operation->name()))
    throw Error(fmt::format("operation {} ({}): that number or name is taken", operation->name(),
                            operation->number()));
  table().push_back(operation);
}

const Role* find_role(const Operation& operation, std::string_view name) {
  for (const Role& role : operation.roles())
    if (role.name == name) return &role;
  return nullptr;
}

const Role* find_role(const Operation& operation, int32_t index) {
  for (const Role& role : operation.roles())
    if (role.index == index) return &role;
  return nullptr;
}

double get_field(const Problem& problem, const Field& field) {
  const std::byte* at = problem.params.data() + field.offset;
  auto read = [at](auto value) {
    std::memcpy(&value, at, sizeof(value));
    return double(value);
  };
  switch (field.type) {
    case Field::Type::kI32: return read(int32_t{});
    case Field::Type::kI64: return read(int64_t{});
    case Field::Type::kF32: return read(float{});
  }
  return 0;
}

void set_field(Problem& problem, const Field& field, double value) {
  std::byte* at = problem.params.data() + field.offset;
  auto write = [at](auto narrow) { std::memcpy(at, &narrow, sizeof(narrow)); };
  switch (field.type) {
    case Field::Type::kI32: return write(int32_t(value));
    case Field::Type::kI64: return write(int64_t(value));
    case Field::Type::kF32: return write(float(value));
  }
}

Problem blank_problem(const Operation& operation, DType dtype) {
  Problem problem;
  problem.operation = &operation;
  problem.dtype = dtype;
  const auto size = uint32_t(operation.params_size());
  std::memcpy(problem.params.data(), &size,
              sizeof(size));  // struct_size comes first in every params struct
  for (const Field& field : operation.fields()) set_field(problem, field, field.neutral);
  return problem;
}

void finish_problem(Problem& problem) {
  const Operation& operation = *problem.operation;
  operation.complete(problem);
  // Sizes are checked before any tensor is made from them; 2^47 elements is more than any address
  // space holds.
  for (const Role& role : operation.roles()) {
    TensorSpec& spec = problem.tensor[size_t(role.index)];
    if (!role.required && !present(spec)) continue;
    const std::vector<int64_t> full = operation.dims(problem, role.index);
    double elements = 1;
    for (const int64_t dim : full) {
      if (dim < 1) operation.check(problem);  // names the field at fault
      if (dim < 1)
        throw Error(fmt::format("{}: dims [{}] must be at least 1", role.name, join(full)));
      elements *= double(dim);
    }
    if (elements > 0x1p47)
      throw Error(
          fmt::format("{}: dims [{}] are more than memory can address", role.name, join(full)));
    if (!present(spec))
      spec =
          dense_tensor(role.dtype != ATTEST_NONE ? role.dtype : problem.dtype, role.access, full);
    check_spec(problem, role);
  }
  for (int32_t index = 0; index < ATTEST_ROLES; ++index) {
    if (present(problem.tensor[size_t(index)]) && !find_role(operation, index))
      throw Error(fmt::format("{} has no tensor of role {}", operation.name(), index));
  }
  operation.check(problem);
  problem.features = operation.features(problem) | layout_features(problem) |
                     (problem.features & ATTEST_WITH_UNALIGNED);
}

double min_bytes(const Problem& problem) {
  double bytes = 0;
  for (const TensorSpec& spec : problem.tensor)
    if (present(spec)) bytes += double(element_count(spec)) * double(dtype_bytes(spec.dtype));
  return bytes;
}

double query_count(const Problem& problem) {
  const Operation& operation = *problem.operation;
  for (const Role& role : operation.roles()) {
    const TensorSpec& spec = problem.tensor[size_t(role.index)];
    if (!is_output(role) || !present(spec)) continue;
    double count = 1;
    bool has_queries = false;
    for (int axis = 0; axis < spec.rank; ++axis) {
      const std::string dim = operation.dim_name(role.index, axis);
      has_queries |= dim == "query";
      if (dim == "batch" || dim == "query") count *= double(spec.dim[axis]);
    }
    return has_queries ? count : 0;
  }
  return 0;
}

std::vector<std::string> feature_names(uint64_t features, const Operation* operation) {
  static constexpr const char* kNames[] = {
      "GQA",        "HEAD_DIM_V", "CAUSAL",  "WINDOW",      "DIAGONAL",  "SOFTCAP", "BIAS",
      "MASK",       "LSE",        "VARLEN",  "SEQ_LENS",    "PAGES",     "ORDER",   "PATCHES",
      "GRID",       "REL_BIAS",   "STRIDES", "MIXED_DTYPE", "UNALIGNED", "ALIBI",   "SINKS",
      "BLOCK_MASK", "GLOBAL",     "TOP_K",   "DESCALE"};
  std::vector<std::string> names;
  for (int bit = 0; bit < 64; ++bit) {
    if (!(features >> bit & 1)) continue;
    const std::string_view own =
        bit >= 32 && operation ? operation->own_feature(bit - 32) : std::string_view();
    if (!own.empty())
      names.emplace_back(own);
    else if (bit < int(std::size(kNames)))
      names.emplace_back(kNames[bit]);
    else
      names.push_back(bit >= 32 ? fmt::format("OWN({})", bit - 32) : fmt::format("BIT({})", bit));
  }
  return names;
}

std::string print_features(uint64_t features) {
  return fmt::format("{}", fmt::join(feature_names(features, nullptr), "+"));
}

}  // namespace attest::core
