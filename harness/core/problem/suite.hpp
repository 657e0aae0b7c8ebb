// Suites: JSON files of named cases. suites/README.md shows the format; suites/suite.schema.json is
// its JSON Schema.
//
//   {"name": "mine", "summary": "what it covers",
//    "defaults": {"operation": "softmax", "dtypes": ["f32", "f16"]},
//    "cases": [{"name": "vit_b16_224/self", "num_heads": 12, "seq_len_q": 197, "head_dim": 64,
//    "quick": true}]}
//
// The keys of a case are the words of a spec line (spec.hpp) and those of struct Case. A case also
// has the keys of `defaults`, unless it gives its own value.
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
  std::string source = "random";  // or a line of core/inputs/tokens.hpp:
                                  // "lidar:voxel_size=0.05,curve=z,first=32768"
};

/// A word of a spec line. For a seq_len field, the value "tokens" stands for the number of tokens
/// of the source.
struct Word {
  std::string key, value;  // value "": a word without a value
};

/// Why the inputs of a case may miss the events (NumericEvent) that a glob matches.
struct Excuse {
  std::string glob, why;
  bool shared = false;  // from the suite's defaults: it need not match an event of this case
};

struct Case {
  std::string name;  // model/layer, unique in its suite
  std::string suite, operation;
  std::vector<Word> words;    // of its spec line, without operation and dtype
  std::vector<DType> dtypes;  // one problem for each
  bool quick = false;         // in the --quick selection
  Inputs inputs;
  std::string source;  // the upstream project and files that the shape comes from
  std::string note;
  std::vector<std::string> only_impls;  // globs; empty: all
  std::vector<Excuse> misses;           // events that its inputs may miss
  std::vector<std::string>
      fills;  // judged only on these; kAllFills: on all; empty: on the default fills

  /// Whether a size is the number of tokens.
  bool sized_by_tokens() const;
  /// The problem in that dtype. Throws Error as parse_problem does. `token_count` is ignored unless
  /// sized_by_tokens().
  Problem problem(DType dtype, int64_t token_count) const;
};

struct Suite {
  std::string name, summary;
  std::string file;  // the file that it was read from
  // Seconds of timed runs for each implementation and problem; 0: the command's default
  double budget_s = 0;
  std::vector<Case> cases;
};

/// The number of tokens with which the problems of a suite are checked when it is read.
inline constexpr int64_t kSampleTokens = 32768;

/// Reads a suite and checks all of its problems. Throws Error that names file, case and key, and
/// says what would be right.
Suite parse_suite(std::string_view json_text, std::string_view file_name);
/// The same from a file. Throws Error if it cannot be read, too.
Suite read_suite(const std::filesystem::path& file);

}  // namespace attest::core
