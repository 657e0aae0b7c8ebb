// print and parse are inverses; every refusal says which word and what would be right.
#include "core/problem/spec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/operations/softmax/softmax.hpp"
#include "core/problem/values.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const std::string& line) {
  try {
    parse_problem(line);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Spec, SaysOnlyWhatDoesNotFollow) {
  const std::string line = "softmax dtype=f16 num_heads=12 seq_len_q=197 head_dim=64";
  const Problem problem = parse_problem(line);
  EXPECT_EQ(print_problem(problem), line);
  const auto& p = problem.as<attest_softmax_params>();
  EXPECT_EQ(p.seq_len_kv, 197);
  EXPECT_EQ(p.num_kv_heads, 12);
  EXPECT_FLOAT_EQ(p.softmax_scale, 0.125f);
  EXPECT_EQ(problem.tensor[ATTEST_Q].dtype, ATTEST_F16);
}

TEST(Spec, CountsTheQueriesOfAllSequences) {
  EXPECT_EQ(query_count(
                parse_problem("softmax batch=3 num_heads=5 seq_len_q=7 seq_len_kv=11 head_dim=8")),
            21);
  EXPECT_EQ(query_count(parse_problem("linear batch=2 num_heads=3 seq_len_q=9 head_dim=4")), 18);
}

// Each line is what print gives for the problem that the other one describes.
TEST(Spec, EqualProblemsHaveEqualLines) {
  const std::pair<const char*, const char*> cases[] = {
      {"softmax head_dim=64 seq_len_q=8", "softmax dtype=f32 seq_len_q=8 head_dim=64"},
      {" softmax  seq_len_q=8   head_dim=64 ", "softmax dtype=f32 seq_len_q=8 head_dim=64"},
      {"softmax seq_len_q=8 seq_len_kv=8 head_dim=64 num_heads=1 softmax_scale=0.125 lse=f32",
       "softmax dtype=f32 seq_len_q=8 head_dim=64 lse"},
      {"softmax seq_len_q=8 head_dim=64 causal",
       "softmax dtype=f32 seq_len_q=8 head_dim=64 window_right=0"},
      {"softmax seq_len_q=8 head_dim=64 causal=true mask=true lse=true unaligned=true",
       "softmax dtype=f32 seq_len_q=8 head_dim=64 window_right=0 lse mask unaligned"},
      {"softmax seq_len_q=8 head_dim=64 causal=top_left",
       "softmax dtype=f32 seq_len_q=8 head_dim=64 window_right=0"},
      {"softmax seq_len_q=8 head_dim=64 causal=bottom_right",
       "softmax dtype=f32 seq_len_q=8 head_dim=64 window_right=0 diagonal=1"},
      {"softmax dtype=f16 seq_len_q=8 head_dim=64 bias=f16[1,1,8,8] k=f16",
       "softmax dtype=f16 seq_len_q=8 head_dim=64 bias"},
      {"softmax dtype=f16 num_heads=2 seq_len_q=8 head_dim=64 mask=bool[1,1,1,8] bias=f32",
       "softmax dtype=f16 num_heads=2 seq_len_q=8 head_dim=64 bias=f32 mask=[1,1,1,8]"},
      {"softmax seq_len_q=4k head_dim=64 bias=[1,1,1,4K] window_left=0.5k",
       "softmax dtype=f32 seq_len_q=4096 head_dim=64 window_left=512 bias=[1,1,1,4096]"},
      {"softmax num_heads=2 seq_len_q=8 head_dim=4 q.order=0213 k.strides=[0,32,4,1]",
       "softmax dtype=f32 num_heads=2 seq_len_q=8 head_dim=4 q.order=0213"},
      {"softmax num_heads=2 seq_len_q=8 head_dim=4 q.strides=[0,4,8,1] v.strides=[0,40,5,1]",
       "softmax dtype=f32 num_heads=2 seq_len_q=8 head_dim=4 q.order=0213 v.strides=[0,40,5,1]"},
      {"linear num_heads=8 seq_len_q=100 head_dim=32 mask eps=1e-6",
       "linear dtype=f32 num_heads=8 seq_len_q=100 head_dim=32 mask"},
  };
  for (const auto& [given, printed] : cases)
    EXPECT_EQ(print_problem(parse_problem(given)), printed) << given;
}

TEST(Spec, PackedTokensAreSaidOnlyWhereUnusual) {
  const std::string usual =
      "softmax dtype=f32 batch=3 num_heads=2 seq_len_q=100 head_dim=16 lse cu_seqlens_q "
      "cu_seqlens_kv";
  EXPECT_EQ(print_problem(parse_problem(usual)), usual);
  EXPECT_EQ(parse_problem(usual).tensor[ATTEST_LSE].dim[2], 200);
  const std::string other =
      "softmax dtype=f32 batch=3 num_heads=2 seq_len_q=100 head_dim=16 q=[1,2,250,16] "
      "k=[1,2,220,16] lse cu_seqlens_q cu_seqlens_kv";
  const Problem problem = parse_problem(other);
  EXPECT_EQ(print_problem(problem), other);
  EXPECT_EQ(problem.tensor[ATTEST_O].dim[2], 250);
  EXPECT_EQ(problem.tensor[ATTEST_LSE].dim[2], 250);
  EXPECT_EQ(problem.tensor[ATTEST_V].dim[2], 220);
}

TEST(Spec, FloatsHaveTheFewestDigitsThatComeBack) {
  EXPECT_EQ(print_float(0.1f), "0.1");
  EXPECT_EQ(print_float(-100), "-100");
  for (uint64_t i = 0; i < 100000; ++i) {
    const auto bits = uint32_t(random_bits(7, i));
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    if (std::isnan(value)) continue;
    const auto back = parse_float(print_float(value));
    ASSERT_TRUE(back) << print_float(value);
    ASSERT_EQ(std::memcmp(&*back, &value, sizeof(value)), 0) << print_float(value);
    ASSERT_LE(print_float(value).size(), 15u);
  }
}

TEST(Spec, ValuesAreWholeWords) {
  for (const char* text : {"", "1e40", "nan", "NAN", "1f", "infinity", "1e-60", ".", "0x1p3"})
    EXPECT_FALSE(parse_float(text)) << text;
  EXPECT_EQ(parse_float("-inf"), -INFINITY);
  for (const char* text :
       {"", "[", "]", "[1,]", "[,1]", "[1 2]", "[1", "1]", "[-1]", "[1,,2]", "[1,2,3]"})
    EXPECT_FALSE(parse_list(text, 2, 100)) << text;
  EXPECT_EQ(parse_list("[1,2]", 2, 100), (std::vector<int64_t>{1, 2}));
}

TEST(Spec, SaysWhichWordAndWhatWouldBeRight) {
  const std::string ok = "softmax seq_len_q=8 head_dim=64 ";
  const std::pair<std::string, const char*> cases[] = {
      {"", "an empty problem"},
      {"softmx seq_len_q=8",
       "unknown operation 'softmx', did you mean 'softmax'? (there are: softmax, linear"},
      {ok + "head_dims=64", "unknown word 'head_dims' for softmax, did you mean 'head_dim'?"},
      {ok + "caussal", "did you mean 'causal'?"},
      {ok + "qq.order=0123", "did you mean 'q.order'?"},
      {"linear seq_len_q=8 head_dim=8 causal", "unknown word 'causal' for linear"},
      {ok + "head_dim=32", "'head_dim': given twice"},
      {ok + "causal window_right=0", "'window_right': given twice"},
      {ok + "causal=bottom", "must be causal or causal=top_left or causal=bottom_right"},
      {ok + "num_heads=", "a value must follow the '='"},
      {ok + "num_heads", "num_heads must be a whole number"},
      {ok + "num_heads=two", "'num_heads=two': num_heads must be a whole number"},
      {ok + "num_heads=2.5",
       "num_heads must be a whole number, or one with k (1,024) or m (1,048,576), such as"},
      {ok + "num_heads=4q", "num_heads must be a whole number, or one with k"},
      {ok + "num_heads=4096m", "num_heads must be a whole number from -2147483648 to 2147483648"},
      {ok + "num_heads=99999999999999999999", "must be a whole number from"},
      {ok + "diagonal=2147483648", "must be a whole number from -2147483647 to 2147483647"},
      {ok + "softcap=1e99", "softcap must be a number that a float holds"},
      {ok + "dtype=fp16", "must be f32, f16"},
      {ok + "dtype=i32", "must be f32, f16"},
      {ok + "dtype=f8e5m2",
       "f8e5m2 is not judged here; must be f32, f16, bf16 or f64, that of the outputs; 8 bits are "
       "those of single tensors: dtype=f16 q=f8e5m2 k=f8e5m2 v=f8e5m2"},
      {ok + "v=f8e4m3", "v: dtype f8e4m3 where q is f32; 8 bits are those of q, k and v alike"},
      {ok + "o=f8e4m3", "f8e4m3 is not judged here; must be f32, f16, bf16 or f64"},
      {ok + "q=i32", "'q=i32': must be f32, f16, bf16, f64, f8e4m3 or f8e5m2"},
      {"linear seq_len_q=8 head_dim=8 k=f8e4m3",
       "f8e4m3 is not judged here; must be f32, f16, bf16 or f64"},
      {"softmax_backward seq_len_q=8 head_dim=8 page_size=4",
       "page_size: gradients of paged K and V are not judged, since pages hold the keys of"},
      {"softmax_backward seq_len_q=8 head_dim=8 dtype=f64", "q: softmax_backward in f64 is not"},
      {ok + "k=bool", "must be f32, f16"},
      {ok + "lse=f16", "lse: dtype f16 where f32 is right"},
      {ok + "mask=[1,1,1,9]", "mask: dims [1,1,1,9] where [1,1,1 or 8,1 or 8] is right"},
      {ok + "mask=1,1,1,8",
       "must be a dtype, dims, or both, e.g. mask=bool[1,1,197,197]; or the word mask alone"},
      {ok + "bias=false", "e.g. bias=f32[1,1,197,197]; or the word bias alone"},
      {ok + "mask=[1,1,1,1,1,1,8]", "must be a dtype, dims, or both"},
      {ok + "bias.order=0123", "bias: this problem has no such tensor; add the word bias"},
      {ok + "q.order=0122", "q.order=0122: must name each of the 4 dims once"},
      {ok + "q.order=012", "must name each of the 4 dims once"},
      {ok + "q.order=0129", "must be the dims' numbers"},
      {ok + "q.strides=[0,0,64]", "must be 4 numbers"},
      {ok + "q.strides=[0,0,64,0]", "must be 0 exactly where the dim is 1"},
      {ok + "q.strides=[0,0,32,1]", "overlap"},
      {ok + "q.strides=[0,0,140737488355328,1]", "too far apart"},
      {ok + "q.order=0213 q.strides=[0,0,64,1]", "both order and strides"},
      {ok + "unaligned=1", "has no value"},
      {ok + "num_heads=6 num_kv_heads=4", "num_kv_heads: 4; must divide num_heads = 6"},
      {ok + "seq_len_kv=0", "seq_len_kv: 0"},
      {"softmax seq_len_q=8", "head_dim: 0"},
      {"softmax seq_len_q=8 head_dim=100000", "head_dim: 100000"},
      {"softmax seq_len_q=2147483647 head_dim=1024 batch=65536 num_heads=65536",
       "more than memory can address"},
      {ok + "page_table", "page_table: needs page_size"},
      {ok + "x\ty", "not printable ASCII"},
      {std::string(20000, 'x'), "characters; 16384 at most"},
  };
  for (const auto& [line, message] : cases) {
    EXPECT_THAT(error_of(line), HasSubstr(message)) << line;
    EXPECT_EQ(error_of(line).find('\n'), std::string::npos);
  }
}

// A random softmax problem made through the interface, without any spec line; many make no sense
// and are refused.
Problem random_softmax(uint64_t seed) {
  uint64_t counter = 0;
  auto below = [&](int64_t n) { return int64_t(random_below(seed, counter++, uint64_t(n))); };
  auto one_in = [&](int64_t n) { return below(n) == 0; };
  const DType dtypes[] = {ATTEST_F32, ATTEST_F16, ATTEST_BF16};
  Problem problem = blank_problem(softmax_operation(), dtypes[below(3)]);
  auto& p = problem.as<attest_softmax_params>();
  p.batch = 1 + below(3);
  p.num_heads = int64_t{1} << below(4);
  p.seq_len_q = 1 + below(300);
  p.head_dim = 1 + below(128);
  if (one_in(3)) p.num_kv_heads = int64_t{1} << below(4);
  if (one_in(3)) p.seq_len_kv = 1 + below(300);
  if (one_in(3)) p.head_dim_v = 1 + below(128);
  if (one_in(3)) p.softmax_scale = random_normal(seed, counter++);
  if (one_in(3)) p.softcap = 30 * random_uniform(seed, counter++);
  if (one_in(3)) p.window_left = below(100);
  if (one_in(3)) p.window_right = below(3);
  if (one_in(4)) {
    p.diagonal = int32_t(below(2));
    p.diagonal_offset = below(20) - 10;
  }
  if (one_in(4)) p.patch_size = 1 + below(64);
  if (one_in(5)) p.page_size = 1 + below(32);
  if (one_in(8)) {
    p.block_q = 1 + below(64);
    p.block_kv = 1 + below(64);
  }
  if (one_in(8)) p.global_tokens = 1 + below(8);
  if (one_in(8)) {
    p.top_k = 1 + below(20);
    p.top_k_ties = int32_t(below(2));
  }
  const DType f8 = !one_in(4) ? ATTEST_NONE : one_in(2) ? ATTEST_F8E4M3 : ATTEST_F8E5M2;
  if (f8 && one_in(2)) p.descale_block_q = 1 + below(64);
  if (f8 && one_in(2)) p.descale_block_kv = 1 + below(64);
  if (one_in(4)) {
    p.window_height = 1 + below(8);
    p.window_width = 1 + below(8);
    p.grid_height = p.window_height * (1 + below(4));
    p.grid_width = p.window_width * (1 + below(4));
    p.shift_y = below(p.window_height);
    p.shift_x = below(p.window_width);
    p.shift_bias = one_in(2) ? -100 : -INFINITY;
    p.seq_len_q = p.grid_height * p.grid_width;
  }
  Problem completed = problem;
  softmax_operation().complete(completed);
  for (const Role& role : softmax_operation().roles()) {
    if (role.index == ATTEST_BLOCK_MASK && p.block_q == 0) continue;
    const bool stored = f8 && softmax_operation().may_be_f8(role.index);
    if (role.required ? !one_in(4) && !stored
                      : !one_in(6) && !(p.page_size > 0 && role.index == ATTEST_PAGE_TABLE) &&
                            role.index != ATTEST_BLOCK_MASK)
      continue;
    std::vector<int64_t> full = softmax_operation().dims(completed, role.index);
    if (role.index == ATTEST_BIAS || role.index == ATTEST_MASK)
      for (int64_t& dim : full) dim = one_in(2) ? 1 : dim;
    if (role.required && one_in(4))
      full[2] += below(100);  // packed tokens; refused where nothing is packed
    std::vector<int> order(full.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = int(i);
    for (size_t i = order.size(); i-- > 1 && one_in(2);)
      std::swap(order[i], order[size_t(below(int64_t(i) + 1))]);
    const DType dtype = stored                      ? f8
                        : role.dtype != ATTEST_NONE ? role.dtype
                        : one_in(4)                 ? dtypes[below(3)]
                                                    : problem.dtype;
    TensorSpec spec = permuted_tensor(dtype, role.access, full, order);
    if (one_in(3))  // gaps
      for (int64_t& stride : spec.stride) stride *= 2;
    problem.tensor[size_t(role.index)] = spec;
  }
  if (one_in(8)) problem.features |= ATTEST_WITH_UNALIGNED;
  finish_problem(problem);
  return problem;
}

TEST(Spec, IsRepeatedInOtherDtypes) {
  const std::string line = "softmax seq_len_q=8 head_dim=8";
  EXPECT_THAT(lines_in_dtypes(line, {}), ElementsAre(line));
  EXPECT_THAT(lines_in_dtypes(line, {"f16", "bf16"}),
              ElementsAre(line + " dtype=f16", line + " dtype=bf16"));
  EXPECT_THAT(lines_in_dtypes("dtype=f16 seq_len_q=8", {}), ElementsAre("dtype=f16 seq_len_q=8"));
  for (const char* twice : {"softmax dtype=f16 head_dim=8", "dtype=f16"})
    EXPECT_THROW(lines_in_dtypes(twice, {"f32"}), Error) << twice;
}

TEST(Spec, EveryRandomProblemComesBackFromItsLine) {
  int made = 0;
  uint64_t features = 0;
  for (uint64_t seed = 0; seed < 40000; ++seed) {
    Problem problem;
    try {
      problem = random_softmax(seed);
    } catch (const Error&) {
      continue;
    }
    ++made;
    features |= problem.features;
    const std::string line = print_problem(problem);
    ASSERT_NO_THROW(ASSERT_TRUE(parse_problem(line) == problem)
                    << line << "\n"
                    << print_problem(parse_problem(line)))
        << line;
  }
  EXPECT_GT(made, 4000);
  EXPECT_EQ(print_features(features), print_features((ATTEST_WITH_DESCALE << 1) - 1))
      << "the generator misses a feature";
}

// Words come from the operation's tables, so that a private operation has a spec line without
// anyone's help.
struct ToyParams {
  uint32_t struct_size;
  int32_t rounds;
  int64_t rows;
  float gain, reserved_;
};
class Toy final : public Operation {
 public:
  int32_t number() const override { return ATTEST_PRIVATE + 7; }
  std::string_view name() const override { return "toy"; }
  size_t params_size() const override { return sizeof(ToyParams); }
  std::span<const Field> fields() const override {
    static const Field fields[] = {ATTEST_FIELD(ToyParams, rounds, 0, "rounds; 0: as many as rows"),
                                   ATTEST_FIELD(ToyParams, rows, 4, "rows"),
                                   ATTEST_FIELD(ToyParams, gain, 1, "gain")};
    return fields;
  }
  std::span<const Role> roles() const override {
    static const Role roles[] = {{ATTEST_OWN, "x", ATTEST_READ, true, ATTEST_NONE},
                                 {ATTEST_OWN + 1, "causal", ATTEST_READ, false, ATTEST_I64}};
    return roles;
  }
  void complete(Problem& problem) const override {
    auto& p = problem.as<ToyParams>();
    if (p.rounds == 0) p.rounds = int32_t(p.rows);
  }
  std::vector<int64_t> dims(const Problem& problem, int32_t) const override {
    return {problem.as<ToyParams>().rows};
  }
  void check(const Problem&) const override {}
  uint64_t features(const Problem&) const override { return 0; }
  double flops(const Problem&) const override { return 0; }
  std::vector<std::string> fills(const Problem&) const override { return {"random"}; }
  void fill(const Problem&, const Fill&, const Tensors&, bool) const override {}
  std::unique_ptr<Golden> golden(const Problem&, const Fill&, const Tensors&) const override {
    return nullptr;
  }
};

TEST(Spec, PrivateOperationsHaveLinesToo) {
  static const Toy toy;
  register_operation(&toy);
  EXPECT_EQ(print_problem(parse_problem("toy")), "toy dtype=f32");
  EXPECT_EQ(print_problem(parse_problem("toy rows=4 rounds=4 gain=1")), "toy dtype=f32");
  const std::string line =
      "toy dtype=bf16 rounds=2 rows=9 gain=0.3 x.strides=[3] causal";  // the operation's own word,
                                                                       // no short form
  EXPECT_EQ(print_problem(parse_problem(line)), line);
  EXPECT_THAT(error_of("toy gian=2"), HasSubstr("did you mean 'gain'?"));
}

}  // namespace
}  // namespace attest::core
