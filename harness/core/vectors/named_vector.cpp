// A JSON file that names tensors of .safetensors, .npy and .npz files, and says what problem they
// are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/inputs/formats/bytes.hpp"
#include "core/operations/declaration.hpp"
#include "core/problem/hint.hpp"
#include "core/problem/quantities.hpp"
#include "core/problem/spec.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/assembly.hpp"
#include "core/vectors/file_store.hpp"
#include "core/vectors/json_fields.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

/// The largest whole number that a parameter may be; a double holds all below it.
int64_t largest(const Field& field) {
  return field.type == Field::Type::kI32 ? INT32_MAX : int64_t{1} << 53;
}

struct Named {
  const Role* role;
  Tensor tensor;
};

/// Whether dims are those of attention weights, [batch, heads, queries, keys]: frameworks broadcast
/// such tensors from the right.
bool has_pairs(const Role& role) {
  return role.index == ATTEST_MASK || role.index == ATTEST_BIAS || role.index == ATTEST_DBIAS;
}

/// Whether dims are [batch, heads, tokens, ...], in which the layout "bshd" has tokens first.
bool follows_layout(const Role& role) {
  if (role.index <= ATTEST_O || role.index == ATTEST_LSE || role.index == ATTEST_DO) return true;
  if (has_pairs(role) || role.index == ATTEST_DREL_BIAS) return false;
  return role.content != Role::Content::kOwn || is_output(role);
}

/// The tensors in the order of the roles; those of rank 4 by the layout.
std::vector<Named> name_tensors(const json& object, const Operation& operation,
                                const std::string& layout, FileStore& store, TestVector& vector,
                                const std::string& where) {
  JsonFields fields(object, where + ": tensors");
  std::vector<Named> named;
  for (const Role& role : operation.roles()) {
    if (!fields.has(role.name)) continue;
    const FileTensor& file = vector.files.emplace_back(
        store.get(fields.text(role.name), fmt::format("{}: {}", fields.where(), role.name)));
    Axes axes = dense_axes(file.dims);
    while (has_pairs(role) && !axes.dims.empty() && axes.dims.size() < 4) {
      axes.dims.insert(axes.dims.begin(), 1);
      axes.strides.insert(axes.strides.begin(), 0);
    }
    if (role.index <= ATTEST_O && axes.dims.size() != 4)
      throw Error(fmt::format("{}: {}: {} where [batch, heads, tokens, dim] is right",
                              fields.where(), role.name, print_dims(file.dims)));
    if (layout == "bshd" && follows_layout(role) && axes.dims.size() >= 3) {
      std::swap(axes.dims[1], axes.dims[2]);
      std::swap(axes.strides[1], axes.strides[2]);
    }
    named.push_back({&role, view(file, axes)});
  }
  if (const std::string key = fields.unused(); !key.empty()) {
    std::vector<std::string> known;
    for (const Role& role : operation.roles()) known.emplace_back(role.name);
    throw Error(fmt::format("{}: {} has no tensor {}{}", fields.where(), operation.name(),
                            in_quotes(key), did_you_mean(key, known)));
  }
  return named;
}

/// A field that nobody has set before.
void set_once(json& params, const std::string& key, json value, const std::string& where) {
  if (params.contains(key)) throw Error(fmt::format("{}: {} is set twice", where, key));
  params[key] = std::move(value);
}

/// "causal", "causal=top_left" or "causal=bottom_right".
void set_causal(json& params, const std::string& diagonal, const std::string& where) {
  if (diagonal != "top_left" && diagonal != "bottom_right")
    throw Error(fmt::format("{}: causal stands alone, or is top_left or bottom_right, not {}",
                            where, in_quotes(diagonal)));
  set_once(params, "window_right", 0, where);
  if (diagonal == "bottom_right") set_once(params, "diagonal", ATTEST_BOTTOM_RIGHT, where);
}

/// Throws Error: the operation has no such parameter.
const Field& field_of(const Operation& operation, std::string_view name, const std::string& where) {
  std::vector<std::string> known;
  for (const Field& field : operation.fields()) {
    if (field.name == name) return field;
    known.emplace_back(field.name);
    if (known.back() == "window_right") known.emplace_back("causal");
  }
  throw Error(fmt::format("{}: {} has no {}{}", where, operation.name(), in_quotes(name),
                          did_you_mean(name, known)));
}

/// The value of the word "FIELD=NUMBER".
json value_of(const Field& field, std::string_view word, const std::string& where) {
  const size_t equals = std::min(word.find('='), word.size());
  const std::string_view value = word.substr(std::min(equals + 1, word.size()));
  if (value.empty())
    throw Error(
        fmt::format("{}: {}: a value must follow: {}=NUMBER", where, in_quotes(word), field.name));
  if (field.type == Field::Type::kF32) {
    if (const auto number = parse_number<double>(value)) return *number;
  } else if (const auto count = parse_count(value, -largest(field), largest(field))) {
    return *count;
  }
  throw Error(fmt::format("{}: {}: must be {}", where, in_quotes(word),
                          field.type == Field::Type::kF32 ? "a number" : kCountWords));
}

json params_of_words(std::string_view rest, const Operation& operation, const std::string& where) {
  json params = json::object();
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    const size_t equals = word.find('=');
    const std::string key(word.substr(0, equals));
    if (key == "causal")
      set_causal(params, equals == word.npos ? "top_left" : std::string(word.substr(equals + 1)),
                 where);
    else
      set_once(params, key, value_of(field_of(operation, key, where), word, where), where);
  }
  return params;
}

/// The fields of `params`, which may be words of a spec line too: "causal softcap=30".
json params_of(const json& given, const Operation& operation, const std::string& where) {
  if (given.is_string())
    return params_of_words(given.get_ref<const std::string&>(), operation, where);
  if (!given.is_object())
    throw Error(where + ": must be an object of fields, or words such as 'causal softcap=30'");
  json params = given;
  params.erase("causal");
  if (const auto causal = given.find("causal"); causal == given.end() || *causal == false)
    return params;
  else if (*causal == true)
    set_causal(params, "top_left", where);
  else if (causal->is_string())
    set_causal(params, *causal, where);
  else
    throw Error(where + ": causal: must be true, top_left or bottom_right");
  return params;
}

void check_params(const json& params, const Operation& operation, const std::string& where) {
  for (const auto& [key, value] : params.items()) {
    const Field& field = field_of(operation, key, where);
    if (field.type == Field::Type::kF32 ? !value.is_number() : !value.is_number_integer())
      throw Error(fmt::format("{}: {}: must be a {}number", where, field.name,
                              field.type == Field::Type::kF32 ? "" : "whole "));
    if (field.type != Field::Type::kF32 && std::abs(value.get<double>()) > double(largest(field)))
      throw Error(fmt::format("{}: {}: must be {} at most", where, field.name, largest(field)));
  }
}

void check_layout(const std::string& layout, const std::string& where) {
  if (layout != "bhsd" && layout != "bshd")
    throw Error(fmt::format("{}: {} where bhsd or bshd is right", where, in_quotes(layout)));
}

bool has_role(const std::vector<Named>& named, const Role& role) {
  return std::ranges::any_of(named,
                             [&](const Named& tensor) { return tensor.role->index == role.index; });
}

void check_inputs(const std::vector<Named>& named, const Operation& operation,
                  const std::string& where) {
  for (const Role& role : operation.roles())
    if (role.required && !is_output(role) && !has_role(named, role))
      throw Error(fmt::format("{}: {} needs a tensor '{}'", where, operation.name(), role.name));
}

/// Outputs that are judged like an implementation's need all that one has to write.
void check_outputs(const std::vector<Named>& named, const Operation& operation,
                   const std::string& where) {
  for (const Role& role : operation.roles())
    if (role.required && is_output(role) && !has_role(named, role))
      throw Error(fmt::format("{}: tensors: '{}' is missing; outputs are judged together", where,
                              role.name));
}

/// Sizes that the file gives; what it leaves open follows from the tensors (not where they are
/// packed or paged: seq_len and batch are not in their dims).
void set_params(Problem& problem, const json& params, const std::vector<Named>& named) {
  std::map<std::string, double> follows;
  for (const auto& [role, tensor] : named) {
    const int64_t* dim = tensor.spec.dim;
    if (tensor.spec.rank != 4) continue;
    if (role->index == ATTEST_Q) {
      follows["batch"] = double(dim[0]);
      follows["num_heads"] = double(dim[1]);
      follows["seq_len_q"] = double(dim[2]);
      follows["head_dim"] = double(dim[3]);
    }
    if (role->index == ATTEST_K) {
      follows["num_kv_heads"] = double(dim[1]);
      follows["seq_len_kv"] = double(dim[2]);
    }
    if (role->index == ATTEST_V) follows["head_dim_v"] = double(dim[3]);
  }
  for (const Field& field : problem.operation->fields())
    if (params.contains(field.name))
      set_field(problem, field, params[field.name].get<double>());
    else if (const auto at = follows.find(field.name); at != follows.end())
      set_field(problem, field, at->second);
}

}  // namespace

void check_words(const std::map<std::string, std::string>& words) {
  const auto named = words.find("operation");
  const Operation& operation = operation_of(named == words.end() ? "softmax" : named->second);
  for (const auto& [key, value] : words) {
    const std::string where = "--" + key;
    if (key == "params") check_params(params_of(value, operation, where), operation, where);
    if (key == "layout") check_layout(value, where);
    if (key == "arithmetic") parse_arithmetic(value, operation, where);
  }
}

void map_named(const json& description, TestVector& vector, const VectorPlace& place) {
  if (description.contains("problem")) return map_captured(description, vector, place);
  const std::string where = place.model.string();
  JsonFields fields(description, where);
  const std::string name = fields.text("operation", "softmax"),
                    layout = fields.text("layout", "bhsd");
  const Operation* operation = find_operation(name);
  if (!operation) throw Unsupported{"operation " + in_quotes(name)};
  check_layout(layout, where + ": layout");
  vector.source = fields.text("source", "");
  if (fields.has("tolerance"))
    vector.tolerance = fields.real("tolerance");
  else
    vector.arithmetic =
        parse_arithmetic(fields.text("arithmetic", ""), *operation, where + ": arithmetic");
  FileStore store(place.data);
  const std::vector<Named> named =
      name_tensors(fields.any("tensors"), *operation, layout, store, vector, where);
  check_inputs(named, *operation, where);
  for (const auto& [role, tensor] : named)
    if (role->index <= ATTEST_V && !is_judged_float(tensor.spec.dtype))
      throw Unsupported{fmt::format("{} in {}", role->name, dtype_title(tensor.spec.dtype))};
  const auto q =
      std::ranges::find(named, ATTEST_Q, [](const Named& tensor) { return tensor.role->index; });
  Problem& problem = start_problem(vector, *operation, q->tensor.spec.dtype);
  const json params = fields.has("params")
                          ? params_of(fields.any("params"), *operation, where + ": params")
                          : json::object();
  check_params(params, *operation, where + ": params");
  set_params(problem, params, named);
  for (const auto& [role, tensor] : named) {
    const DType dtype = role->dtype;  // tables are i32, masks bool, whatever the file has
    if (is_output(*role))
      expect_role(vector, role->index, role->name, tensor,
                  dtype != ATTEST_NONE ? dtype
                  : vector.arithmetic  ? tensor.spec.dtype
                                       : problem.dtype);
    else
      give(vector, role->index, tensor, dtype);
  }
  if (const std::string key = fields.unused(); !key.empty())
    throw Error(fmt::format(
        "{}: unknown key {}{}", where, in_quotes(key),
        did_you_mean(key, std::vector<std::string>{"operation", "layout", "source", "tolerance",
                                                   "arithmetic", "tensors", "params"})));
  if (vector.outputs.empty()) vector.arithmetic.reset();  // inputs alone
  if (vector.arithmetic) check_outputs(named, *operation, where);
  finish(vector);
}

}  // namespace attest::core
