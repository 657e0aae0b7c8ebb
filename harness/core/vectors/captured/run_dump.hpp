// Writes one run into a folder of .npy files: inputs, outputs, and for each row that the golden
// judges the expected values, their sigmas and the errors. README.md describes the folder.
#pragma once
#include <filesystem>
#include <string>

#include "core/inputs/prepared.hpp"
#include "core/operations/golden.hpp"

namespace attest::core {

/// One run of an implementation.
struct DumpedRun {
  const PreparedInputs& inputs;
  const Golden& golden;  // of these inputs
  const Arithmetic& arithmetic;
  const Tensors* outputs;  // null: the run returned none
  std::string source;      // what ran, and what came of it, for people
  // Of the expected values of one output. If there are more, the rows with the largest errors are
  // written.
  int64_t most_bytes = int64_t{256} << 20;
};

/// Makes the folder. The description is that of a captured case, so that read_vector reads inputs
/// and outputs again, bit for bit. Throws Error if the folder has a case already, or cannot be
/// written.
void dump_run(const DumpedRun& run, const std::filesystem::path& folder);

}  // namespace attest::core
