// Goldens that a device makes, by its kernels run on the host behind a driver that has no device:
// the same numbers as the host's on every feature, and refused wherever a kernel is wrong or the
// device fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "core/device/cuda/cuda_golden.hpp"
#include "core/inputs/golden_store.hpp"
#include "core/operations/softmax/golden/device_row_job.hpp"
#include "core/operations/softmax/golden/device_rows.hpp"
#include "core/operations/softmax/testing/all_cases.hpp"
#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"
#include "testing/named.hpp"

namespace attest::core {
namespace {

using row_job::Job;
using ::testing::AllOf;
using testing::Case;
using ::testing::HasSubstr;

/// The kernels on the host, for problems of any size.
class OnHost : public GoldenDevice {
 public:
  std::string name() const override { return device_.name(); }
  double multiply_adds_per_s() const override { return device_.multiply_adds_per_s(); }
  double worthwhile_multiply_adds() const override { return 0; }
  std::unique_ptr<GoldenQueue> open() const override {
    ++opened;
    return device_.open();
  }
  mutable int opened = 0;

 private:
  static std::span<const std::byte> module() {
    static const std::string text = "library " ATTEST_BINARY_DIR "/tests/golden_kernels_on_host.so";
    return std::as_bytes(std::span(text.c_str(), text.size() + 1));
  }
  CudaGoldenDevice device_{module()};
};

/// A device whose kernels are wrong in one way.
class Twin : public OnHost {
 public:
  using Change = std::function<void(Job&)>;  // of what a kernel is given
  using Spoil = std::function<void(const char* kernel, std::span<double>)>;  // of what comes back
  explicit Twin(Change change, Spoil spoil = {})
      : change_(std::move(change)), spoil_(std::move(spoil)) {}
  std::unique_ptr<GoldenQueue> open() const override {
    return std::make_unique<Queue>(OnHost::open(), *this);
  }

 private:
  class Queue : public GoldenQueue {
   public:
    Queue(std::unique_ptr<GoldenQueue> queue, const Twin& twin)
        : queue_(std::move(queue)), twin_(twin) {}
    void* allocate(size_t bytes) override { return queue_->allocate(bytes); }
    void release(void* data) override { queue_->release(data); }
    void copy_in(void* to, const void* from, size_t bytes) override {
      queue_->copy_in(to, from, bytes);
    }
    void copy_out(void* to, const void* from, size_t bytes) override {
      queue_->copy_out(to, from, bytes);
      if (twin_.spoil_)
        twin_.spoil_(kernel_.c_str(), {static_cast<double*>(to), bytes / sizeof(double)});
    }
    void launch(const char* kernel, size_t blocks, int threads, const void* job) override {
      Job own = *static_cast<const Job*>(job);
      kernel_ = kernel;
      if (twin_.change_) twin_.change_(own);
      queue_->launch(kernel, blocks, threads, &own);
    }

   private:
    std::unique_ptr<GoldenQueue> queue_;
    const Twin& twin_;
    std::string kernel_;
  };
  Change change_;
  Spoil spoil_;
};

// What a golden says of rows, by role and output row.
using Said = std::map<std::pair<int32_t, int64_t>, std::vector<double>>;
struct Told {
  Said value, sigma;
  Told(const Golden& golden, const SoftmaxArithmetic& arithmetic) {
    std::mutex lock;
    golden.expect(arithmetic, [&](const Expected& e) {
      const std::lock_guard guard(lock);
      for (size_t r = 0; e.value && r < e.rows.size(); ++r) {
        const size_t at = e.shared ? 0 : r * size_t(e.width);
        value[{e.role, e.rows[r]}].assign(e.value + at, e.value + at + e.width);
        sigma[{e.role, e.rows[r]}].assign(e.sigma + at, e.sigma + at + e.width);
      }
    });
  }
};

/// The golden of a case as the harness keeps it.
class CaseGolden {
 public:
  CaseGolden(const Case& c, const GoldenDevice& device, bool values_may_follow = false)
      : kept_(
            [&c, values_may_follow](const GoldenDevice* by) {
              return softmax_golden(c.problem, c.tensors, by, values_may_follow);
            },
            &device) {}
  Told told(const SoftmaxArithmetic& arithmetic) {
    return kept_.use([&](const Golden& golden) { return Told(golden, arithmetic); });
  }
  std::string device() {
    return kept_.use([](const Golden& golden) { return golden.device(); });
  }
  std::string method() {
    return kept_.use([](const Golden& golden) { return golden.method(); });
  }
  const std::string& remark() const { return kept_.remark(); }

 private:
  KeptGolden kept_;
};

class GoldenOnDevice : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("ATTEST_CUDA_DRIVER", ATTEST_BINARY_DIR "/tests/fake_cuda.so", 1);
  }
  void TearDown() override { unsetenv("ATTEST_FAKE_CUDA"); }
};

bool near(double got, double wanted, double apart) {
  return got == wanted || (std::isnan(got) && std::isnan(wanted)) ||
         std::fabs(got - wanted) <= apart;
}

const SoftmaxArithmetic kArithmetics[] = {
    {},
    {.probability = ATTEST_F16, .output = ATTEST_F16},
    {.qk = ATTEST_BF16,
     .pv = ATTEST_BF16,
     .score = ATTEST_F16,
     .probability = ATTEST_BF16,
     .output = ATTEST_BF16,
     .ways = ATTEST_SUMS_ROUNDED_P},
    {.qk = ATTEST_BF16, .score = ATTEST_F16, .output = ATTEST_BF16}};
// Beside a small softcap, rounded probabilities are the host's: the first and the last do without.
size_t arithmetic_of(const Case& c, size_t turn) {
  return c.params().softcap > 0 ? (turn % 2) * (std::size(kArithmetics) - 1)
                                : turn % std::size(kArithmetics);
}

TEST_F(GoldenOnDevice, SaysWhatTheHostSays) {
  const OnHost device;
  EXPECT_EQ(device.multiply_adds_per_s(), 4 * 128 * 2e9 / 2) << "a half of float32's";
  int made = 0, cases = -1;
  for (const Case& c : testing::all_cases()) {
    ++cases;
    CaseGolden golden(c, device);
    const auto host = softmax_golden(c.problem, c.tensors);
    const size_t one = arithmetic_of(c, size_t(cases));
    for (size_t n = 0; n < std::size(kArithmetics); ++n) {
      if (one != n && c.name.find("tiles") == c.name.npos) continue;  // one is enough, and quick
      const SoftmaxArithmetic& arithmetic = kArithmetics[n];
      const Told mine = golden.told(arithmetic), theirs(*host, arithmetic);
      if (golden.remark().find("averages") != std::string::npos) continue;  // the host's
      ASSERT_EQ(golden.remark(), "") << c.name;
      ASSERT_EQ(mine.value.size(), theirs.value.size()) << c.name;
      for (const auto& [row, values] : theirs.value)
        for (size_t d = 0; d < values.size(); ++d) {
          const double got = mine.value.at(row)[d], wanted = values[d],
                       sigma = theirs.sigma.at(row)[d];
          ASSERT_TRUE(near(got, wanted, 1e-11 * (1 + std::fabs(wanted))))
              << c.name << " row " << row.second << ": " << got << ", not " << wanted;
          ASSERT_TRUE(near(mine.sigma.at(row)[d], sigma, 1e-6 * sigma))
              << c.name << " row " << row.second << ": sigma " << mine.sigma.at(row)[d] << ", not "
              << sigma;
        }
    }
    EXPECT_EQ(golden.method(), "float64, all rows") << c.name;
    made += golden.device() == "Fake";
    EXPECT_TRUE(golden.device() == "Fake" || golden.device().empty());
  }
  EXPECT_GE(made, 15) << "most features are not declined";
}

// What nearly equal tokens share is found by the host, for operands coarser than float32.
TEST_F(GoldenOnDevice, LeavesCoarseOperandsOfTokensToTheHost) {
  const OnHost device;
  const Case c = testing::make_case("tokens", [](attest_softmax_params& p) { p.seq_len_q = 70; });
  CaseGolden golden(c, device, true);
  golden.told({});
  EXPECT_EQ(golden.device(), "Fake") << golden.remark();
  const SoftmaxArithmetic coarse{.qk = ATTEST_BF16};
  const Told mine = golden.told(coarse),
             theirs(*softmax_golden(c.problem, c.tensors, nullptr, true), coarse);
  EXPECT_EQ(golden.device(), "");
  EXPECT_THAT(golden.remark(), HasSubstr("nearly equal tokens"));
  EXPECT_EQ(mine.sigma, theirs.sigma);
}

// Each of these needs what only the host's passes find.
TEST_F(GoldenOnDevice, LeavesCoarseArithmeticToTheHost) {
  const OnHost device;
  const auto expect_refused = [&](const SoftmaxArithmetic& coarse, const char* why, float softcap) {
    const Case c = testing::make_case("coarse", [=](attest_softmax_params& p) {
      p.seq_len_q = 70;
      p.softcap = softcap;
    });
    CaseGolden golden(c, device);
    const Told mine = golden.told(coarse), theirs(*softmax_golden(c.problem, c.tensors), coarse);
    EXPECT_EQ(golden.device(), "");
    EXPECT_THAT(golden.remark(), HasSubstr(why));
    EXPECT_EQ(mine.sigma, theirs.sigma);
  };
  expect_refused({.accumulator = ATTEST_F16}, "coarse sums", 0);
  expect_refused({.qk = ATTEST_F8E4M3}, "exp is not linear", 0);
  expect_refused({.probability = ATTEST_F8E4M3}, "nearly equal probabilities", 0);
  expect_refused({.probability = ATTEST_BF16}, "nearly equal probabilities", 0.7f);
}

// A bias brings all scores far from 0, where bf16 has few numbers.
TEST_F(GoldenOnDevice, LeavesRowsThatOnlyHaveToBeAveragesToTheHost) {
  const OnHost device;
  const Case c =
      testing::make_case("far", [](attest_softmax_params& p) { p.seq_len_q = 70; }, {ATTEST_BIAS});
  const Tensor& bias = c.tensors[ATTEST_BIAS];
  for (int64_t n = 0; n < element_count(bias.spec); ++n)
    store(bias.data, bias.spec.dtype, n, -1024);
  CaseGolden golden(c, device);
  golden.told({});
  EXPECT_EQ(golden.device(), "Fake") << golden.remark();
  const SoftmaxArithmetic coarse{.score = ATTEST_BF16};
  const Told mine = golden.told(coarse), theirs(*softmax_golden(c.problem, c.tensors), coarse);
  EXPECT_EQ(golden.device(), "");
  EXPECT_THAT(golden.remark(), HasSubstr("averages"));
  EXPECT_EQ(mine.sigma, theirs.sigma);
}

// Values that make infinities and NaN: in V where it is seen and where it is hidden, in a key, in a
// bias that hides.
TEST_F(GoldenOnDevice, KnowsInfinitiesAndNaN) {
  const OnHost device;
  Case c = testing::make_case("wild",
                              [](attest_softmax_params& p) {
                                p.seq_len_q = 70;
                                p.seq_len_kv = 130;
                                p.window_right = 0;
                              },
                              {ATTEST_MASK, ATTEST_BIAS, ATTEST_LSE});
  const auto set = [&](int32_t role, int64_t index, double value) {
    store(c.tensors[size_t(role)].data, c.tensors[size_t(role)].spec.dtype, index, value);
  };
  set(ATTEST_V, 20 * 8 + 3, INFINITY);
  set(ATTEST_V, 21 * 8 + 3, -INFINITY);
  set(ATTEST_V, 22 * 8 + 1, NAN);
  set(ATTEST_V, 129 * 8, NAN);
  set(ATTEST_K, 60 * 8 + 2, NAN);
  set(ATTEST_K, 129 * 8 + 2, NAN);
  set(ATTEST_BIAS, 30 * 130 + 4, -INFINITY);
  CaseGolden golden(c, device);
  const auto host = softmax_golden(c.problem, c.tensors);
  const Told mine = golden.told({}), theirs(*host, {});
  EXPECT_EQ(golden.device(), "Fake") << golden.remark();
  int wild = 0;
  for (const auto& [row, values] : theirs.value)
    for (size_t d = 0; d < values.size(); ++d) {
      wild += !std::isfinite(values[d]);
      EXPECT_TRUE(near(mine.value.at(row)[d], values[d], 1e-11))
          << row.second << ": " << mine.value.at(row)[d] << ", not " << values[d];
    }
  EXPECT_GT(wild, 50);
}

// Many keys, values that grow far beyond what is left of them in the end, large scores: sums of
// another order still agree.
TEST_F(GoldenOnDevice, LongRowsAgree) {
  const OnHost device;
  for (const double scale : {1.0, 40.0}) {
    Case c = testing::make_case("long",
                                [](attest_softmax_params& p) {
                                  p.num_heads = 1;
                                  p.seq_len_q = 9;
                                  p.seq_len_kv = 20011;
                                  p.head_dim = 16;
                                },
                                {ATTEST_LSE});
    for (int64_t n = 0; n < 20011 * 16; ++n)
      store(c.tensors[ATTEST_V].data, ATTEST_F32, n,
            100 * std::sin(double(n / 16) * 2 * M_PI / 20011) + double(n % 7));
    for (int64_t n = 0; n < 9 * 16; ++n)
      store(c.tensors[ATTEST_Q].data, ATTEST_F32, n,
            scale * load(c.tensors[ATTEST_Q].data, ATTEST_F32, n));
    CaseGolden golden(c, device);
    const Told told = golden.told({});
    EXPECT_EQ(golden.device(), "Fake") << golden.remark();
    EXPECT_EQ(told.value.size(), 18u);
  }
}

TEST_F(GoldenOnDevice, IsNotAskedForWhatItDoesNotKnow) {
  const OnHost device;
  const Case grid = testing::make_case("grid", [](attest_softmax_params& p) {
    p.grid_height = 4;
    p.grid_width = 4;
    p.window_height = 2;
    p.window_width = 2;
    p.seq_len_q = 16;
  });
  const Case wide = testing::make_case("wide", [](attest_softmax_params& p) { p.head_dim = 264; });
  Case equal = testing::make_case("equal", [](attest_softmax_params&) {});
  std::memcpy(equal.tensors[ATTEST_K].data,
              static_cast<char*>(equal.tensors[ATTEST_K].data) + 8 * sizeof(float),
              8 * sizeof(float));
  for (const Case* c : std::initializer_list<const Case*>{&grid, &wide, &equal}) {
    CaseGolden golden(*c, device);
    EXPECT_EQ(golden.device(), "") << c->name;
    EXPECT_EQ(golden.remark(), "") << c->name << " is no refusal";
  }
  EXPECT_EQ(device.opened, 0);
}

// The same bits, whatever else is done.
TEST_F(GoldenOnDevice, SaysTheSameAgain) {
  const OnHost device;
  const Case c = testing::make_case("again",
                                    [](attest_softmax_params& p) {
                                      p.seq_len_q = 40;
                                      p.seq_len_kv = 300;
                                    },
                                    {ATTEST_LSE});
  const Told first(*softmax_golden(c.problem, c.tensors, &device), {}),
      second(*softmax_golden(c.problem, c.tensors, &device), {});
  EXPECT_EQ(first.value, second.value);
  EXPECT_EQ(first.sigma, second.sigma);
}

struct Wrong {
  const char* name;
  const char* found;  // in the remark
  Twin::Change change;
  Twin::Spoil spoil;
};
void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

void to_float(std::span<double> numbers) {
  for (double& number : numbers) number = double(float(number));
}

class WrongDevice : public GoldenOnDevice, public ::testing::WithParamInterface<Wrong> {};

// It says nothing that is not the host's: the same rows, values and sigmas as without a device.
TEST_P(WrongDevice, IsRefused) {
  const Twin device(GetParam().change, GetParam().spoil);
  const Case c = testing::make_case("refused",
                                    [](attest_softmax_params& p) {
                                      p.seq_len_q = 70;
                                      p.seq_len_kv = 150;
                                      p.softcap = 20;
                                      p.window_left = 90;
                                    },
                                    {ATTEST_MASK, ATTEST_LSE});
  CaseGolden golden(c, device);
  const auto host = softmax_golden(c.problem, c.tensors);
  const Told mine = golden.told({}), theirs(*host, {});
  EXPECT_THAT(golden.remark(),
              AllOf(HasSubstr("the golden is the host's; that of Fake was refused: "),
                    HasSubstr(GetParam().found)));
  EXPECT_EQ(golden.device(), "");
  EXPECT_EQ(mine.value, theirs.value);
  EXPECT_EQ(mine.sigma, theirs.sigma);
}

bool is_sums(const char* kernel) { return std::string_view(kernel) == row_job::kSumsKernel; }

INSTANTIATE_TEST_SUITE_P(
    Twins, WrongDevice,
    ::testing::Values(
        Wrong{"drops_the_mask",
              "the number of keys of row 0 of head 0 of sequence 0",
              [](Job& job) { job.in.mask.data = nullptr; },
              {}},
        Wrong{"forgets_the_softcap",
              "the log-sum-exp of row 0",
              [](Job& job) { job.in.softcap = 0; },
              {}},
        Wrong{"takes_the_next_row",
              "of row 0 of head 0",
              {},
              [](const char* kernel, std::span<double> numbers) {
                if (!is_sums(kernel))
                  std::rotate(numbers.begin(), numbers.begin() + row_job::kScores, numbers.end());
              }},
        Wrong{"takes_the_next_rows_sums",
              "o[0] of row 0 of head 0",
              {},
              [](const char* kernel, std::span<double> numbers) {
                if (is_sums(kernel))
                  std::rotate(numbers.begin(), numbers.begin() + row_job::sums_of_row(8),
                              numbers.end());
              }},
        Wrong{"takes_one_channel_of_queries",
              "the log-sum-exp",
              [](Job& job) { job.in.q.stride = 0; },
              {}},
        Wrong{"takes_one_channel_of_values",
              "o[1] of row 0",
              [](Job& job) { job.in.v.stride = 0; },
              {}},
        Wrong{"lowers_the_least_score",
              "the least score",
              {},
              [](const char* kernel, std::span<double> numbers) {
                if (!is_sums(kernel)) numbers[row_job::kLeast] -= 1e-6;
              }},
        Wrong{"raises_the_largest_score",
              "the largest score",
              {},
              [](const char* kernel, std::span<double> numbers) {
                if (!is_sums(kernel)) {
                  numbers[row_job::kLargest] += 1e-6;
                  numbers[row_job::kSum] *= std::exp(-1e-6);
                }
              }},
        Wrong{"sums_exp_in_float",
              "the log-sum-exp",
              {},
              [](const char* kernel, std::span<double> numbers) {
                if (!is_sums(kernel))
                  for (size_t n = row_job::kSum; n < numbers.size(); n += row_job::kScores)
                    to_float(numbers.subspan(n, 1));
              }},
        Wrong{"sums_values_in_float",
              "o[0] of row 0",
              {},
              [](const char* kernel, std::span<double> numbers) {
                if (is_sums(kernel)) to_float(numbers);
              }},
        Wrong{"forgets_what_scores_err_by",
              "sigma[0] of row 0",
              [](Job& job) {
                job.model.score2 = 0;
                job.model.q1 = 0;
                job.model.q2 = 0;
              },
              {}},
        Wrong{"loses_the_last_row",
              "of row 69 of head 1",
              {},
              [](const char* kernel, std::span<double> numbers) {
                if (is_sums(kernel))
                  std::fill(numbers.end() - row_job::sums_of_row(8), numbers.end(), 0.0);
              }}),
    [](const auto& each) { return std::string(each.param.name); });

// A sum that is a thousandth too large is found, whichever it is, by an arithmetic whose sigma
// needs it; but for that of p^2, which nothing follows from.
TEST_F(GoldenOnDevice, EverySumIsChecked) {
  const SoftmaxArithmetic arithmetics[] = {
      {.qk = ATTEST_BF16,
       .score = ATTEST_F16,
       .probability = ATTEST_F16,
       .output = ATTEST_F32,
       .ways = ATTEST_FLUSHES_SUBNORMALS},
      {},
      {.probability = ATTEST_BF16, .ways = ATTEST_SUMS_ROUNDED_P},
      {.probability = ATTEST_F8E4M3, .ways = ATTEST_FLUSHES_SUBNORMALS | ATTEST_P_TRUNCATED},
      {.qk = ATTEST_F16,
       .score = ATTEST_F16,
       .probability = ATTEST_F16,
       .output = ATTEST_F32,
       .ways = ATTEST_SUMS_ROUNDED_P}};
  Case c = testing::make_case(
      "sums",
      [](attest_softmax_params& p) {
        p.num_heads = 1;
        p.seq_len_q = 4;
        p.seq_len_kv = 90;
        p.softcap = 30;
        p.softmax_scale = 0.249f;
      },
      {ATTEST_BIAS, ATTEST_LSE}, ATTEST_BF16);
  c = testing::broadcast(std::move(c), ATTEST_BIAS, {3});
  // Near 0: of what is far from it the host computes sigma.
  for (int64_t i = 0; i < 4; ++i)
    store(c.tensors[ATTEST_BIAS].data, ATTEST_BF16, i, 4 - 3 * double(i));
  // Row 2 has scores at the softcap; in row 3 one key takes the weight, and the others are alike.
  constexpr double kFactors[] = {8, 8, 64, 0.5};
  for (int64_t i = 0; i < 4 * 8; ++i) {
    const double x = kFactors[i / 8] * load(c.tensors[ATTEST_Q].data, ATTEST_BF16, i);
    store(c.tensors[ATTEST_Q].data, ATTEST_BF16, i, x);
    if (i >= 3 * 8) store(c.tensors[ATTEST_K].data, ATTEST_BF16, 89 * 8 + i - 3 * 8, 12 * x);
  }
  // Runs of lost keys, whose partial sums are looked at after key 63, that nearly cancel.
  for (int64_t j = 0; j < 90; ++j)
    for (int64_t d = 0; d < 8; ++d) {
      const double noise = load(c.tensors[ATTEST_V].data, ATTEST_BF16, 8 * j + d);
      store(c.tensors[ATTEST_V].data, ATTEST_BF16, 8 * j + d,
            j == 89 ? 0 : (j < 64 ? 3 : -7.5) * (d % 2 ? 1 : -1) + 0.1 * noise);
    }
  const size_t width = size_t(row_job::sums_of_row(8));
  for (size_t n = 0; n < size_t(row_job::kSums) + size_t(row_job::kVectors); ++n) {
    const size_t begin = n < row_job::kSums ? n : row_job::kSums + (n - row_job::kSums) * 8,
                 end = n < row_job::kSums ? begin + 1 : begin + 8;
    const Twin device({}, [&](const char* kernel, std::span<double> numbers) {
      for (size_t row = 0; is_sums(kernel) && row < numbers.size(); row += width)
        for (size_t i = begin; i < end; ++i) numbers[row + i] *= 1.001;
    });
    CaseGolden golden(c, device);
    for (const SoftmaxArithmetic& arithmetic : arithmetics) golden.told(arithmetic);
    EXPECT_EQ(golden.remark().empty(), n == row_job::kP2)  // no arithmetic here needs that one
        << "number " << n << " of a row: " << golden.remark();
  }
}

// What the device says of its faults is in the remark.
TEST_F(GoldenOnDevice, FaultsAreTheHostsWork) {
  const Case c = testing::make_case("fault", [](attest_softmax_params&) {}, {ATTEST_LSE});
  const std::pair<const char*, const char*> faults[] = {
      {"fault", "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
      {"no-room", "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"},
      {"no-ptx", "cuModuleLoadData: CUDA_ERROR_INVALID_PTX"}};
  const Told theirs(*softmax_golden(c.problem, c.tensors), {});
  for (const auto& [fault, words] : faults) {
    setenv("ATTEST_FAKE_CUDA", fault, 1);
    const OnHost device;
    CaseGolden golden(c, device);
    EXPECT_EQ(golden.told({}).value, theirs.value);
    EXPECT_THAT(golden.remark(), HasSubstr(words));
    EXPECT_EQ(golden.device(), "");
  }
}

// From the second pass on too, when there has been a golden already.
TEST_F(GoldenOnDevice, MayBeRefusedLater) {
  bool wrong = false;
  const Twin device([&](Job& job) { job.model.score2 *= wrong ? 2 : 1; });
  const Case c = testing::make_case("later", [](attest_softmax_params&) {}, {ATTEST_LSE});
  CaseGolden golden(c, device);
  const auto host = softmax_golden(c.problem, c.tensors);
  const Told first = golden.told({});
  EXPECT_EQ(golden.device(), "Fake");
  wrong = true;
  const SoftmaxArithmetic half{.score = ATTEST_F16, .output = ATTEST_F16};
  const Told second = golden.told(half);
  EXPECT_THAT(golden.remark(), HasSubstr("sigma["));
  EXPECT_EQ(second.sigma, Told(*host, half).sigma);
}

// A device makes rows that the host would have left out, and is not asked where the host makes all.
TEST_F(GoldenOnDevice, JudgesMoreRows) {
  class Large : public OnHost {
   public:
    double worthwhile_multiply_adds() const override { return 1e6; }
  } device;
  const auto set = [](attest_softmax_params& p) {
    p.num_heads = 1;
    p.seq_len_q = 33;
    p.seq_len_kv = 1500;
    p.head_dim = 16;
  };
  const Case large = testing::make_case("large", set, {});
  const Case small = testing::make_case("small",
                                        [&](auto& p) {
                                          set(p);
                                          p.seq_len_kv = 100;
                                        },
                                        {});
  EXPECT_EQ(softmax_golden(large.problem, large.tensors, &device)->device(), "Fake");
  EXPECT_EQ(softmax_golden(small.problem, small.tensors, &device)->device(), "");
  EXPECT_EQ(device.opened, 1);
  const RowBudget budget = DeviceRows::budget(device);
  EXPECT_GT(budget.sampled, RowBudget{}.sampled);
  EXPECT_GT(budget.elements, RowBudget{}.elements);
}

// The record has it; an implementation is judged by it as by the host's.
TEST_F(GoldenOnDevice, IsInTheRecord) {
  const OnHost device;
  const Twin twin([](Job& job) { job.in.v.stride = 0; });
  Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/naive_minimal.so",
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  const auto run = [&](const GoldenDevice* golden) {
    RunOptions options{.relations = RelationChoice::kNone, .timed = false, .golden_device = golden};
    return attest::testing::run_named(plugin, "naive_minimal",
                                      "softmax num_heads=2 seq_len_q=40 head_dim=16", options);
  };
  const Record without = run(nullptr), with = run(&device), refused = run(&twin);
  for (const Record* record : {&without, &with, &refused})
    EXPECT_EQ(record->outcome.verdict(), Verdict::kPass) << record->outcome.reason;
  EXPECT_FALSE(without.fills[0].judgement.golden_device);
  EXPECT_EQ(with.fills[0].judgement.golden_device, "Fake");
  EXPECT_FALSE(with.fills[1].judgement.golden_device) << with.fills[1].fill << " has a closed form";
  EXPECT_NEAR(with.fills[0].judgement.max_ratio, without.fills[0].judgement.max_ratio, 1e-6);
  EXPECT_FALSE(refused.fills[0].judgement.golden_device);
  EXPECT_THAT(refused.notes, ::testing::Contains(AllOf(HasSubstr("that of Fake was refused: o["),
                                                       HasSubstr("(fill random)"))));
  EXPECT_EQ(refused.fills[0].judgement.max_ratio, without.fills[0].judgement.max_ratio);
}

// A row that nobody has checked is made on the host before anything is failed by it.
TEST_F(GoldenOnDevice, FailsNobodyByARowThatTheHostMakesOtherwise) {
  Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/naive_minimal.so",
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  const RunOptions plain{.fills = {"random"}, .relations = RelationChoice::kNone, .timed = false};
  const auto run = [&](const RunOptions& options, const std::string& spec) {
    return attest::testing::run_named(plugin, "naive_minimal", spec, options);
  };
  const std::string spec = "softmax seq_len_q=200 seq_len_kv=30 head_dim=8 lse";
  for (const double wrong : {3.0, double(NAN)}) {
    const Twin device({}, [&](const char* kernel, std::span<double> numbers) {
      if (is_sums(kernel))
        numbers[size_t(row_job::sums_of_row(8)) + row_job::kSums + 5] = wrong;  // row 1, channel 5
    });
    RunOptions options = plain;
    options.golden_device = &device;
    const Record record = run(options, spec);
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
    EXPECT_THAT(record.notes, ::testing::Contains(AllOf(HasSubstr("was refused: "),
                                                        HasSubstr("] of row 1 of head 0"))));
    EXPECT_EQ(record.fills[0].judgement.max_ratio, run(plain, spec).fills[0].judgement.max_ratio);
  }
}

}  // namespace
}  // namespace attest::core
