#include "core/vectors/file_store.hpp"

#include <fmt/format.h>

#include "core/inputs/formats/bytes.hpp"
#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/assembly.hpp"
#include "core/vectors/formats/formats.hpp"

namespace attest::core {

std::filesystem::path described_file(const std::filesystem::path& folder, const std::string& file,
                                     const std::string& where) {
  std::filesystem::path path = folder / file;
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw Error(fmt::format("{}: {}: no such file", where, in_quotes(file)));
  return path;
}

const FileTensor& FileStore::get(const std::string& reference, const std::string& where) {
  const size_t colon = reference.rfind(':');
  const std::string file = reference.substr(0, colon),
                    name = colon == reference.npos ? "" : reference.substr(colon + 1);
  const std::vector<FileTensor>& tensors = read(file, where);
  if (name.empty() && tensors.size() == 1) return tensors[0];
  std::vector<std::string> names;
  for (const FileTensor& tensor : tensors) {
    if (tensor.name == name) return usable(tensor, where);
    names.push_back(tensor.name);
  }
  throw Error(fmt::format("{}: {} has no tensor {}{}", where, in_quotes(file), in_quotes(name),
                          did_you_mean(name, names)));
}

const std::vector<FileTensor>& FileStore::read(const std::string& file, const std::string& where) {
  if (const auto at = files_.find(file); at != files_.end()) return at->second;
  const TensorFormat* const format = tensor_format(file);
  if (!format)
    throw Error(fmt::format("{}: {}: must be {}, with :NAME for a tensor in it", where,
                            in_quotes(file), kAnyTensorFile));
  const std::filesystem::path path = described_file(folder_, file, where);
  if (format->needs_onnx) need_onnx();
  std::vector<FileTensor> tensors = format->parse(read_bytes(path), path.string());
  return files_.emplace(file, std::move(tensors)).first->second;
}

}  // namespace attest::core
