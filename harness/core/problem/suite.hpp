// Suites: JSON files of named cases. suites/README.md shows the format, suites/suite.schema.json
// describes it to editors.
//
//   {"name": "mine", "summary": "what it covers",
//    "defaults": {"operation": "softmax", "dtypes": ["f32", "f16"]},
//    "cases": [{"name": "vit_b16_224/self", "num_heads": 12, "seq_len_q": 197, "head_dim": 64,
//    "quick": true}]}
//
// A case is the words of a spec line as keys (spec.hpp) beside the keys of struct Case; `defaults`
// is merged under every case.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

/// Where a case's inputs come from.
struct Inputs {
  bool from_tokens = false;
  std::string source = "random";  // else a line of core/inputs/tokens.hpp:
                                  // "lidar:voxel_size=0.05,curve=z,first=32768"
};

/// A word of a spec line. The value "tokens" of a seq_len field stands for the number of tokens
/// that the source has.
struct Word {
  std::string key, value;  // value "": the bare word
};

/// Why a case judges without some of its events (NumericEvent).
struct Excuse {
  std::string glob, why;
  bool shared = false;  // of the suite's defaults: need not say anything of this case
};

struct Case {
  std::string name;  // model/layer, unique in its suite
  std::string suite, operation;
  std::vector<Word> words;    // of its spec line, without operation and dtype
  std::vector<DType> dtypes;  // one problem each
  bool quick = false;         // among the few for two cores
  Inputs inputs;
  std::string source;  // the model's own configuration
  std::string note;
  std::vector<std::string> only_impls;  // globs; empty: all
  std::vector<Excuse> misses;           // events that its fills may leave out
  std::vector<std::string>
      fills;  // judged on these alone, or on kAllFills; empty: those that judge by default

  /// Whether a size follows from the number of tokens.
  bool sized_by_tokens() const;
  /// Throws Error, as parse_problem. `token_count` matters only where sized_by_tokens().
  Problem problem(DType dtype, int64_t token_count) const;
};

struct Suite {
  std::string name, summary;
  std::string file;  // that it was read from
  // Of timed runs, for each implementation and problem; 0: as the command line has it
  double budget_s = 0;
  std::vector<Case> cases;
};

/// Token count with which a suite is tried when it is loaded.
inline constexpr int64_t kSampleTokens = 32768;

/// Reads a suite and makes each of its problems once. Throws Error: file, case, key, what would be
/// right.
Suite parse_suite(std::string_view json_text, std::string_view file_name);
/// The same from a file. Throws Error, also where it cannot be read.
Suite read_suite(const std::filesystem::path& file);

}  // namespace attest::core
