#include "core/inputs/remembering_golden.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>
#include <tuple>

namespace attest::core {
namespace {

using Numbers = std::vector<double>;

constexpr int kThreads = 4;

// Calls work(thread) in several threads at once.
template <class Work>
void on_threads(const Work& work) {
  std::latch all_started(kThreads);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      all_started.arrive_and_wait();
      work(thread);
    });
  for (std::thread& thread : threads) thread.join();
}

// Differs wherever the arithmetics below differ.
double sigma_of(const Arithmetic& arithmetic) {
  const Arithmetic::AtStage& last = arithmetic.stage.back();
  return 1 + arithmetic.output + 100 * last.dtype + last.rel_error + 1e4 * arithmetic.ways +
         1e6 * double(arithmetic.sum_chain);
}

/// Expects `chunks` chunks of `rows` rows of four elements from several threads, then bounds of two
/// more rows, and counts how often.
class CountingGolden final : public Golden {
 public:
  explicit CountingGolden(std::atomic<int>& count, int64_t rows = 2, int64_t chunks = 6)
      : count_(count), rows_(rows), chunks_(chunks) {}

  void expect(const Arithmetic& arithmetic, const Sink& sink) const override {
    ++count_;
    if (arithmetic.output == ATTEST_F64) throw GoldenRefused("the host differs");
    if (chunks_ == 1)
      expect_values(0, arithmetic, sink);
    else
      on_threads([&](int thread) {
        for (int64_t chunk = thread; chunk < chunks_; chunk += kThreads)
          expect_values(chunk, arithmetic, sink);
      });
    const std::vector<int64_t> swept{7, 8};
    const Numbers low{-1, -2, -3, -4}, high{1, 2, 3, 4};
    sink({.role = 2,
          .leading = 2,
          .width = 4,
          .rows = swept,
          .shared = true,
          .low = low.data(),
          .high = high.data()});
  }
  // What no caller could count in the chunks.
  std::vector<int64_t> exact_rows(const Arithmetic& arithmetic, int32_t role) const override {
    return {11, role, arithmetic.sum_chain};
  }
  int64_t distinct_rows() const override { return 13; }
  int64_t independent_rows(const Arithmetic& arithmetic, int32_t role) const override {
    return 100 * role + arithmetic.sum_chain;
  }
  std::string method() const override { return "float64"; }

 private:
  void expect_values(int64_t chunk, const Arithmetic& arithmetic, const Sink& sink) const {
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < rows_; ++row) rows.push_back(chunk * rows_ + row);
    const Numbers value(4 * rows.size(), double(chunk));
    const Numbers sigma(4 * rows.size(), sigma_of(arithmetic));
    sink({.role = 1,
          .leading = 3,
          .width = 4,
          .rows = rows,
          .value = value.data(),
          .sigma = sigma.data()});
  }

  std::atomic<int>& count_;
  int64_t rows_, chunks_;
};

using Seen = std::vector<std::tuple<int32_t, int, int64_t, bool, std::vector<int64_t>, Numbers,
                                    Numbers, Numbers, Numbers>>;

// In an order that does not depend on threads.
Seen chunks_of(const Golden& golden, const Arithmetic& arithmetic) {
  Seen seen;
  std::mutex lock;
  golden.expect(arithmetic, [&](const Expected& chunk) {
    const auto numbers = [&](const double* from) {
      return from ? Numbers(from, from + chunk.element_count()) : Numbers();
    };
    const std::lock_guard guard(lock);
    seen.emplace_back(chunk.role, chunk.leading, chunk.width, chunk.shared,
                      std::vector<int64_t>(chunk.rows.begin(), chunk.rows.end()),
                      numbers(chunk.value), numbers(chunk.sigma), numbers(chunk.low),
                      numbers(chunk.high));
  });
  std::ranges::sort(seen);
  return seen;
}

// Each differs from the first in one field.
std::vector<Arithmetic> arithmetics() {
  std::vector<Arithmetic> all(6);
  all[1].output = ATTEST_F16;
  all[2].stage.back().dtype = ATTEST_BF16;
  all[3].stage.back().rel_error = 0.125;
  all[4].ways = 1;
  all[5].sum_chain = 64;
  return all;
}

TEST(RememberingGolden, PassesTheSameChunksAgain) {
  std::atomic<int> count = 0, plain_count = 0;
  const CountingGolden plain(plain_count);
  const RememberingGolden golden(std::make_unique<CountingGolden>(count));
  for (int n = 0; n < 3; ++n)
    for (const Arithmetic& arithmetic : arithmetics())
      EXPECT_EQ(chunks_of(golden, arithmetic), chunks_of(plain, arithmetic));
  EXPECT_EQ(size_t(count), arithmetics().size());
}

TEST(RememberingGolden, KeepsAllChunksOfSeveralThreads) {
  std::atomic<int> count = 0;
  const RememberingGolden golden(std::make_unique<CountingGolden>(count, 1, 10'000));
  const Seen computed = chunks_of(golden, {});
  EXPECT_EQ(computed.size(), 10'001u);
  EXPECT_TRUE(computed == chunks_of(golden, {}));
  EXPECT_EQ(count, 1);
}

TEST(RememberingGolden, IsUsedBySeveralThreads) {
  constexpr int kEach = 500;
  std::atomic<int> count = 0;
  const RememberingGolden golden(std::make_unique<CountingGolden>(count, 1, 1));
  for (int n = 0; n < 2; ++n)
    on_threads([&](int thread) {
      for (int64_t chain = 0; chain < kEach; ++chain)
        golden.expect({.sum_chain = chain * kThreads + thread}, [](const Expected&) {});
    });
  EXPECT_EQ(count, kThreads * kEach);
}

// Of two arithmetics that do not fit together, it keeps the later one.
TEST(RememberingGolden, KeepsNoMoreThanItMay) {
  constexpr int64_t kNumbersOfRow = 9;
  std::atomic<int> count = 0;
  const RememberingGolden one_fits(std::make_unique<CountingGolden>(
      count, int64_t(RememberingGolden::kMostNumbers) / kNumbersOfRow - 20, 1));
  for (const auto& [output, expected] : {std::pair(ATTEST_F32, 1),
                                         {ATTEST_F32, 1},
                                         {ATTEST_F16, 2},
                                         {ATTEST_F16, 2},
                                         {ATTEST_F32, 3}}) {
    chunks_of(one_fits, {.output = output});
    EXPECT_EQ(count, expected);
  }
  count = 0;
  const RememberingGolden large(std::make_unique<CountingGolden>(
      count, int64_t(RememberingGolden::kMostNumbers) / kNumbersOfRow + 1, 1));
  EXPECT_TRUE(chunks_of(large, {}) == chunks_of(large, {}));
  EXPECT_EQ(count, 2);
}

// A chunk of one row takes more than its numbers, of which all would fit.
TEST(RememberingGolden, CountsWhatAChunkTakes) {
  std::atomic<int> count = 0;
  const RememberingGolden golden(std::make_unique<CountingGolden>(count, 1, 20'000));
  for (int n = 0; n < 2; ++n) golden.expect({}, [](const Expected&) {});
  EXPECT_EQ(count, 2);
}

TEST(RememberingGolden, KeepsNothingThatWasRefused) {
  std::atomic<int> count = 0;
  const RememberingGolden golden(std::make_unique<CountingGolden>(count));
  for (int n = 1; n <= 2; ++n) {
    EXPECT_THROW(chunks_of(golden, {.output = ATTEST_F64}), GoldenRefused);
    EXPECT_EQ(count, n);
  }
}

TEST(RememberingGolden, KnowsTheRowsThatItsGoldenKnows) {
  std::atomic<int> count = 0;
  const RememberingGolden golden(std::make_unique<CountingGolden>(count));
  EXPECT_EQ(golden.exact_rows({.sum_chain = 5}, 2), (std::vector<int64_t>{11, 2, 5}));
  EXPECT_EQ(golden.distinct_rows(), 13);
  EXPECT_EQ(golden.independent_rows({.sum_chain = 5}, 2), 205);
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace attest::core
