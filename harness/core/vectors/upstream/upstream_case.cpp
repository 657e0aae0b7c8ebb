#include "core/vectors/upstream/upstream_case.hpp"

#include <fmt/format.h>

#include "core/inputs/formats/bytes.hpp"
#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/file_store.hpp"

namespace attest::core {

using nlohmann::json;

UpstreamCase::UpstreamCase(const json& description, TestVector& vector,
                           const std::string& file_name)
    : vector_(vector),
      fields_(description, file_name),
      params_(fields_.any("params"), file_name + ": params") {
  op_ = fields_.text("op");
  vector.source = fmt::format("{}: {}", op_, fields_.text("computed_by", "unknown"));
  if (fields_.has("tolerance")) vector.tolerance = fields_.real("tolerance");
  for (const char* key : {"name", "commit", "licence", "compute_dtype", "note"}) fields_.skip(key);
  const std::filesystem::path folder = std::filesystem::path(file_name).parent_path();
  read(fields_.any("inputs"), folder, file_name + ": inputs", inputs_);
  read(fields_.any("outputs"), folder, file_name + ": outputs", outputs_);
  if (const std::string key = fields_.unused(); !key.empty())
    throw Unsupported{fmt::format("{}: key {}", op_, in_quotes(key))};
}

const FileTensor& UpstreamCase::needed(const std::string& name) {
  if (const FileTensor* file = input(name)) return *file;
  throw Error(fmt::format("{}: input '{}' is missing", fields_.where(), name));
}

const FileTensor& UpstreamCase::output() {
  if (outputs_.size() != 1) throw Unsupported{fmt::format("{}: {} outputs", op_, outputs_.size())};
  return *take(outputs_, outputs_.begin()->first);
}

const FileTensor& UpstreamCase::needed_output(const std::string& name) {
  if (const FileTensor* file = output(name)) return *file;
  throw Error(fmt::format("{}: output '{}' is missing", fields_.where(), name));
}

void UpstreamCase::demand(const std::string& key, const std::string& right) {
  if (const std::string got = params_.text(key, right); got != right)
    throw Unsupported{fmt::format("{}: {} {}", op_, key, in_quotes(got))};
}

void UpstreamCase::done() const {
  if (const std::string key = params_.unused(); !key.empty())
    throw Unsupported{fmt::format("{}: parameter {}", op_, in_quotes(key))};
  if (!inputs_.empty())
    throw Unsupported{fmt::format("{}: input {}", op_, in_quotes(inputs_.begin()->first))};
  if (!outputs_.empty())
    throw Unsupported{fmt::format("{}: output {}", op_, in_quotes(outputs_.begin()->first))};
}

void UpstreamCase::read(const json& list, const std::filesystem::path& folder,
                        const std::string& where, Files& files) {
  if (!list.is_array()) throw Error(where + ": must be a list");
  for (const json& item : list) {
    JsonFields fields(item, where);
    const std::string name = fields.text("name"), file = fields.text("file");
    if (file.find('/') != file.npos)
      throw Error(fmt::format("{}: file {}: must lie beside the case", where, in_quotes(file)));
    const std::filesystem::path path = described_file(folder, file, where);
    need_onnx();
    FileTensor& tensor =
        vector_.files.emplace_back(parse_onnx_tensor(read_bytes(path), path.string()));
    tensor.name = name;
    if (fields.has("shape") && fields.any("shape") != json(tensor.dims))
      throw Error(fmt::format("{}: dims {} where {} says {}", path.string(),
                              print_dims(tensor.dims), where, fields.any("shape").dump()));
    if (!files.emplace(name, &tensor).second)
      throw Error(fmt::format("{}: {} comes twice", where, in_quotes(name)));
  }
}

const FileTensor* UpstreamCase::take(Files& files, const std::string& name) {
  const auto at = files.find(name);
  if (at == files.end()) return nullptr;
  const FileTensor* file = at->second;
  files.erase(at);
  return file;
}

Axes heads_first(const FileTensor& file, const std::string& layout) {
  expect_dims(file, {-1, -1, -1, -1}, "tensor");
  const bool named_tokens = layout.find_first_of("SL") != layout.npos;
  const std::string_view ours[] = {named_tokens ? "BN" : "B", "H", named_tokens ? "SL" : "N", "D"};
  const Axes stored = dense_axes(file.dims);
  Axes axes;
  for (const std::string_view letters : ours) {
    const size_t at = layout.find_first_of(letters);
    if (layout.size() != 4 || at == layout.npos) throw Unsupported{"layout " + in_quotes(layout)};
    axes.dims.push_back(stored.dims[at]);
    axes.strides.push_back(stored.strides[at]);
  }
  return axes;
}

void give_mask_from_right(TestVector& vector, const FileTensor& mask, const char* name) {
  const auto& p = vector.problem->as<attest_softmax_params>();
  if (mask.dims.empty() || mask.dims.size() > 4)
    throw Error(fmt::format("{}: {} dims where 1 to 4 are right", name, mask.dims.size()));
  std::vector<int64_t> dims(4 - mask.dims.size(), 1);
  dims.insert(dims.end(), mask.dims.begin(), mask.dims.end());
  const int64_t full[] = {p.batch, p.num_heads, p.seq_len_q, p.seq_len_kv};
  for (size_t i = 0; i < 4; ++i)
    if (dims[i] != 1 && dims[i] != full[i])
      throw Error(fmt::format("{}: dims {} do not broadcast to {}", name, print_dims(mask.dims),
                              print_dims(full)));
  const bool is_mask = mask.dtype == ATTEST_BOOL;
  if (!is_mask && !is_float(usable(mask, "the vector").dtype))
    throw Unsupported{fmt::format("{} of {}", name, mask.type)};
  give(vector, is_mask ? ATTEST_MASK : ATTEST_BIAS, view(mask, dense_axes(dims)));
}

void give_sinks(UpstreamCase& from, TestVector& vector) {
  const FileTensor* sinks = from.input("sinks");
  if (!sinks) return;
  expect_dims(*sinks, {vector.problem->as<attest_softmax_params>().num_heads}, "sinks");
  give(vector, ATTEST_SINKS, flat_view(*sinks), ATTEST_F32);
}

}  // namespace attest::core
