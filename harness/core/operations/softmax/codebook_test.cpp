// The codebook fill: its closed form against long double key by key, its sigma against honest kernels and lost keys.
#include "core/operations/softmax/codebook.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "core/operations/softmax/codebook_rows.hpp"
#include "core/operations/softmax/softmax.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

// A problem with memory behind every tensor.
struct Case {
  Problem problem;
  Fill fill;
  std::array<std::vector<char>, ATTEST_ROLES> memory;
  Tensors tensors{};

  Case(DType dtype, Fill inputs, const std::function<void(Params&)>& change, std::vector<int32_t> optional = {})
      : problem(blank_problem(softmax_operation(), dtype)), fill(std::move(inputs)) {
    change(problem.as<Params>());
    softmax_operation().complete(problem);
    for (const int32_t role : optional) {
      const DType own = find_role(softmax_operation(), role)->dtype;
      const std::vector<int64_t> shape = softmax_operation().dims(problem, role);
      problem.tensor[size_t(role)] =
          dense_tensor(own != ATTEST_NONE ? own : dtype, find_role(softmax_operation(), role)->access, shape);
    }
    finish_problem(problem);
    for (size_t role = 0; role < ATTEST_ROLES; ++role) {
      memory[role].resize(size_t(extent_bytes(problem.tensor[role])));
      tensors[role] = {problem.tensor[role], memory[role].data()};
    }
    softmax_operation().fill(problem, fill, tensors, false);
  }
  const Params& p() const { return problem.as<Params>(); }
  const TensorSpec& spec(size_t role) const { return problem.tensor[role]; }
  std::unique_ptr<Golden> golden() const { return codebook_golden(problem, fill, tensors); }
  std::vector<double> row(size_t role, int64_t outer, int64_t head, int64_t r) const {
    const TensorSpec& s = spec(role);
    std::vector<double> values(size_t(s.dim[3]));
    load_row(tensors[role].data, s.dtype, outer * s.stride[0] + head * s.stride[1] + r * s.stride[2], s.dim[3], s.stride[3],
             values.data());
    return values;
  }
};

// All expectations, unshared, by row.
struct Expectations {
  std::map<int64_t, std::vector<double>> value, sigma;

  Expectations(const Golden& golden, const Arithmetic& arithmetic, int32_t role) {
    std::mutex lock;
    golden.expect(arithmetic, [&](const Expected& chunk) {
      if (chunk.role != role) return;
      const std::lock_guard guard(lock);
      for (size_t r = 0; r < chunk.rows.size(); ++r) {
        const size_t at = chunk.shared ? 0 : r * size_t(chunk.width);
        EXPECT_TRUE(value.emplace(chunk.rows[r], std::vector(chunk.value + at, chunk.value + at + chunk.width)).second)
            << "row " << chunk.rows[r] << " twice";
        sigma.emplace(chunk.rows[r], std::vector(chunk.sigma + at, chunk.sigma + at + chunk.width));
      }
    });
  }
};

// One row from its keys, in long double, key by key; what it needs to know of the layout comes in as cells.
struct Brute {
  std::vector<double> o, sigma;
  double lse, lse_sigma;

  Brute(const Case& c, const SigmaModel& model, int64_t h, Cell query, const std::vector<Cell>& keys)
      : o(size_t(c.p().head_dim_v)), sigma(o.size()), lse(-INFINITY), lse_sigma(0) {
    using Real = long double;
    const Params& p = c.p();
    const int64_t hk = h / (p.num_heads / p.num_kv_heads);
    const std::vector<double> q = c.row(ATTEST_Q, query.outer, h, query.row);
    std::vector<Real> s;
    std::vector<double> magnitude;
    std::vector<std::vector<double>> v;
    for (const Cell& key : keys) {
      const std::vector<double> k = c.row(ATTEST_K, key.outer, hk, key.row);
      Real dot = 0, a = 0, b2 = 0;
      for (size_t d = 0; d < q.size(); ++d) {
        const Real product = Real(q[d]) * Real(k[d]) * Real(p.softmax_scale);
        dot += product, a += std::fabs(product), b2 += product * product;
      }
      const Real bent = p.softcap > 0 ? std::tanh(dot / Real(p.softcap)) : 0, slope = 1 - bent * bent;
      s.push_back(p.softcap > 0 ? Real(p.softcap) * bent : dot);
      magnitude.push_back(double(model.squares() ? b2 * slope * slope : a * slope));
      v.push_back(c.row(ATTEST_V, key.outer, hk, key.row));
    }
    Real top = -INFINITY, total = 0;
    for (const Real x : s) top = std::max(top, x);
    for (const Real x : s) total += std::exp(x - top);
    if (!keys.empty()) lse = double(top + std::log(total));
    const double kappa = keys.empty() ? 0 : model.kappa(double(top), lse);
    std::vector<Real> weight;
    std::map<double, std::vector<size_t>> groups;
    for (size_t j = 0; j < s.size(); ++j) {
      weight.push_back(std::exp(s[j] - top) / total);
      groups[double(s[j])].push_back(j);
    }
    LseSums lse_sums{.lse = lse};
    std::vector<double> p_of, count_of;
    for (const auto& [score, members] : groups)
      p_of.push_back(double(weight[members[0]])), count_of.push_back(double(members.size()));
    const auto n = int64_t(keys.size());
    const double repeated = n == 0 ? 0 : codebook::repeated_variance(p_of, count_of, model.u_acc, model.chain(n), double(n));
    lse_sums.score = repeated;
    for (size_t e = 0; e < o.size(); ++e) {
      Real sum = 0;
      for (size_t j = 0; j < s.size(); ++j) sum += weight[j] * Real(v[j][e]);
      o[e] = double(sum);
      ElementSums sums{.o = o[e], .score = repeated * o[e] * o[e]};
      for (const auto& [score, members] : groups) {
        double rounded = 0, moved = 0, share = 0, apart = 0;
        for (const size_t j : members) {
          const auto w = double(weight[j]);
          rounded += (model.u_p * w + model.eta_p * kappa) * (v[j][e] - model.theta * o[e]);
          moved += w * (v[j][e] - o[e]), share += w, apart += w * w * (v[j][e] - o[e]) * (v[j][e] - o[e]);
          sums.p2v2 += w * w * v[j][e] * v[j][e];
          if ((model.normalised_first ? w : w * double(total)) < model.flush_below) sums.flushed += w * v[j][e];
        }
        const double m = magnitude[members[0]];
        sums.rounding += rounded * rounded, sums.score += moved * moved * model.score_variance(score, m) + apart * model.accumulation_variance(score, m);
        if (e == 0)
          lse_sums.p2 += share * share,
              lse_sums.score += share * share * ((model.u_s * model.u_s + model.growth()) * score * score + model.qk_variance(m));
      }
      sigma[e] = model.element_sigma(sums, int64_t(keys.size()));
    }
    if (!keys.empty()) lse_sigma = model.lse_sigma(lse_sums, int64_t(keys.size()));
  }
};

void expect_equal(const Case& c, const Brute& brute, int64_t row, const Expectations& o, const Expectations& lse) {
  ASSERT_TRUE(o.value.contains(row));
  for (size_t e = 0; e < brute.o.size(); ++e) {
    ASSERT_NEAR(o.value.at(row)[e], brute.o[e], 1e-14) << "row " << row << " element " << e;
    ASSERT_NEAR(o.sigma.at(row)[e], brute.sigma[e], 1e-8 * brute.sigma[e]) << "row " << row << " element " << e;
  }
  if (!c.tensors[ATTEST_LSE]) return;
  if (std::isinf(brute.lse)) {
    ASSERT_EQ(lse.value.at(row)[0], -INFINITY);
    return;
  }
  ASSERT_NEAR(lse.value.at(row)[0], brute.lse, 1e-13) << "row " << row;
  ASSERT_NEAR(lse.sigma.at(row)[0], brute.lse_sigma, 1e-9 * brute.lse_sigma) << "row " << row;
}

const Arithmetic kArithmetics[] = {
    {.output = ATTEST_F32},
    {.qk = ATTEST_BF16,
     .pv = ATTEST_BF16,
     .probability = ATTEST_BF16,
     .output = ATTEST_BF16,
     .flags = ATTEST_SUMS_ROUNDED_P,
     .sum_chain = 64},
    {.score = ATTEST_F16,
     .probability = ATTEST_F16,
     .output = ATTEST_F16,
     .flags = ATTEST_P_NORMALISED_FIRST | ATTEST_P_TRUNCATED | ATTEST_FLUSHES_SUBNORMALS},
};

// Every row of every sequence, where `sees(i, j)` is the definition of attest.h written down again.
void check_all(const Case& c, const std::function<bool(int64_t, int64_t)>& sees, int64_t step = 1) {
  const Geometry geometry(c.problem, c.tensors);
  for (const Arithmetic& arithmetic : kArithmetics) {
    const SigmaModel model(arithmetic, c.problem.dtype, c.p().head_dim);
    const auto golden = c.golden();
    const Expectations o(*golden, arithmetic, ATTEST_O), lse(*golden, arithmetic, ATTEST_LSE);
    EXPECT_EQ(int64_t(o.value.size()), row_count(c.spec(ATTEST_O), 3));
    EXPECT_EQ(int64_t(lse.value.size()), row_count(c.spec(ATTEST_LSE), 3));
    for (int64_t b = 0; b < geometry.batch(); ++b)
      for (int64_t i = 0; i < geometry.length_q(b); i += step)
        for (int64_t h = 0; h < c.p().num_heads; ++h) {
          std::vector<Cell> keys;
          for (int64_t j = 0; j < geometry.length_kv(b); ++j)
            if (sees(i, j)) keys.push_back(geometry.key(b, j));
          expect_equal(c, Brute(c, model, h, geometry.query(b, i), keys), geometry.output_row(b, h, i), o, lse);
          if (testing::Test::HasFatalFailure()) return;
        }
  }
}

bool everything(int64_t, int64_t) { return true; }

TEST(Codebook, DenseIsExact) {
  const DType dtypes[] = {ATTEST_F32, ATTEST_F16, ATTEST_BF16};
  const int64_t head_dims[] = {24, 64, 72};
  for (size_t k = 0; k < 3; ++k)
    for (const char* name : {"codebook", "codebook_peaked"}) {
      SCOPED_TRACE(name);
      check_all(Case(dtypes[k], {name, 7}, [&](Params& p) { p.seq_len_q = 300, p.seq_len_kv = 515, p.head_dim = head_dims[k]; },
                     {ATTEST_LSE}),
                everything, 7);
      check_all(Case(dtypes[(k + 1) % 3], {name, 8},
                     [&](Params& p) { p.seq_len_q = 3, p.seq_len_kv = 1 + int64_t(k), p.head_dim = head_dims[k]; }, {ATTEST_LSE}),
                everything);
    }
}

TEST(Codebook, HeadsBatchesAndSoftcapAreExact) {
  check_all(Case(ATTEST_F16, {"codebook", 1},
                 [](Params& p) {
                   p.batch = 2, p.num_heads = 4, p.num_kv_heads = 2, p.seq_len_q = 70, p.seq_len_kv = 131, p.head_dim = 24,
                   p.head_dim_v = 13;
                 },
                 {ATTEST_LSE}),
            everything, 5);
  check_all(Case(ATTEST_BF16, {"codebook_peaked", 2},
                 [](Params& p) { p.num_heads = 2, p.seq_len_q = 70, p.head_dim = 64, p.softcap = 15; }, {ATTEST_LSE}),
            everything, 5);
  check_all(
      Case(ATTEST_F32, {"codebook_peaked", 3}, [](Params& p) { p.seq_len_q = 70, p.head_dim = 64, p.softmax_scale = -0.7f; }),
      everything, 5);
}

TEST(Codebook, CausalIsExact) {
  for (const int64_t seq_len_kv : {200, 130, 61})
    for (const int32_t diagonal : {int32_t{ATTEST_TOP_LEFT}, int32_t{ATTEST_BOTTOM_RIGHT}})
      for (const int64_t offset : {0, 5, -9}) {
        const int64_t shift = offset + (diagonal == ATTEST_BOTTOM_RIGHT ? seq_len_kv - 130 : 0);
        check_all(
            Case(ATTEST_F16, {"codebook", 4},
                 [&](Params& p) {
                   p.seq_len_q = 130, p.seq_len_kv = seq_len_kv, p.head_dim = 24, p.window_right = 0, p.diagonal = diagonal,
                   p.diagonal_offset = offset;
                 },
                 {ATTEST_LSE}),
            [=](int64_t i, int64_t j) { return j <= i + shift; }, 3);
      }
}

TEST(Codebook, WindowsAreExact) {
  for (const auto& [left, right] : {std::pair<int64_t, int64_t>{16, 0}, {8, 8}, {0, 0}, {-1, 20}, {70, -1}})
    check_all(
        Case(
            ATTEST_BF16, {"codebook", 4},
            [&](Params& p) { p.num_heads = 2, p.seq_len_q = 150, p.head_dim = 24, p.window_left = left, p.window_right = right; },
            {ATTEST_LSE}),
        [=](int64_t i, int64_t j) { return (left < 0 || j >= i - left) && (right < 0 || j <= i + right); }, 3);
}

TEST(Codebook, PatchesInOrderAreExact) {
  for (const int64_t tokens : {1000, 96, 40}) {
    const Case c(ATTEST_F16, {"codebook_peaked", 5}, [&](Params& p) { p.seq_len_q = tokens, p.head_dim = 24, p.patch_size = 96; },
                 {ATTEST_ORDER, ATTEST_LSE});
    check_all(
        c,
        [=](int64_t i, int64_t j) {
          const int64_t begin = i / 96 * 96, end = begin + 96;
          return j < end && j >= (end > tokens ? std::max<int64_t>(0, tokens - 96) : begin);
        },
        11);
  }
  // Patches that are long beside the codebook: rows share their expectations.
  check_all(
      Case(ATTEST_F32, {"codebook", 6}, [](Params& p) { p.seq_len_q = 1500, p.head_dim = 8, p.patch_size = 600; },
           {ATTEST_ORDER}),
      [](int64_t i, int64_t j) { return i < 1200 ? i / 600 == j / 600 : j >= 900; }, 97);
}

TEST(Codebook, SequencesAndPagesAreExact) {
  check_all(Case(ATTEST_F16, {"codebook", 5},
                 [](Params& p) {
                   p.batch = 4, p.num_heads = 2, p.num_kv_heads = 1, p.seq_len_q = 60, p.seq_len_kv = 90, p.head_dim = 24;
                 },
                 {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_LSE}),
            everything, 3);
  check_all(
      Case(ATTEST_F16, {"codebook", 5}, [](Params& p) { p.batch = 3, p.seq_len_q = 60, p.seq_len_kv = 90, p.head_dim = 24; },
           {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_LSE}),
      everything, 3);
  check_all(Case(ATTEST_BF16, {"codebook", 5},
                 [](Params& p) { p.batch = 3, p.seq_len_q = 9, p.seq_len_kv = 90, p.head_dim = 24, p.page_size = 16; },
                 {ATTEST_SEQ_LENS_KV, ATTEST_PAGE_TABLE}),
            everything);
  check_all(
      Case(ATTEST_F16, {"codebook", 5},
           [](Params& p) {
             p.batch = 2, p.seq_len_q = p.seq_len_kv = 12 * 16, p.head_dim = 24, p.grid_height = 12, p.grid_width = 16,
             p.window_height = p.window_width = 4, p.shift_y = 1, p.shift_x = 2;
           }),
      [](int64_t i, int64_t j) { return i / 16 == j / 16; }, 7);
}

// The golden for any inputs takes the same ones for what they are.
TEST(Codebook, AgreesWithTheFullGolden) {
  const Case c(ATTEST_F16, {"codebook", 9},
               [](Params& p) {
                 p.num_heads = 2, p.seq_len_q = 90, p.seq_len_kv = 300, p.head_dim = 64, p.window_right = 0,
                 p.diagonal = ATTEST_BOTTOM_RIGHT, p.softcap = 6;
               },
               {ATTEST_LSE});
  const auto full = softmax_golden(c.problem, c.tensors);
  for (const Arithmetic& arithmetic : kArithmetics) {
    int64_t compared = 0;
    std::mutex lock;
    const std::map<int32_t, Expectations> closed{{ATTEST_O, {*c.golden(), arithmetic, ATTEST_O}},
                                                 {ATTEST_LSE, {*c.golden(), arithmetic, ATTEST_LSE}}};
    full->expect(arithmetic, [&](const Expected& chunk) {
      if (!chunk.value) return;
      const std::lock_guard guard(lock);
      for (size_t r = 0; r < chunk.rows.size(); ++r)
        for (size_t e = 0; e < size_t(chunk.width); ++e, ++compared) {
          const size_t at = (chunk.shared ? 0 : r * size_t(chunk.width)) + e;
          const Expectations& mine = closed.at(chunk.role);
          ASSERT_NEAR(mine.value.at(chunk.rows[r])[e], chunk.value[at], 1e-13);
          // Equal summands show in float32 only: repeated_variance.
          const double ratio = mine.sigma.at(chunk.rows[r])[e] / chunk.sigma[at],
                       most = arithmetic.output == ATTEST_F32 || chunk.role == ATTEST_LSE ? 1.5 : 1.02;
          // The full golden allows for values that follow keys and places (ElementSums::reach, LseSums::square); codes are random.
          const double least = arithmetic.output == ATTEST_F16 ? 0.98 : 0.3;
          ASSERT_TRUE(ratio > least && ratio < most) << ratio << " role " << chunk.role << " row " << chunk.rows[r];
        }
    });
    EXPECT_GE(compared, 1000);
  }
}

TEST(Codebook, HasNoneWherePairsDiffer) {
  for (const int32_t role : {int32_t{ATTEST_MASK}, int32_t{ATTEST_BIAS}})
    EXPECT_TRUE(
        codebook_fills(Case(ATTEST_F32, {"random", 1}, [](Params& p) { p.seq_len_q = 8, p.head_dim = 8; }, {role}).problem)
            .empty());
  EXPECT_EQ(codebook_fills(Case(ATTEST_F32, {"random", 1}, [](Params& p) { p.seq_len_q = 8, p.head_dim = 8; }).problem),
            (std::vector<std::string>{"codebook", "codebook_peaked"}));
}

TEST(Codebook, ScoresAreAsWideAsPromised) {
  for (const int64_t head_dim : {24, 64, 128}) {
    for (const float scale : {0.0f, 2.0f}) {
      auto change = [&](Params& p) { p.seq_len_q = 512, p.head_dim = head_dim, p.softmax_scale = scale; };
      auto scores = [&](const char* name) {
        const Case c(ATTEST_F16, {name, 3}, change);
        const Codebook book(c.problem, c.fill, c.tensors);
        const std::vector<float> q = book.queries(0), k = book.keys(0);
        std::vector<double> s;
        for (int64_t h = 0; h < book.codes(); ++h)
          for (int64_t g = 0; g < book.codes(); ++g)
            s.push_back(double(c.p().softmax_scale) * std::inner_product(&q[size_t(h * head_dim)],
                                                                         &q[size_t(h * head_dim)] + head_dim,
                                                                         &k[size_t(g * head_dim)], 0.0));
        return s;
      };
      const std::vector<double> wide = scores("codebook"), peaked = scores("codebook_peaked");
      EXPECT_NEAR(std::sqrt(std::inner_product(wide.begin(), wide.end(), wide.begin(), 0.0) / double(wide.size())), 1.75, 0.15)
          << head_dim;
      for (size_t h = 0; h < 64 && head_dim >= 64; ++h) {
        std::vector<double> row(&peaked[h * 64], &peaked[h * 64] + 64);
        std::sort(row.begin(), row.end());
        EXPECT_GT(row[63] - row[62], 3) << head_dim;
        EXPECT_LT(row[63], 60);
      }
    }
  }
}

// All keys that some query sees carry codes in balance; the others are decoys, and loud.
TEST(Codebook, KeysBehindTheCausalReachAreDecoys) {
  const Case c(ATTEST_F16, {"codebook", 3},
               [](Params& p) { p.seq_len_q = 300, p.seq_len_kv = 400, p.head_dim = 64, p.window_right = 0; });
  const Codebook book(c.problem, c.fill, c.tensors);
  std::vector<int> count(size_t(book.codes()));
  for (int64_t j = 0; j < 400; ++j) {
    const uint8_t code = book.key_code(0, {0, j});
    ASSERT_EQ(code == Codebook::kUnseen, j >= 300);
    if (j < 300)
      ++count[code];
    else
      EXPECT_EQ(c.row(ATTEST_V, 0, 0, j)[0], 1000);
  }
  EXPECT_LE(*std::max_element(count.begin(), count.end()), 20);
}

TEST(Codebook, SameBytesWhateverTheStrides) {
  auto change = [](Params& p) { p.num_heads = 2, p.seq_len_q = 100, p.head_dim = 24; };
  const Case dense(ATTEST_BF16, {"codebook", 5}, change);
  Case permuted(ATTEST_BF16, {"codebook", 6}, change);
  const int order[] = {0, 2, 1, 3};
  for (const size_t role : {size_t{ATTEST_Q}, size_t{ATTEST_K}, size_t{ATTEST_V}}) {
    TensorSpec& spec = permuted.tensors[role].spec;
    EXPECT_NE(hash_tensor(permuted.tensors[role]), hash_tensor(dense.tensors[role]));
    spec = permuted_tensor(spec.dtype, spec.access, dims(spec), order);
  }
  fill_codebook(permuted.problem, {"codebook", 5}, permuted.tensors, false);
  for (const size_t role : {size_t{ATTEST_Q}, size_t{ATTEST_K}, size_t{ATTEST_V}})
    EXPECT_EQ(hash_tensor(permuted.tensors[role]), hash_tensor(dense.tensors[role]));
}

// A flash kernel in float32 with the probabilities of a tile kept in `probability`; keys [lost_begin, lost_end) are forgotten.
struct Kernel {
  DType probability = ATTEST_F32, score = ATTEST_F32;
  int64_t tile = 64, lost_begin = 0, lost_end = 0;
};

float rounded(float value, DType dtype) {
  if (dtype == ATTEST_F32) return value;
  uint16_t half = 0;
  double wide = 0;
  store_row(&half, dtype, 0, 1, 1, &value);
  load_row(&half, dtype, 0, 1, 1, &wide);
  return float(wide);
}

struct Ratios {
  double largest = 0, rms = 0;  // in sigmas
  bool pass() const { return largest <= 6 && rms <= 1.5; }
};

// One head, dense: scores of all rows once, then one pass a kernel.
class Flash {
 public:
  explicit Flash(const Case& c)
      : c_(c),
        rows_(c.p().seq_len_q),
        keys_(c.p().seq_len_kv),
        dim_(c.p().head_dim),
        v_(read(ATTEST_V)),
        scores_(size_t(rows_ * keys_)) {
    const std::vector<float> q = read(ATTEST_Q), k = read(ATTEST_K);
#pragma omp parallel for
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = 0; j < keys_; ++j) {
        float part[8] = {};
        for (int64_t d = 0; d < dim_; d += 8)
          for (int64_t l = 0; l < 8; ++l) part[l] += q[size_t(i * dim_ + d + l)] * k[size_t(j * dim_ + d + l)];
        scores_[size_t(i * keys_ + j)] =
            (((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]))) * c.p().softmax_scale;
      }
  }

  /// The key from `first` on that row 0 weighs most.
  int64_t best_key(int64_t first) const {
    return std::max_element(scores_.begin() + first, scores_.begin() + keys_) - scores_.begin();
  }

  Ratios judge(const Kernel& kernel) const {
    std::vector<double> got(size_t(rows_ * dim_));
#pragma omp parallel for
    for (int64_t i = 0; i < rows_; ++i) row(kernel, i, &got[size_t(i * dim_)]);
    const Arithmetic arithmetic{.score = kernel.score,
                                .probability = kernel.probability,
                                .output = c_.problem.dtype,
                                .sum_chain = std::max(std::min(kernel.tile, keys_), keys_ / kernel.tile)};
    const Expectations expected(*c_.golden(), arithmetic, ATTEST_O);
    Ratios ratios;
    for (const auto& [r, value] : expected.value)
      for (size_t e = 0; e < value.size(); ++e) {
        const double ratio = std::fabs(got[size_t(r * dim_) + e] - value[e]) / expected.sigma.at(r)[e];
        ratios.largest = std::max(ratios.largest, ratio), ratios.rms += ratio * ratio;
      }
    ratios.rms = std::sqrt(ratios.rms / double(got.size()));
    return ratios;
  }

 private:
  std::vector<float> read(size_t role) const {
    std::vector<float> values;
    for (int64_t j = 0; j < c_.spec(role).dim[2]; ++j)
      for (const double x : c_.row(role, 0, 0, j)) values.push_back(float(x));
    return values;
  }

  void row(const Kernel& kernel, int64_t i, double* out) const {
    std::vector<float> sum(static_cast<size_t>(dim_)), part(sum.size());
    float top = -INFINITY, total = 0;
    for (int64_t begin = 0; begin < keys_; begin += kernel.tile) {
      const int64_t end = std::min(begin + kernel.tile, keys_);
      float peak = top;
      for (int64_t j = begin; j < end; ++j) peak = std::max(peak, rounded(scores_[size_t(i * keys_ + j)], kernel.score));
      const float keep = std::exp(top - peak);
      for (float& x : sum) x *= keep;
      total *= keep, top = peak;
      std::fill(part.begin(), part.end(), 0.0f);
      float part_total = 0;
      for (int64_t j = begin; j < end; ++j) {
        if (j >= kernel.lost_begin && j < kernel.lost_end) continue;
        const float p = std::exp(rounded(scores_[size_t(i * keys_ + j)], kernel.score) - top),
                    kept = rounded(p, kernel.probability);
        part_total += p;
        for (int64_t e = 0; e < dim_; ++e) part[size_t(e)] += kept * v_[size_t(j * dim_ + e)];
      }
      total += part_total;
      for (size_t e = 0; e < sum.size(); ++e) sum[e] += part[e];
    }
    for (size_t e = 0; e < sum.size(); ++e) out[e] = double(rounded(sum[e] / total, c_.problem.dtype));
  }

  const Case& c_;
  int64_t rows_, keys_, dim_;
  std::vector<float> v_, scores_;
};

// Dense rows of one query code are equal, so 64 rows say nearly as much as 262,147.
TEST(CodebookSigma, HonestKernelsPassAndLostKeysFail) {
  for (const int64_t tokens : {1021, 65'551, 262'147})
    for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16})
      for (const char* name : {"codebook", "codebook_peaked"}) {
        const bool large = tokens > 100'000;  // less of it, for time
        if (large && (dtype == ATTEST_F32 || (dtype == ATTEST_F16 && name == std::string("codebook_peaked")))) continue;
        SCOPED_TRACE(testing::Message() << name << " " << tokens << " " << dtype_name(dtype));
        const Case c(dtype, {name, 11}, [&](Params& p) { p.seq_len_q = 64, p.seq_len_kv = tokens, p.head_dim = 64; });
        const Flash flash(c);
        const int64_t lost = flash.best_key(tokens / 2), last_tile = tokens / 64 * 64 - 64;
        auto judge = [&](const char* what, const Kernel& kernel, bool passes) {
          const Ratios ratios = flash.judge(kernel);
          EXPECT_EQ(ratios.pass(), passes) << what << ": " << ratios.largest << " " << ratios.rms;
          if (std::getenv("ATTEST_VERBOSE"))
            std::printf("%-16s %7ld %-5s %-10s %.2f (%.2f)\n", name, long(tokens), dtype_name(dtype).data(), what, ratios.largest,
                        ratios.rms);
        };
        if (!large) judge("float32", {}, true);
        judge("sequential", {.tile = 1 << 30}, true);
        judge("own dtype", {.probability = dtype}, true);
        if (!large) judge("f16 scores", {.probability = ATTEST_F16, .score = ATTEST_F16}, true);
        judge("tile lost", {.probability = dtype, .lost_begin = last_tile, .lost_end = last_tile + 64}, false);
        // bfloat16 at 262,147 keys sees one lost key at 5 to 10 sigma where scores are wide; that is what the peaked fill is for.
        if (dtype != ATTEST_BF16 || !large || name == std::string("codebook_peaked"))
          judge("key lost", {.probability = dtype, .lost_begin = lost, .lost_end = lost + 1}, false);
      }
}

}  // namespace
}  // namespace attest::core
