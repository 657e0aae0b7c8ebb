// Reads the tensor files that a vector's description names, each once.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/vectors/formats/file_tensor.hpp"

namespace attest::core {

/// The path of a file that a description names. Throws Error that begins with `where` if there is
/// no such file.
std::filesystem::path described_file(const std::filesystem::path& folder, const std::string& file,
                                     const std::string& where);

class FileStore {
 public:
  explicit FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// The tensor of a reference such as "dump.safetensors:query" or "q.npy". Throws Error that
  /// begins with `where`, or Unsupported for a .pb file in a build without ONNX.
  const FileTensor& get(const std::string& reference, const std::string& where);
  /// All tensors of a file.
  const std::vector<FileTensor>& read(const std::string& file, const std::string& where);

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::vector<FileTensor>> files_;
};

}  // namespace attest::core
