// Judges implementations from another program, one (implementation, case) at a time. It is one
// shared library; programs that link it need none of attest's dependencies. attest_gtest.hpp makes
// GoogleTest tests of it, attest_gbench.hpp benchmarks of Google Benchmark. C++17.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#define ATTEST_EXPORT __attribute__((visibility("default")))

namespace attest::conformance {

/// What is judged, and on what.
struct Options {
  // Paths of plugins; empty: the implementations that come with attest are judged
  std::vector<std::string> plugins = {};
  std::vector<std::string> suites = {};   // names of suites that come with attest, or files
  std::vector<std::string> vectors = {};  // folders of vectors, or single files of tensors
  // Globs that choose among implementations, cases and dtypes; empty: all. With plugins, `impls`
  // can also choose implementations that come with attest.
  std::vector<std::string> impls = {}, cases = {}, dtypes = {};
  bool quick = false;     // only the cases that their suite marks as quick
  int threads = 0;        // of each implementation; 0: all CPUs that this process may use
  double timeout_s = 60;  // limit for one call into a plugin
  // "acc=f32,prob=bf16": an implementation that declares less precise arithmetic is unsupported
  std::string min_arithmetic = {};
  bool timed = false;      // whether implementations that pass are timed
  double budget_s = 0.25;  // seconds in which one (implementation, case) is timed
};

/// One (implementation, case). The names consist of letters, digits, '_' and '/', and are the same
/// in every run. Together they are unique.
struct Test {
  std::string group;  // "vit/vit_b_16_224/self/f32"; for a vector: "onnx/test_attention_4d"
  std::string name;   // "flash_cpu"; for a vector also "reference", which compares attest's
                      // reference with the vector's outputs
};

/// How long one (implementation, case) takes, and what one run of it does. A number that is not
/// known is 0.
struct Times {
  double median_ns = 0;                          // the median time of one run
  double median_low_ns = 0, median_high_ns = 0;  // the ends of the 95 % interval of that median
  double cold_median_ns = 0;                     // the median time if caches are emptied before
  int64_t runs = 0;                              // the number of timed runs
  double flops = 0;        // floating-point operations; a multiply-add counts 2
  double least_bytes = 0;  // the fewest bytes that a run can move
  double queries = 0;      // the number of tokens that an output is computed for
  double peak_bytes = 0;   // the measured peak of memory beside the tensors
  double roofline = 0;     // the least time that the machine allows / median_ns; 0: not known
  int threads = 0;         // the number of threads that the implementation may use
};

struct Outcome {
  enum class Kind { kPass, kBad, kNotRun };  // kNotRun: unsupported or skipped; `reason` says why
  Kind kind = Kind::kBad;
  std::string verdict;  // "pass", "fail", "suspect", "unsupported", "skipped", "error", "crash" or
                        // "timeout"
  std::string code, reason;
  std::string spec;                     // the problem in one line
  std::string arithmetic;               // as declared
  double max_ratio = 0, rms_ratio = 0;  // errors divided by their gates; <= 1 passes
  std::optional<Times> times = {};      // set if the implementation passed and Options::timed is
};

class ATTEST_EXPORT Conformance {
 public:
  /// Reads suites, finds vectors, and loads the plugins in worker processes. Throws
  /// std::runtime_error with a message of one line, which names the file, key or glob at fault, or
  /// says that there is nothing to judge.
  explicit Conformance(const Options& options);
  ~Conformance();
  Conformance(const Conformance&) = delete;
  Conformance& operator=(const Conformance&) = delete;

  /// All tests. Tests of one group are adjacent; they share inputs and golden.
  const std::vector<Test>& tests() const;
  /// Runs tests()[test]. Whatever an implementation or a vector does becomes an Outcome, never an
  /// exception.
  Outcome run(std::size_t test);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attest::conformance
