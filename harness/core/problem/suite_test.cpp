// A good suite gives its problems; a bad one fails when it is read, with file, case, key and a
// hint.
#include "core/problem/suite.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "core/problem/spec.hpp"
#include "core/problem/sweep.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A suite of one case with these keys beside its name.
std::string with_case(const std::string& keys) {
  return R"({"name": "s", "summary": "for tests",
  "defaults": {"operation": "softmax", "dtypes": ["f32", "f16"], "head_dim": 64},
  "cases": [{"name": "m/a", )" +
         keys + "}]}";
}

std::string suite_error(const std::string& text) {
  try {
    parse_suite(text, "x.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string line_of(const std::string& keys, DType dtype = ATTEST_F32, int64_t tokens = 100) {
  return print_problem(parse_suite(with_case(keys), "x.json").cases.at(0).problem(dtype, tokens));
}

TEST(Suite, CasesAreDefaultsAndTheirOwnKeys) {
  const Suite suite = parse_suite(R"({"name": "mine", "summary": "two cases", "budget": "50ms",
    "defaults": {"operation": "softmax", "dtypes": ["f32", "f16"], "head_dim": 64,
                 "source": "somewhere", "causal": true},
    "cases": [
      {"name": "a", "seq_len_q": 10, "quick": true},
      {"name": "b", "seq_len_q": 20, "head_dim": 32, "dtypes": ["bf16"], "causal": false,
       "note": "a note", "impls": ["flash_*"], "fills": ["huge", "random"]}]})",
                                  "x.json");
  EXPECT_EQ(suite.name, "mine");
  EXPECT_EQ(suite.budget_s, 0.05);
  ASSERT_EQ(suite.cases.size(), 2u);
  const Case &a = suite.cases[0], &b = suite.cases[1];
  EXPECT_EQ(a.suite, "mine");
  EXPECT_EQ(a.quick, a.dtypes);
  EXPECT_EQ(a.dtypes, (std::vector<DType>{ATTEST_F32, ATTEST_F16}));
  EXPECT_EQ(a.source, "somewhere");
  EXPECT_EQ(a.inputs.source, "random");
  EXPECT_FALSE(a.inputs.from_tokens);
  EXPECT_EQ(print_problem(a.problem(ATTEST_F16, 0)),
            "softmax dtype=f16 seq_len_q=10 head_dim=64 window_right=0");
  EXPECT_TRUE(b.quick.empty());
  EXPECT_EQ(b.note, "a note");
  EXPECT_EQ(b.only_impls, (std::vector<std::string>{"flash_*"}));
  EXPECT_EQ(b.fills, (std::vector<std::string>{"huge", "random"}));
  EXPECT_TRUE(a.fills.empty());
  EXPECT_EQ(print_problem(b.problem(ATTEST_BF16, 0)),
            "softmax dtype=bf16 seq_len_q=20 head_dim=32");
}

TEST(Suite, QuickDtypesAreInTheOrderOfAll) {
  const Suite suite = parse_suite(R"({"name": "mine", "summary": "a case",
    "defaults": {"operation": "softmax", "dtypes": ["f32", "f16", "bf16"]},
    "cases": [{"name": "a", "seq_len_q": 10, "head_dim": 8, "quick": ["bf16", "f32"]}]})",
                                  "x.json");
  EXPECT_EQ(suite.cases.at(0).quick, (std::vector<DType>{ATTEST_F32, ATTEST_BF16}));
}

TEST(Suite, KeysAreTheWordsOfASpecLine) {
  EXPECT_EQ(line_of(R"("seq_len_q": 8, "softcap": 0.5, "causal": "bottom_right", "lse": true)"),
            "softmax dtype=f32 seq_len_q=8 head_dim=64 softcap=0.5 window_right=0 diagonal=1 lse");
  EXPECT_EQ(line_of(R"("seq_len_q": 8, "num_heads": 2, "mask": [1, 1, 1, 8], "bias": "f32[1,1,8,8]",
                 "q.order": "0213", "unaligned": true)",
                    ATTEST_F16),
            "softmax dtype=f16 num_heads=2 seq_len_q=8 head_dim=64 q.order=0213 bias=f32[1,1,8,8] "
            "mask=[1,1,1,8] unaligned");
  EXPECT_EQ(line_of(R"("operation": "linear", "seq_len_q": 8, "eps": 1e-3)"),
            "linear dtype=f32 seq_len_q=8 head_dim=64 eps=0.001");
}

TEST(Suite, TokensStandForTheirCount) {
  const std::string keys = R"("seq_len_q": "tokens", "order": true, "patch_size": 16,
                              "inputs": "lidar:voxel_size=0.05")";
  EXPECT_EQ(line_of(keys, ATTEST_F32, 1234),
            "softmax dtype=f32 seq_len_q=1234 head_dim=64 patch_size=16 order");
  const Case one = parse_suite(with_case(keys), "x.json").cases.at(0);
  EXPECT_TRUE(one.sized_by_tokens());
  EXPECT_TRUE(one.inputs.from_tokens);
  EXPECT_EQ(one.inputs.source, "lidar:voxel_size=0.05");
  EXPECT_EQ(line_of(R"("seq_len_q": 10, "seq_len_kv": "tokens", "inputs": "lidar:voxel_size=0.05")",
                    ATTEST_F32, 99),
            "softmax dtype=f32 seq_len_q=10 seq_len_kv=99 head_dim=64");
  EXPECT_FALSE(parse_suite(with_case(R"("seq_len_q": 10, "inputs": "image:patch=16")"), "x.json")
                   .cases.at(0)
                   .sized_by_tokens());
}

TEST(Suite, AReasonIsGivenToSeveralCasesAtOnce) {
  const auto with_misses = [](const std::string& misses, const std::string& defaults = "") {
    return R"({"name": "s", "summary": "x", "defaults": {
            "operation": "softmax", "dtypes": ["f32"], "head_dim": 8)" +
           defaults + R"(}, "cases": [{"name": "long/a", "seq_len_q": 40},
         {"name": "long/b", "seq_len_q": 40, "misses": {"distinct": "own"}},
         {"name": "short", "seq_len_q": 4}], "misses": )" +
           misses + "}";
  };
  const Suite suite =
      parse_suite(with_misses(R"([{"why": "w", "cases": {"long/*": ["rise/16/*", "lane/*"]}},
                     {"why": "x", "cases": {"short": ["nan/q"], "long/b": ["nan/v"]}}])"),
                  "x.json");
  auto said = [&](size_t n) {
    std::string text;
    for (const Excuse& excuse : suite.cases[n].misses)
      text += excuse.glob + "=" + excuse.why + (excuse.shared ? " (shared) " : " ");
    return text;
  };
  EXPECT_EQ(said(0), "rise/16/*=w (shared) lane/*=w (shared) ");
  EXPECT_EQ(said(1), "distinct=own rise/16/*=w (shared) lane/*=w (shared) nan/v=x (shared) ");
  EXPECT_EQ(said(2), "nan/q=x (shared) ");
  const std::pair<const char*, const char*> wrong[] = {
      {"{}", "x.json: misses: must be a list of 1 to 64 reasons"},
      {R"(["rise/*"])", "x.json: misses 1: must be an object"},
      {R"([{"why": "w"}])", "misses 1: cases: must be an object of cases and their events"},
      {R"([{"why": "w", "cases": {}}])", "misses 1: cases: must be an object"},
      {R"([{"cases": {"short": ["nan/k"]}}])", "misses 1: has no why"},
      {R"([{"why": "w", "cases": {"short": "nan/k"}}])",
       "misses 1: short: must be a list of globs of events"},
      {R"([{"why": "w", "case": {"short": ["nan/k"]}}])", "did you mean 'cases'?"},
      {R"([{"why": "w", "cases": {"shrt": ["nan/k"]}}])",
       "misses 1: cases: shrt: matches none of: long/a"},
      {R"([{"why": "w", "cases": {"*": ["rise/*"]}}])",
       "x.json: misses 1: case 'short': misses: rise/*: matches none of:"},
  };
  for (const auto& [misses, message] : wrong)
    EXPECT_THAT(suite_error(with_misses(misses)), HasSubstr(message)) << misses;
  EXPECT_THAT(suite_error(with_misses("[]", R"(, "misses": {"nan/k": "w"})")),
              HasSubstr("defaults: misses: must stand in a case, or"));
}

TEST(Suite, ErrorsNameFileCaseKeyAndWhatWouldBeRight) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("seq_len_q": 8, "head_dims": 64)",
       "x.json: case 'm/a': unknown key 'head_dims', did you mean 'head_dim'?"},
      {R"("seq_len_q": 8, "dtype": "f16")", "unknown key 'dtype', did you mean 'dtypes'?"},
      {R"("seq_len_q": 8, "qick": true)", "did you mean 'quick'?"},
      {R"("seq_len_q": 8, "eps": 1)", "unknown key 'eps'"},
      {R"("seq_len_q": 8, "typo": false)", "unknown key 'typo'"},
      {R"("seq_len_q": 8, "head_dim": 0)", "x.json: case 'm/a': head_dim: 0"},
      {R"("seq_len_q": 8, "head_dim": 100000)", "head_dim: 100000"},
      {R"("seq_len_q": 8, "seq_len_kv": 0)", "seq_len_kv: 0"},
      {R"("seq_len_q": 8, "num_heads": 6, "num_kv_heads": 4)",
       "num_kv_heads: 4; must divide num_heads = 6"},
      {R"("seq_len_q": 8.5)", "seq_len_q must be a whole number"},
      {R"("seq_len_q": null)", "seq_len_q: must be a number, a word"},
      {R"("seq_len_q": "8 head_dim=3")", "seq_len_q: must be a number, a word"},
      {R"("seq_len_q": 8, "mask": [1, -1])", "mask: must be a list of whole numbers"},
      {R"("seq_len_q": "tokens")", "\"tokens\" needs inputs that are tokens"},
      {R"("seq_len_q": 8, "batch": "tokens", "inputs": "lidar:")", "may stand for a seq_len only"},
      {R"("seq_len_q": 8, "operation": "softmx")",
       "unknown operation 'softmx', did you mean 'softmax'?"},
      {R"("seq_len_q": 8, "dtypes": ["fp16"])", "unknown dtype 'fp16'"},
      {R"("seq_len_q": 8, "dtypes": ["i32"])", "must be f32, f16"},
      {R"("seq_len_q": 8, "dtypes": ["f8e4m3"])",
       "dtypes: f8e4m3 (not judged yet); must be f32, f16, bf16 or f64"},
      {R"("seq_len_q": 8, "dtypes": [])", "dtypes: must be a list of dtypes"},
      {R"("seq_len_q": 8, "dtypes": ["f32", "f32"])", "'f32' twice"},
      {R"("seq_len_q": 8, "quick": 1)",
       "quick: must be true, false or a list of dtypes, e.g. [\"f32\"]"},
      {R"("seq_len_q": 8, "quick": ["bf16"])", "quick: bf16 is not among its dtypes"},
      {R"("seq_len_q": 8, "quick": ["f31"])", "quick: unknown dtype 'f31'"},
      {R"("seq_len_q": 8, "note": "a\nb")", "note: must be text"},
      {R"("seq_len_q": 8, "inputs": "")", "inputs: must be text"},
      {R"("seq_len_q": 8, "impls": "flash")", "impls: must be a list"},
      {R"("seq_len_q": 8, "impls": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m",
          "n", "o", "p", "q"])",
       "impls: 17 entries; at most 16 are allowed, and a glob may stand for many names"},
      {R"("seq_len_q": 8, "fills": "huge")", "fills: must be a list"},
      {R"("seq_len_q": 8, "fills": ["hug"])", "fills: hug: matches none of: random, codebook"},
      {R"("seq_len_q": 8, "alibi_slopes": true, "fills": ["cancelling"])",
       "fills: cancelling: matches none of: random, codebook"},
      {R"("seq_len_q": 8, "misses": ["rise/*"])", "misses: must be an object of globs"},
      {R"("seq_len_q": 8, "misses": {})", "misses: must be an object of globs"},
      {R"("seq_len_q": 8, "misses": {"distinct": ""})", "misses: distinct: must be text"},
      {R"("seq_len_q": 8, "misses": {"rise/*": "too few"})", "misses: rise/*: matches none of:"},
      {R"("seq_len_q": 8, "misses": {"distnct": "typo"})", "misses: distnct: matches none of:"},
      {R"("seq_len_q": 8, "seq_len_q": 9)", "key 'seq_len_q' twice in one object"},
  };
  for (const auto& [keys, message] : cases) {
    const std::string error = suite_error(with_case(keys));
    EXPECT_THAT(error, HasSubstr(message)) << keys;
    EXPECT_THAT(error, StartsWith("x.json: "));
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

TEST(Suite, FilesThatAreNoSuites) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "x.json: line 1, column 1: syntax error"},
      {"{\n  \"name\": \"s\",\n  \"summary\" 3\n}", "x.json: line 3, column 13: syntax error"},
      {"// no\n{}", "x.json: line 1, column 1: syntax error"},
      {"[]", "must be one JSON object"},
      {"{}", "x.json: has no name"},
      {R"({"name": "s"})", "x.json: has no summary"},
      {R"({"name": "s", "summary": "x", "cases": []})", "cases: must be a list of 1 to 4096 cases"},
      {R"({"name": "s", "summary": "x", "case": []})", "unknown key 'case', did you mean 'cases'?"},
      {R"({"name": "s", "summary": "x", "budget": 0, "cases": [{}]})",
       "budget: must be seconds, or a time such as \"50ms\", above 0 and up to"},
      {R"({"name": "s", "summary": "x", "budget": "1 day", "cases": [{}]})",
       "budget: must be seconds, or a time such as \"50ms\", above 0 and up to"},
      {R"({"name": "a b", "summary": "x", "cases": [{}]})",
       "name 'a b': must be at most 80 letters"},
      {R"({"name": "s", "summary": "x", "cases": [3]})", "x.json: case 1: must be an object"},
      {R"({"name": "s", "summary": "x", "cases": [{"seq_len_q": 3}]})",
       "x.json: case 1: has no name"},
      {R"({"name": "s", "summary": "x", "cases": [{"name": "a"}]})",
       "x.json: case 'a': has no operation"},
      {R"({"name": "s", "summary": "x", "defaults": {"name": "a"}, "cases": [{}]})",
       "name: must stand in each case"},
      {R"({"name": "s", "summary": "x", "defaults": {"operation": "softmax", "dtypes": ["f32"],
           "seq_len_q": 1, "head_dim": 1}, "cases": [{"name": "a"}, {"name": "a"}]})",
       "x.json: case 'a': that name is taken"},
      {std::string(100, '['), "nested deeper than"},
      {std::string((size_t{4} << 20) + 1, ' '), "4194304 at most"},
      {R"({"name": 1e999})", "x.json: number overflow parsing '1e999'"},
      {"{\"name\": " + std::string(400, '3') + "}", "x.json: number overflow parsing '333"},
      {"{\"name\": \"\xff\"}", "x.json: line 1"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(suite_error(text), HasSubstr(message)) << text.substr(0, 200);
    EXPECT_EQ(suite_error(text).find('\n'), std::string::npos);
    EXPECT_LT(suite_error(text).size(), 300u);
  }
}

TEST(Suite, FilesThatCannotBeRead) {
  EXPECT_THROW(read_suite("no/such/file.json"), Error);
  EXPECT_THROW(read_suite("/"), Error);
  const std::string file = ::testing::TempDir() + "suite_test.json";
  std::ofstream(file) << with_case(R"("seq_len_q": 8)");
  EXPECT_EQ(read_suite(file).cases.size(), 1u);
}

// A suite with one entry of `scaling` that has these keys beside its name.
std::string with_scaling(const std::string& keys) {
  return R"({"name": "s", "summary": "for tests",
  "defaults": {"operation": "softmax", "dtypes": ["f32", "f16"], "head_dim": 64,
               "inputs": "lidar:voxel_size=0.05"},
  "scaling": [{"name": "dense", )" +
         keys + "}]}";
}

TEST(Suite, ScalingIsAProblemAtManySizes) {
  const Suite suite =
      parse_suite(with_scaling(R"("over": ["seq_len_q=1k..16k", "batch=1,2"], "threads": "1..n",
                      "deadline": "50ms", "memory": "2GiB", "impls": ["flash_*"], "quick": true)"),
                  "x.json");
  EXPECT_TRUE(suite.cases.empty());
  ASSERT_EQ(suite.scaling.size(), 1u);
  const Scaling& scaling = suite.scaling[0];
  EXPECT_EQ(scaling.base.name, "dense");
  EXPECT_EQ(scaling.base.suite, "s");
  EXPECT_EQ(scaling.base.quick, scaling.base.dtypes);
  EXPECT_FALSE(scaling.base.inputs.from_tokens) << "a default that is for cases only";
  EXPECT_EQ(scaling.threads, "1..n");
  EXPECT_DOUBLE_EQ(scaling.deadline_s, 0.05);
  EXPECT_EQ(scaling.memory_bytes, uint64_t{2} << 30);
  const std::vector<Sweep> sweeps = sweeps_of(scaling);
  ASSERT_EQ(sweeps.size(), 2u);
  EXPECT_EQ(print_problem(sweeps[1].at(ATTEST_F16, 2)),
            "softmax dtype=f16 batch=2 seq_len_q=1024 head_dim=64");
}

TEST(Suite, ScalingThatMakesNoSenseIsRefused) {
  const auto error = [](const std::string& keys) { return suite_error(with_scaling(keys)); };
  EXPECT_THAT(error(R"("seq_len_q": 4)"), HasSubstr("scaling 'dense': has no over"));
  EXPECT_THAT(error(R"("over": "seq_len_q=4..1")"),
              StartsWith("x.json: scaling 'dense': over 'seq_len_q=4..1': must be a range"));
  EXPECT_THAT(error(R"("over": "seq_len_q=4..16", "inputs": "random")"),
              HasSubstr("inputs: is for cases only"));
  EXPECT_THAT(error(R"("over": "seq_len_q=4..16", "threads": "none")"),
              HasSubstr("threads: must be numbers of threads"));
  EXPECT_THAT(error(R"("over": "seq_len_q=4..16", "deadline": "0ms")"),
              HasSubstr("deadline: must be a time such as 50ms"));
  EXPECT_THAT(error(R"("over": "seq_len_q=4..16", "memory": "much")"),
              HasSubstr("memory: must be a size such as 512MiB"));
  EXPECT_THAT(error(R"("over": "seq_len_q=4..16", "head_dims": 4)"),
              HasSubstr("scaling 'dense': unknown key 'head_dims', did you mean 'head_dim'?"));
  EXPECT_THAT(error(R"("over": "seq_len_q=4..16"}, {"name": "dense", "over": "seq_len_q=1,2")"),
              HasSubstr("that name is taken"));
  std::string excused = with_scaling(R"("over": "seq_len_q=4..16")");
  excused.insert(1, R"("misses": [], )");
  EXPECT_THAT(suite_error(excused), HasSubstr("misses: there is no case that it could excuse"));
  EXPECT_THAT(suite_error(R"({"name": "s", "summary": "for tests", "scaling": []})"),
              HasSubstr("scaling: must be a list of 1 to"));
}

}  // namespace
}  // namespace attest::core
