// Finding vectors in folders, and reading one: files first, then the mapping of its operation.
#include "core/vectors/read_vectors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/inputs/formats/bytes.hpp"
#include "core/problem/hint.hpp"
#include "core/problem/strict_json.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/assembly.hpp"
#include "core/vectors/formats/formats.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kDeepest = 8;

std::string text_of(const fs::path& path) {
  const std::vector<std::byte> bytes = read_bytes(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

json description_of(const fs::path& path) {
  json description = parse_strict_json(text_of(path), path.string());
  if (!description.is_object()) throw Error(path.string() + ": must be an object");
  return description;
}

VectorPlace place_of_json(const fs::path& path, std::string name) {
  return {.kind = VectorPlace::Kind::kJson,
          .name = std::move(name),
          .model = path,
          .data = path.parent_path()};
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  std::ranges::sort(entries);
  return entries;
}

void search(const fs::path& folder, const std::string& name, int depth,
            std::vector<VectorPlace>& places) {
  const std::vector<fs::path> entries = sorted_entries(folder);
  if (fs::is_regular_file(folder / "model.onnx")) {
    std::vector<fs::path> sets;
    for (const fs::path& entry : entries)
      if (fs::is_directory(entry) && entry.filename().string().starts_with("test_data_set_"))
        sets.push_back(entry);
    for (const fs::path& set : sets)
      places.push_back({.kind = VectorPlace::Kind::kOnnx,
                        .name = sets.size() == 1 ? name : name + "/" + set.filename().string(),
                        .model = folder / "model.onnx",
                        .data = set});
    return;
  }
  if (fs::is_regular_file(folder / "case.json")) {
    places.push_back(place_of_json(folder / "case.json", name));
    return;
  }
  if (depth == kDeepest) return;
  for (const fs::path& entry : entries)
    if (fs::is_directory(entry))
      search(entry,
             name.empty() ? entry.filename().string() : name + "/" + entry.filename().string(),
             depth + 1, places);
}

/// input_0.pb, input_1.pb ... as far as they go.
std::vector<FileTensor*> read_numbered(TestVector& vector, const fs::path& folder,
                                       const std::string& stem) {
  std::vector<FileTensor*> files;
  for (size_t k = 0;; ++k) {
    const fs::path path = folder / fmt::format("{}_{}.pb", stem, k);
    if (!fs::exists(path)) return files;
    files.push_back(&vector.files.emplace_back(parse_onnx_tensor(read_bytes(path), path.string())));
  }
}

/// The tensors of a node by place: of the files, by the names that the graph gives them, and of the
/// initialisers.
std::vector<const FileTensor*> by_place(const std::vector<std::string>& wanted,
                                        const std::map<std::string, const FileTensor*>& known,
                                        const std::string& where) {
  std::vector<const FileTensor*> tensors;
  for (const std::string& name : wanted) {
    const auto at = known.find(name);
    if (!name.empty() && at == known.end())
      throw Error(fmt::format("{}: there is no tensor {}", where, in_quotes(name)));
    tensors.push_back(name.empty() ? nullptr : at->second);
  }
  return tensors;
}

using OnnxMapping = void (*)(const OnnxCase&, TestVector&);

OnnxMapping mapping_of(const OnnxNode& node) {
  struct Known {
    std::string_view domain, op_type;
    OnnxMapping mapping;
  };
  constexpr Known kKnown[] = {{"", "Attention", map_attention},
                              {"", "Softmax", map_softmax},
                              {"", "LogSoftmax", map_softmax},
                              {"", "RotaryEmbedding", map_rotary_embedding},
                              {"", "LinearAttention", map_linear_attention},
                              {"ai.onnx.preview", "FlexAttention", map_flex_attention}};
  for (const Known& known : kKnown)
    if (known.domain == node.domain && known.op_type == node.op_type) return known.mapping;
  throw Unsupported{node.domain.empty() ? node.op_type : node.domain + "." + node.op_type};
}

void read_onnx(const VectorPlace& place, TestVector& vector) {
  need_onnx();
  OnnxModel model = parse_onnx_model(read_bytes(place.model), place.model.string());
  if (model.nodes.size() > 1) {
    std::string names;
    for (size_t i = 0; i < std::min<size_t>(model.nodes.size(), 4); ++i)
      names += (i ? ", " : "") + model.nodes[i].op_type;
    throw Unsupported{fmt::format("a graph of {} nodes ({}{})", model.nodes.size(), names,
                                  model.nodes.size() > 4 ? ", ..." : "")};
  }
  const OnnxNode& node = model.nodes[0];
  // Before the files: they may hold what is not read, strings say
  const OnnxMapping mapping = mapping_of(node);
  const auto opset = model.opset.find(node.domain);
  vector.source = fmt::format("ONNX {} of opset {}", node.op_type,
                              opset == model.opset.end() ? 0 : opset->second);
  std::map<std::string, const FileTensor*> known_inputs, known_outputs;
  for (FileTensor& tensor : model.initializers) {
    std::string name = tensor.name;
    known_inputs[name] = &vector.files.emplace_back(std::move(tensor));
  }
  auto read = [&](const char* stem, const std::vector<std::string>& names, auto& known) {
    const std::vector<FileTensor*> files = read_numbered(vector, place.data, stem);
    if (files.size() > names.size())
      throw Error(fmt::format("{}: {} files {}_k.pb where the graph has {}", place.data.string(),
                              files.size(), stem, names.size()));
    for (size_t k = 0; k < files.size(); ++k) {
      known[names[k]] = files[k];
      files[k]->name = names[k];
    }
  };
  read("input", model.inputs, known_inputs);
  read("output", model.outputs, known_outputs);
  const std::string where = place.data.string();
  if (known_outputs.empty()) throw Error(where + ": has no output_0.pb");
  const OnnxCase from{node, opset == model.opset.end() ? 0 : opset->second,
                      by_place(node.inputs, known_inputs, where),
                      by_place(node.outputs, known_outputs, where)};
  mapping(from, vector);
}

void read_described(const VectorPlace& place, TestVector& vector,
                    const std::map<std::string, std::string>& other) {
  json description = describe(place);
  for (const auto& [key, value] : other) description[key] = value;
  if (description.contains("tensors"))
    map_named(description, vector, place);
  else
    map_upstream(description, vector, place.model.string());
}

/// The last name of a path, with or without a slash behind it; of the folder that it stands for
/// where it is "." or "..".
fs::path last_name(const fs::path& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).filename();
}

}  // namespace

std::string suite_of_vectors(const fs::path& folder) { return last_name(folder).stem().string(); }

std::vector<VectorPlace> find_vectors(const fs::path& folder) {
  std::vector<VectorPlace> places;
  if (fs::is_regular_file(folder)) {
    if (folder.extension() == ".json") {
      description_of(folder);
      places.push_back(place_of_json(folder, folder.stem().string()));
    } else if (holds_cases(folder)) {
      places.push_back({.kind = VectorPlace::Kind::kJson,
                        .name = folder.stem().string(),
                        .model = folder,
                        .data = folder.parent_path(),
                        .bare = true});
    } else {
      throw Error(fmt::format("{}: must be a folder, a .json file or one of {}", folder.string(),
                              kFilesOfCases));
    }
  } else if (fs::is_directory(folder)) {
    search(folder, "", 0, places);
    const std::string own = last_name(folder).string();
    for (VectorPlace& place : places)  // the folder is a vector itself
      if (place.name.empty() || place.name.starts_with('/')) place.name = own + place.name;
  } else {
    throw Error(folder.string() + ": no such folder or file");
  }
  if (!places.empty()) return places;
  for (const fs::path& entry : sorted_entries(folder))
    if (holds_cases(entry) || entry.extension() == ".json")
      throw Error(fmt::format("{}: has no vectors by itself; name a file in it: {}",
                              folder.string(), entry.string()));
  throw Error(
      folder.string() +
      ": has no vectors: folders with a model.onnx and a test_data_set_0, or with a case.json");
}

json describe(const VectorPlace& place) {
  return place.bare ? describe_bare(place) : description_of(place.model);
}

TestVector read_vector(const VectorPlace& place, const std::map<std::string, std::string>& other) {
  TestVector vector;
  vector.name = place.name;
  try {
    if (place.kind == VectorPlace::Kind::kOnnx)
      read_onnx(place, vector);
    else
      read_described(place, vector, other);
  } catch (const Unsupported& refusal) {
    TestVector none;
    none.name = vector.name;
    none.source = vector.source;
    none.unsupported = refusal.what;
    return none;
  } catch (const Error& error) {
    const std::string message = error.what(), model = place.model.string(),
                      folder = (place.model.parent_path() / "").string();
    throw Error(message.starts_with(folder.empty() ? model : folder) ? message
                                                                     : model + ": " + message);
  }
  return vector;
}

}  // namespace attest::core
