// Judging implementations from another program: (implementation, case) by (implementation, case),
// in one shared library that needs nothing of attest's own dependencies to be linked.
// attest_gtest.hpp makes GoogleTest tests of it. C++17.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#define ATTEST_EXPORT __attribute__((visibility("default")))

namespace attest::conformance {

/// What is judged, on what. Lists of globs that are empty keep all.
struct Options {
  // Libraries; none: the implementations that come with attest
  std::vector<std::string> plugins = {};
  std::vector<std::string> suites = {};   // names of suites that come with attest, or files
  std::vector<std::string> vectors = {};  // folders of vectors, or single files of tensors
  // Globs. With `impls` those that come with attest can be chosen beside the plugins' own.
  std::vector<std::string> impls = {}, cases = {}, dtypes = {};
  bool quick = false;     // of the suites, only the cases that are marked as quick
  int threads = 0;        // of each implementation; 0: all CPUs that this process may use
  double timeout_s = 60;  // of one call into a plugin
  // "acc=f32,prob=bf16": implementations that declare less are unsupported
  std::string min_arithmetic = "";
};

/// One (case, implementation). Both names hold letters, digits, '_' and '/' only, are the same in
/// every run, and are unique together.
struct Test {
  std::string group;  // "vit/vit_b_16_224/self/f32"; of a vector: "onnx/test_attention_4d"
  std::string name;   // "flash_cpu"; of a vector also "reference": attest itself against the
                      // vector's outputs
};

struct Outcome {
  enum class Kind {
    kPass,
    kBad,
    kNotRun
  };  // kNotRun: unsupported or skipped, and the reason says why
  Kind kind = Kind::kBad;
  std::string verdict;  // "pass", "fail", "suspect", "unsupported", "skipped", "error", "crash" or
                        // "timeout"
  std::string code, reason;
  std::string spec;                     // the problem in one line
  std::string arithmetic;               // as declared
  double max_ratio = 0, rms_ratio = 0;  // errors as shares of their gates, <= 1 passes
};

class ATTEST_EXPORT Conformance {
 public:
  /// Reads suites and finds vectors, loads the plugins in worker processes. Throws
  /// std::runtime_error, whose one line names the file, key or glob at fault, or says that nothing
  /// is left to judge.
  explicit Conformance(Options options);
  ~Conformance();
  Conformance(const Conformance&) = delete;
  Conformance& operator=(const Conformance&) = delete;

  /// All tests; those of one group stand together and share their inputs and their golden.
  const std::vector<Test>& tests() const;
  /// Judges one of tests(). Never throws for what an implementation or a vector does.
  Outcome run(std::size_t test);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attest::conformance
