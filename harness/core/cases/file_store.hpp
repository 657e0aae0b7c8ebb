// The tensor files that a case names, each read once.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/cases/formats/file_tensor.hpp"

namespace attest::core {

/// The path of a file that a description names. Throws Error, which begins with `where`: there is
/// none.
std::filesystem::path described_file(const std::filesystem::path& folder, const std::string& file,
                                     const std::string& where);

class FileStore {
 public:
  explicit FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// "dump.safetensors:query", "q.npy". Throws Error, which begins with `where`; Unsupported: a .pb
  /// in a build without ONNX.
  const FileTensor& get(const std::string& reference, const std::string& where);
  /// All tensors of a file.
  const std::vector<FileTensor>& read(const std::string& file, const std::string& where);

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::vector<FileTensor>> files_;
};

}  // namespace attest::core
