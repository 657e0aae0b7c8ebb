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

#include "core/problem/case.hpp"

namespace attest::core {

struct Suite {
  std::string name, summary;
  std::string file;  // the file that it was read from
  // Seconds of timed runs for each implementation and problem; 0: the command's default
  double budget_s = 0;
  std::vector<Case> cases;
  std::vector<Scaling> scaling;
};

/// The number of tokens with which the problems of a suite are checked when it is read.
inline constexpr int64_t kSampleTokens = 32768;

/// Reads a suite and checks all of its problems. Throws Error that names file, case and key, and
/// says what would be right.
Suite parse_suite(std::string_view json_text, std::string_view file_name);
/// The same from a file. Throws Error if it cannot be read, too.
Suite read_suite(const std::filesystem::path& file);

}  // namespace attest::core
