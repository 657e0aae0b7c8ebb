// A vector: a problem with the inputs that somebody gave it, and the outputs that somebody else
// computed.
#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/cases/formats/file_tensor.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

/// One output that a vector has, and what the reference is to be asked for.
struct VectorOutput {
  enum class Kind {
    kRole,    // the golden's own output of that role
    kScores,  // what softmax attention has in between, see scores.hpp
    kValues   // computed already when the vector was read
  };
  std::string name;  // as the file has it
  Kind kind = Kind::kRole;
  int32_t role = 0;
  int score_mode = 0;
  std::vector<double> values;  // in the order of the dims of `expected`
  Tensor expected;             // a view of VectorCase::files
  bool partial = false;        // NaN in `expected`: the vector does not say
};

/// Moves, but is not copied: tensors are views of its files.
struct VectorCase {
  VectorCase() = default;
  VectorCase(VectorCase&&) = default;
  VectorCase& operator=(VectorCase&&) = default;

  std::string name;         // "test_attention_3d"
  std::string source;       // who computed it
  std::string unsupported;  // the operator, attribute or parameter that attest has no word for; "":
                            // none, and all below is there
  std::optional<Problem> problem;  // nothing: an operation that only the reference knows
  std::string operation, dtype;    // of what was computed, for the record
  Tensors given{};                 // inputs by role
  // What the reference gets in place of those: f64 where the problem's own dtype, or its float32
  // scale, rounds what was given.
  Tensors exact{};
  std::vector<VectorOutput> outputs;
  std::optional<double> tolerance;  // its own, of every output
  /// The outputs are somebody's work, of this arithmetic and to be judged by sigma like an
  /// implementation's; nothing: they are what the reference has to be.
  std::optional<Arithmetic> arithmetic;
  std::vector<std::string> notes;
  std::deque<FileTensor> files;
};

/// A vector as its folder says, not read yet.
struct VectorPlace {
  enum class Kind { kOnnx, kJson };
  Kind kind = Kind::kOnnx;
  std::string name;             // below the folder that was searched
  std::filesystem::path model;  // model.onnx, or the JSON file
  std::filesystem::path data;   // test_data_set_0, or the folder of the JSON file
  // A file of tensors has no JSON beside it (model is the file): what it lacks, by the JSON file's
  // keys: {"params", "causal"}.
  bool bare = false;
  std::map<std::string, std::string> words = {};
};

}  // namespace attest::core
