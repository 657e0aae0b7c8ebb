// Records survive the round trip through JSON, satisfy the published schema, and the schema refuses
// what is not a record.
#include "core/record/record.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/tensor/error.hpp"
#include "testing/json_schema.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

Record sample() {
  Record r;
  r.suite = "vit";
  r.case_name = "vit_b16/self";
  r.spec = "softmax dtype=f16 num_heads=12 seq_len_q=197 head_dim=64";
  r.inputs = "random";
  r.impl = "flash_cpu";
  r.impl_version = "1";
  r.plugin = "flash_cpu.so";
  r.plugin_hash = "00ff00ff00ff00ff";
  r.libraries_hash = "1111111111111111";
  r.operation = "softmax";
  r.dtype = "f16";
  r.device = "cpu";
  r.threads = 2;
  r.sweep = SweepPoint{"dense", "seq_len_q", 4096, 5e7, uint64_t{2} << 30};
  r.outcome = {ReasonCode::kFailNan, "o[0,1,2,3] = nan where 1 is right"};
  r.arithmetic = "qk=f32";
  r.max_ratio = INFINITY;
  r.rms_ratio = NAN;
  FillRecord fill{.fill = "codebook",
                  .seed = "8000000000000000",
                  .inputs_hash = "0123456789abcdef",
                  .outputs_hash = "fedcba9876543210"};
  fill.judgement.outcome.code = ReasonCode::kFailNan;
  fill.judgement.max_ratio = INFINITY;
  fill.judgement.method = "closed form, all rows";
  fill.judgement.golden_device = "NVIDIA H200";
  fill.judgement.worst = Mismatch{"o", {0, 1, 2, 3}, 1, NAN, 1e-4, INFINITY};
  fill.judgement.location = Location{
      .tensor = "o",
      .elements = 8,
      .wrong_elements = 1,
      .rows = 2,
      .wrong_rows = 1,
      .exact_rows = 1,
      .first = {0, 1, 2, 3},
      .last = {0, 1, 2, 3},
      .parts = {{"head", "1"}},
      .map = ErrorMap{
          .across = "query", .down = "batch x head", .columns = 2, .lines = 1, .cells = {".x"}}};
  fill.judgement.more_locations = {Location{.tensor = "lse",
                                            .elements = 2,
                                            .wrong_elements = 1,
                                            .rows = 2,
                                            .wrong_rows = 1,
                                            .first = {0, 1, 2},
                                            .last = {0, 1, 2},
                                            .parts = {},
                                            .map = {}}};
  fill.judgement.guess = "it is as if softmax_scale were 1";
  fill.reruns = RerunRecord{.runs = 9,
                            .others = {{.outputs_hash = "0011223344556677",
                                        .runs = 3,
                                        .outcome = fill.judgement.outcome}},
                            .apart = true,
                            .workspace = "zeros",
                            .run_ns = 5};
  r.softmax_distance = 0.25;
  r.fills.push_back(fill);
  r.relations.push_back({.relation = "key-permutation",
                         .judgement = fill.judgement,
                         .run_ns = 1e6,
                         .reruns = fill.reruns});
  r.time = TimeRecord{
      .samples_ns = {1.5, 2.5},
      .iterations_per_sample = 3,
      .median_ns = 2,
      .audited_runs = 4,
      .audits_ns = 7,
      .audit_seed = "00ff00ff00ff00ff",
      .device =
          DeviceTimeRecord{
              {.replayed_runs = 256, .discarded_samples = 2, .launch_ns = 2500, .clock_mhz = 1980},
              {{"celsius", "41"}},
              {{"celsius", "55"}}},
      .usage = HostUsage{
          .minor_faults = 3,
          .preemptions = 2,
          .preempted_samples = {1},
          .no_migrations = "not counted",
          .counters = HardwareCounts{.cycles = 1e6, .cache_misses = 2, .counted_share = 0.5}}};
  PhaseRecord phase{.processing_time_ns = {1e6, 3e6},
                    .latency_ns = {1e6, 3e6},
                    .policies = {{.policy = "queue-all", .frames = 2}},
                    .missed_by_hz = {{"12", 1}},
                    .neighbours = {{"stream:2@5", 9.5, "GB/s"}},
                    .clock_held_ns = 1.5e6};
  phase.policies[0].never_ran = 1;
  phase.policies[0].percentiles = {{0.5, 1e6, 1e6, 3e6, 0.5, 3e6, 7, true, true},
                                   {.share = 0.999, .needed = 9}};
  r.paced = PacedRecord{.period_ns = 5e7, .alone = phase, .contended = phase, .slowdown = 1.5};
  r.paced->slowdown_share = 0.5;
  r.paced->slowdown_low = 1.25;
  r.paced->slowdown_high = 1.75;
  r.paced->slowdown_refusal = "a neighbour died";
  r.roofline =
      RooflineRecord{.share = 0.8, .limit = "bf16 AMX", .least_ns = 1e6, .flops_per_byte = 128.5};
  r.energy = {{.sensor = "rapl package-0",
               .covers = "CPU package 0",
               .method = "counter",
               .window_ns = 1.5e9,
               .runs = 3,
               .joules = 30,
               .run_joules = 10,
               .polled_joules = 31},
              {.sensor = "NVML", .covers = "the first CUDA device", .refusal = "no", .runs = 3}};
  r.board = BoardRecord{.before = {{"power_mode", "0 (MAXN)"}, {"gpu_locked", "yes"}},
                        .after = {{"power_mode", "2 (15W)"}},
                        .missing = {{"gpu_locked", "min_freq: Permission denied"}},
                        .over_current = {{"1", 0}, {"3", 2}}};
  r.noisy = {"the power mode changed from 0 (MAXN) to 2 (15W)"};
  r.memory.peak_bytes = 12345;
  r.launch = "2026-01-02T03:04:05Z";
  r.notes = {"a note"};
  r.repro = "attest repro --impl flash_cpu 'softmax'";
  return r;
}

class Schema : public ::testing::Test {
 protected:
  bool accepts(const json& line) {
    why_ = schema_.errors(line);
    return why_.empty();
  }
  testing::JsonSchema schema_{"reports/results.schema.json"};
  std::string why_;
};

TEST(Record, SurvivesTheRoundTrip) {
  const json line = to_json(sample());
  const json again = to_json(record_from_json(json::parse(line.dump())));
  EXPECT_EQ(line, again);
  EXPECT_EQ(line["max_ratio"], "inf");
  EXPECT_EQ(line["rms_ratio"], "nan");
  EXPECT_EQ(line["fills"][0]["judgement"]["location"]["parts"][0]["dim"], "head");
  EXPECT_EQ(line["fills"][0]["judgement"]["location"]["map"]["cells"][0], ".x");
  EXPECT_EQ(line["fills"][0]["judgement"]["location"]["exact_rows"], 1);
  EXPECT_EQ(line["fills"][0]["judgement"]["more_locations"][0]["tensor"], "lse");
  EXPECT_EQ(line["fills"][0]["judgement"]["guess"], "it is as if softmax_scale were 1");
  EXPECT_EQ(line["fills"][0]["seed"], "8000000000000000");
  EXPECT_EQ(line["fills"][0]["reruns"]["others"][0]["code"], "fail:nan");
  EXPECT_EQ(line["relations"][0]["reruns"]["apart"], true);
  EXPECT_EQ(line["relations"][0]["relation"], "key-permutation");
  const json& percentiles = line["paced"]["contended"]["policies"][0]["percentiles"];
  EXPECT_EQ(percentiles[0]["claimed_ns"], 3e6);
  EXPECT_EQ(percentiles[0]["value_at_least"], true);
  EXPECT_EQ(line["paced"]["alone"]["clock_held_ns"], 1.5e6);
  EXPECT_EQ(line["paced"]["contended"]["policies"][0]["never_ran"], 1);
  EXPECT_EQ(line["paced"]["slowdown_share"], 0.5);
  EXPECT_EQ(line["paced"]["slowdown_high"], 1.75);
  EXPECT_EQ(line["paced"]["slowdown_refusal"], "a neighbour died");
  EXPECT_FALSE(percentiles[1].contains("claimed_ns")) << "not supported is not 0";
  EXPECT_EQ(line["energy"][0]["polled_joules"], 31);
  EXPECT_FALSE(line["energy"][1].contains("polled_joules"));
  EXPECT_EQ(line["board"]["over_current"]["3"], 2);
  EXPECT_EQ(line["noisy"].size(), 1u);
  EXPECT_FALSE(to_json(Record()).contains("noisy")) << "nothing happened";
}

// New fields do not make a new version, so files without them are as good as ever.
TEST_F(Schema, RecordsFromBeforeAFieldWasAddedAreRead) {
  json line = to_json(sample());
  ASSERT_EQ(line.erase("relations"), 1u);
  json& paced = line["paced"];
  ASSERT_EQ(paced.erase("slowdown_refusal") + paced["alone"].erase("clock_held_ns"), 2u);
  ASSERT_EQ(paced["alone"]["policies"][0].erase("never_ran"), 1u);
  for (json& percentile : paced["alone"]["policies"][0]["percentiles"])
    ASSERT_EQ(percentile.erase("value_at_least") + percentile.erase("high_at_least"), 2u);
  EXPECT_TRUE(accepts(line)) << why_;
  EXPECT_TRUE(record_from_json(line).relations.empty());
  const json published =
      json::parse(std::ifstream(ATTEST_SOURCE_DIR "/reports/results.schema.json"));
  EXPECT_EQ(published["definitions"]["header"]["properties"]["schema"]["enum"],
            json::array({kSchemaVersion}));
}

// A newer attest may add fields. Who writes a record again keeps them.
TEST(Record, UnknownFieldsAreKept) {
  json line = to_json(sample());
  EXPECT_TRUE(record_from_json(line).unknown.empty());
  line["of_later"] = {{"joules", 1.5}};
  const Record record = record_from_json(line);
  ASSERT_EQ(record.unknown.size(), 1u);
  EXPECT_EQ(record.unknown.at("of_later"), R"({"joules":1.5})");
  EXPECT_EQ(to_json(record), line);
  // Absent optional fields are known.
  line = to_json(sample());
  line.erase("time");
  line.erase("gflops");
  EXPECT_TRUE(record_from_json(line).unknown.empty());
}

TEST(Record, NamesTheMissingKey) {
  json line = to_json(sample());
  line.erase("impl");
  try {
    record_from_json(line);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "record: key 'impl' is missing");
  }
  line = to_json(sample());
  line["verdict"] = "good";
  EXPECT_THROW(record_from_json(line), Error);
  line = to_json(sample());
  line["threads"] = "two";
  EXPECT_THROW(record_from_json(line), Error);
}

TEST_F(Schema, AcceptsRecordsAndHeaders) {
  EXPECT_TRUE(accepts(to_json(sample()))) << why_;
  Record untimed = sample();
  untimed.time.reset();
  untimed.memory.peak_bytes.reset();
  untimed.fills.clear();
  untimed.outcome.code = ReasonCode::kSkippedTime;
  EXPECT_TRUE(accepts(to_json(untimed))) << why_;
  EXPECT_TRUE(accepts(to_json(Closing::of({sample(), sample()}, "2026-01-01T00:00:00Z")))) << why_;
  Closing closing = Closing::of({sample()}, "2026-01-01T00:00:00Z");
  closing.never_judged = {{"mine", {"VARLEN", "bf16"}}};
  EXPECT_TRUE(accepts(to_json(closing))) << why_;
  EXPECT_EQ(to_json(closing)["never_judged"]["mine"], (json{"VARLEN", "bf16"}));
  closing.never_judged["mine"].clear();
  EXPECT_FALSE(accepts(to_json(closing))) << "of which all was judged is left out";
  EXPECT_TRUE(
      accepts(to_json(Header{"attest run", "2026-01-01T00:00:00Z", {{"cpu", {{"model", "x"}}}}})))
      << why_;
}

TEST_F(Schema, TakesPicturesOfTokens) {
  TokenPicture picture{.inputs = "lidar:curve=z",
                       .tokens = 3,
                       .cell_metres = 0.5,
                       .cells = std::vector<std::string>(64, std::string(128, ' '))};
  picture.cells[3].replace(2, 2, "zz");
  EXPECT_TRUE(accepts(to_json(picture))) << why_;
  picture.cells[3].replace(2, 2, "z ");
  EXPECT_FALSE(accepts(to_json(picture))) << "half a cell";
}

TEST_F(Schema, RefusesOthers) {
  const std::vector<std::pair<const char*, json>> wrong = {
      {"verdict", "good"}, {"threads", "2"}, {"plugin_hash", "xyz"}, {"max_ratio", "huge"},
      {"impl", ""},        {"fills", 3},     {"type", "note"},       {"dtype", "float"}};
  for (const auto& [key, value] : wrong) {
    json line = to_json(sample());
    line[key] = value;
    EXPECT_FALSE(accepts(line)) << key;
    line = to_json(sample());
    line.erase(key);
    EXPECT_FALSE(accepts(line)) << "without " << key;
  }
}

}  // namespace
}  // namespace attest::core
