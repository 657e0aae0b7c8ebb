// Golden files: what a program printed once and a person has looked at.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "reports/input/input.hpp"

// attest_test defines it. A header also has to compile by itself.
#ifndef ATTEST_SOURCE_DIR
#define ATTEST_SOURCE_DIR "."
#endif

namespace attest::testing {

/// The folder of the golden files.
inline const std::string kGolden = ATTEST_SOURCE_DIR "/reports/golden/";

inline std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The runs of golden/results.jsonl: records of every verdict, and one with hostile text.
inline reports::Input golden_input() {
  std::vector<core::Results> files;
  files.push_back(core::read_results(kGolden + "results.jsonl"));
  return reports::make_input(std::move(files));
}

/// Compares `text` with a golden file. With ATTEST_UPDATE_GOLDEN=1 in the environment it writes the
/// file instead; look at the difference before you commit it.
inline void expect_golden(const std::string& text, const std::string& file) {
  if (const char* update = std::getenv("ATTEST_UPDATE_GOLDEN"); update && *update == '1')
    std::ofstream(kGolden + file, std::ios::binary) << text;
  EXPECT_EQ(text, file_text(kGolden + file))
      << "If the change is right, run this test with ATTEST_UPDATE_GOLDEN=1.";
}

}  // namespace attest::testing
