// This header makes a GoogleTest test from every (implementation, case). The filters, the sharding
// and the XML of GoogleTest work on them.
//
//   #include <attest_gtest.hpp>
//   int main(int argc, char** argv) {
//     // plugins, suites, vectors ...
//     return attest::gtest::run(argc, argv, {{"./mine.so"}, {"smoke"}});
//   }
//
//   mine_conformance --gtest_filter='smoke/*.mine'      names: attest_conformance.hpp
#pragma once
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <utility>

#include "attest_conformance.hpp"

namespace attest::gtest {

using conformance::Options;

/// One (implementation, case). It passes, fails with the reason and the problem's spec line, or is
/// skipped with the reason.
class Conformance : public ::testing::Test {
 public:
  Conformance(std::shared_ptr<conformance::Conformance> all, std::size_t index)
      : all_(std::move(all)), index_(index) {}
  void TestBody() override {
    const conformance::Outcome outcome = all_->run(index_);
    RecordProperty("verdict", outcome.verdict);
    RecordProperty("spec", outcome.spec);
    RecordProperty("arithmetic", outcome.arithmetic);
    RecordProperty("max_ratio", std::to_string(outcome.max_ratio));
    RecordProperty("rms_ratio", std::to_string(outcome.rms_ratio));
    if (outcome.kind == conformance::Outcome::Kind::kNotRun)
      GTEST_SKIP() << outcome.verdict << ": " << outcome.reason;
    if (outcome.kind == conformance::Outcome::Kind::kBad)
      FAIL() << outcome.verdict << " (" << outcome.code << "): " << outcome.reason << "\n"
             << outcome.spec;
  }

 private:
  std::shared_ptr<conformance::Conformance> all_;
  std::size_t index_;
};

/// Registers the tests; to be called before RUN_ALL_TESTS. Throws std::runtime_error as the
/// constructor of conformance::Conformance does.
inline void add(Options options) {
  const auto all = std::make_shared<conformance::Conformance>(std::move(options));
  for (std::size_t i = 0; i < all->tests().size(); ++i) {
    const conformance::Test& test = all->tests()[i];
    ::testing::RegisterTest(test.group.c_str(), test.name.c_str(), nullptr, nullptr, __FILE__,
                            __LINE__,
                            [all, i]() -> Conformance* { return new Conformance(all, i); });
  }
}

/// A complete main(). Returns 0 if no test failed, 1 if one did, 64 if the options are wrong.
inline int run(int argc, char** argv, Options options) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    add(std::move(options));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 64;
  }
  return RUN_ALL_TESTS();
}

}  // namespace attest::gtest
