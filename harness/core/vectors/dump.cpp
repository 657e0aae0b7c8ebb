// A file of tensors by itself: what its tensors are follows from their names, in attest's words or
// in those of frameworks.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/problem/hint.hpp"
#include "core/problem/spec.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/assembly.hpp"
#include "core/vectors/file_store.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

/// torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask) and what people
/// call its result.
std::string role_of(const FileTensor& tensor) {
  constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
      {"query", "q"}, {"key", "k"},    {"value", "v"},
      {"out", "o"},   {"output", "o"}, {"logsumexp", "lse"}};
  if (tensor.name == "attn_mask") return tensor.dtype == ATTEST_BOOL ? "mask" : "bias";
  for (const auto& [alias, role] : kAliases)
    if (tensor.name == alias) return std::string(role);
  return tensor.name;
}

}  // namespace

json describe_bare(const VectorPlace& place) {
  json description = json::object();
  for (const auto& [key, value] : place.words) description[key] = value;
  const Operation& operation = operation_of(description.value("operation", "softmax"));
  const std::string file = place.model.filename().string();
  FileStore store(place.data);
  for (const FileTensor& tensor : store.read(file, place.model.string())) {
    const std::string role = role_of(tensor);
    std::vector<std::string> known;
    for (const Role& one : operation.roles()) known.emplace_back(one.name);
    if (std::ranges::find(known, role) == known.end())
      throw Error(fmt::format(
          "{}: {} has no tensor {}{}; its tensors are {}; a .json file may name them otherwise",
          place.model.string(), operation.name(), in_quotes(tensor.name), did_you_mean(role, known),
          fmt::join(known, ", ")));
    if (description["tensors"].contains(role))
      throw Error(fmt::format("{}: {} is there twice", place.model.string(), role));
    description["tensors"][role] = file + ":" + tensor.name;
  }
  if (!description.contains("tensors"))
    throw Error(fmt::format("{}: has no tensors", place.model.string()));
  return description;
}

}  // namespace attest::core
