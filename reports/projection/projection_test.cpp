// Projected times against figures by hand, what is refused, and the intervals of two machines.
#include "reports/projection/projection.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/tensor/error.hpp"
#include "reports/projection/gpu.hpp"
#include "reports/projection/projection_text.hpp"
#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Results;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const BoardMode& board(const char* name) { return *find_board_mode(name); }

// Dense attention of 16 heads and 4,096 tokens in 150 us on an H100 at 1,755 MHz.
Record dense() {
  Record r = attest::testing::passed("flash", 150e3);
  r.operation = "softmax";
  r.spec = "softmax dtype=f16 num_heads=16 seq_len_q=4096 head_dim=64";
  r.arithmetic = "qk=f16,pv=f16,score=f32,acc=f32";
  r.flops = 4.0 * 16 * 4096 * 4096 * 64;
  r.min_bytes = 4.0 * 16 * 4096 * 64 * 2;
  r.memory.workspace_bytes = 0;
  r.time->median_ns = 150e3;
  r.time->device.emplace().clock_mhz = 1755;
  return r;
}

Results on_h100(std::vector<Record> records) {
  Results file = attest::testing::file(std::move(records));
  file.header.environment["cuda"] = {{"name", "NVIDIA H100 80GB HBM3"},
                                     {"architecture", "sm_90"},
                                     {"multiprocessors", "132"},
                                     {"cache_bytes", "52428800"}};
  return file;
}

Record on_cpu(const std::string& limit = "f32 AVX3", double share = 0.5) {
  Record r = attest::testing::passed("flash_cpu", 1e6);
  r.device = "cpu";
  r.operation = "softmax";
  r.dtype = "f32";
  r.threads = 2;
  r.flops = 1e8;
  r.time->median_ns = 1e6;
  r.roofline = core::RooflineRecord{
      .share = share, .limit = limit, .least_ns = share * 1e6, .flops_per_byte = 1e3};
  return r;
}

TEST(Gpu, SharedMemoryLimitsTheRowsOfATile) {
  const double sm_90 = core::find_gpu_architecture("sm_90")->shared_bytes,
               sm_87 = core::find_gpu_architecture("sm_87")->shared_bytes;
  EXPECT_EQ(tile_rows(sm_90, 64, 64, 2), 128);
  EXPECT_EQ(tile_rows(sm_87, 64, 64, 2), 128);
  EXPECT_EQ(tile_rows(sm_90, 256, 256, 2), 128);
  EXPECT_EQ(tile_rows(sm_87, 256, 256, 2), 64) << "128 KiB of keys beside 32 of rows";
  EXPECT_EQ(tile_rows(sm_87, 512, 512, 2), 0);
}

GpuLimits maxn(int multiprocessors) {
  GpuLimits gpu = gpu_of(board("orin-agx64-maxn"));
  gpu.multiprocessors = multiprocessors;
  return gpu;
}

TEST(Gpu, TheLastWaveIsNotFull) {
  Record record = dense();  // 16 x 32 tiles
  const double full = bound_on(maxn(16), record).bound->ns;
  EXPECT_NEAR(full, record.flops / (16 * 1.3005 * 2048), 1e-6 * full) << "512 tiles in 32 waves";
  EXPECT_NEAR(bound_on(maxn(15), record).bound->ns, full * 16 / 15 * (35 * 15) / 512, 1e-6 * full);
  record.spec = "softmax dtype=f16 num_heads=16 seq_len_q=4096 head_dim=256";
  record.flops *= 4;
  record.min_bytes *= 4;
  EXPECT_NEAR(bound_on(maxn(20), record).bound->ns, 4 * full * 16 / 20 * (52 * 20) / 1024,
              1e-6 * full)
      << "tiles of 64 rows";
}

TEST(Gpu, CausalTilesDifferInWork) {
  Record record = dense();
  record.features = "CAUSAL";
  record.flops /= 2;
  const auto factor = [&](int multiprocessors) {
    const double even = record.flops / (multiprocessors * 1.3005 * 2048);
    return bound_on(maxn(multiprocessors), record).bound->ns / even;
  };
  EXPECT_NEAR(factor(15), 1, 1e-9) << "the last wave is of short tiles";
  record.spec = "softmax dtype=f16 num_heads=1 seq_len_q=4096 head_dim=64";
  // The last tile has 63 of the head's 32^2 half tiles of 128 keys.
  EXPECT_NEAR(factor(16), 1, 1e-9);
  EXPECT_NEAR(factor(20), 63.0 * 20 / 1024, 1e-9);
  record.spec = "softmax dtype=f16 num_heads=16 seq_len_q=64 head_dim=64";
  EXPECT_NEAR(factor(15), 2 * 15.0 / 16, 1e-9) << "16 like tiles, as of a dense problem";
}

TEST(Gpu, ProductsNameTheLimitAndStorageSetsTheBytes) {
  Record record = dense();
  record.dtype = "f32";
  record.arithmetic = "qk=bf16,pv=bf16,score=f32,acc=f32";
  record.min_bytes *= 2;
  EXPECT_EQ(bound_on(maxn(16), record).bound->limit, "bf16 tensor cores");
  GpuLimits gpu = maxn(16);
  gpu.memory_gbs = 0.01;
  gpu.l2_bytes = 3 << 20;  // half of it is less than 2 MiB a head
  EXPECT_NEAR(bound_on(gpu, record).bound->ns,
              (record.min_bytes + (2 - 1) * 16 * double(2 << 20)) / 0.01, 1);
}

TEST(Gpu, RatesAreThoseOfItsArchitecture) {
  const Record record = dense();
  std::string why;
  const auto board_of = [&](const char* architecture) {
    Results file = on_h100({record});
    file.header.environment["cuda"]["name"] = "a board's";
    file.header.environment["cuda"]["architecture"] = architecture;
    file.header.environment["board"]["memory_cap_gbs"] = "273";
    return gpu_of(file, record, why);
  };
  ASSERT_TRUE(board_of("sm_87"));
  EXPECT_EQ(board_of("sm_87")->architecture->tensor_f16, 2048);
  EXPECT_NEAR(board_of("sm_87")->memory_gbs, 273, 1e-9);
  EXPECT_FALSE(board_of("sm_110")) << "of a Thor";
  EXPECT_EQ(why, "the rates of sm_110 are not known");
  EXPECT_EQ(gpu_of(on_h100({record}), record, why)->architecture->tensor_f16, 4096);
  Results endless = on_h100({record});
  endless.header.environment["cuda"]["multiprocessors"] = "1e300";
  EXPECT_EQ(gpu_of(endless, record, why)->multiprocessors, 1024);
}

TEST(Gpu, EachWaveReadsTheKeysThatL2DoesNotHold) {
  const Record record = dense();  // 1 MiB of keys and values a head
  GpuLimits gpu = maxn(16);
  gpu.memory_gbs = 0.01;  // reads decide
  const double once = bound_on(gpu, record).bound->ns;
  EXPECT_NEAR(once, record.min_bytes / 0.01, 1);
  gpu.l2_bytes = 1 << 20;  // half of it is less
  const Bound again = *bound_on(gpu, record).bound;
  EXPECT_NEAR(again.ns, (record.min_bytes + (2 - 1) * 16 * double(1 << 20)) / 0.01, 1)
      << "4,096 rows in waves of 16 x 128";
  EXPECT_TRUE(again.reads);
  gpu.l2_bytes = 0;
  gpu.memory_gbs = record.min_bytes * 1.5 / (record.flops / (16 * 1.3005 * 2048));
  EXPECT_EQ(bound_on(gpu, record).bound->reads, false);
  gpu.memory_gbs /= 1.4;  // read once they do not decide, read twice they do
  EXPECT_THAT(bound_on(gpu, record).why, HasSubstr("the L2 of Jetson AGX Orin 64GB is not known"));
}

TEST(Projection, IsTheLeastTimeThereByTheShareHere) {
  const Record record = dense();
  const Projection projection = project(record, on_h100({record}), board("orin-agx64-maxn"));
  ASSERT_EQ(projection.why, "");
  // 512 tiles on 132 multiprocessors: 4 waves
  const double share = record.flops / (132 * 1.755 * 4096) * (4 * 132) / 512 / 150e3;
  EXPECT_NEAR(projection.basis.share, share, 1e-9);
  EXPECT_NEAR(projection.ns, record.flops / (16 * 1.3005 * 2048) / share, 1);
  EXPECT_FALSE(projection.low_ns);
  const Record cpu = on_cpu();
  const Projection cores = project(cpu, attest::testing::file({cpu}), board("orin-agx64-maxn"));
  ASSERT_EQ(cores.why, "");
  EXPECT_NEAR(cores.ns, 1e8 / (2 * 2.2016 * 16) / 0.5, 1);
}

// A thread takes a core, and there are no more than the board has.
TEST(Projection, SaysHowManyCoresItTakes) {
  Record record = on_cpu();
  for (const auto& [threads, cores] : {std::pair{2, 2}, {12, 12}, {16, 12}}) {
    record.threads = threads;
    const Results file = attest::testing::file({record});
    const ProjectionTarget target{.board = &board("orin-agx64-maxn")};
    const Projected projected = project_all({&file, 1}, target);
    EXPECT_NEAR(projected.files[0].projections[0].ns, 1e8 / (cores * 2.2016 * 16) / 0.5, 1);
    const std::string says = fmt::format("on {} of 12 cores, 50 % of the peak in f32", cores);
    EXPECT_THAT(print_projected(projected),
                HasSubstr(fmt::format("{}, as where it was measured (1.00 ms on {} threads)\n",
                                      says, threads)));
    EXPECT_THAT(projected_markdown(projected),
                AllOf(HasSubstr("| " + says + " |"),
                      HasSubstr(fmt::format("| 1.00 ms on {} threads |", threads))));
    const nlohmann::ordered_json one = projected_json(projected)["projections"][0];
    EXPECT_EQ(one["threads"], threads);
    EXPECT_EQ(one["cores"], cores);
  }
  record.threads = 1;
  const Results file = on_h100({record, dense()});
  const ProjectionTarget target{.board = &board("orin-agx64-maxn")};
  const Projected projected = project_all({&file, 1}, target);
  const std::string text = print_projected(projected);
  EXPECT_THAT(text, AllOf(HasSubstr("(1.00 ms on 1 thread)\n"),
                          HasSubstr("tensor cores allow, as where it was measured (150 us)\n")));
  const nlohmann::ordered_json on_gpu = projected_json(projected)["projections"][1];
  EXPECT_TRUE(on_gpu["threads"].is_null() && on_gpu["cores"].is_null());
}

// One lane of AVX-512, or multiply-adds in f32 outside the tensor cores of an H100, reach a
// sixteenth.
TEST(Projection, ARunFarFromItsLimitIsRefused) {
  const auto why = [](const Record& record) {
    return project(record, on_h100({record}), board("orin-agx64-maxn")).why;
  };
  EXPECT_EQ(why(on_cpu("f32 AVX3", 0.063)), "");
  EXPECT_EQ(
      why(on_cpu("f32 AVX3", 0.062)),
      "it reaches 6.2 % of what f32 AVX3 allow, less than a sixteenth: they are not its limit");
  Record far = dense();
  far.time->median_ns *= 12;
  EXPECT_THAT(why(far), HasSubstr("of what f16 tensor cores allow, less than a sixteenth"));
}

TEST(Projection, WhatIsNotKnownIsRefused) {
  struct Refusal {
    const char* why;
    std::function<void(Record&)> change;
    std::function<void(Results&)> elsewhere = [](Results&) {};
  };
  const auto cpu = [](const char* limit) { return [limit](Record& r) { r = on_cpu(limit); }; };
  const Refusal refusals[] = {
      {"did not pass", [](Record& r) { r.outcome = {core::ReasonCode::kFailNan, ""}; }},
      {"it was skipped", [](Record& r) { r.outcome = {core::ReasonCode::kSkippedMemory, ""}; }},
      {"was not timed", [](Record& r) { r.time.reset(); }},
      {"was disturbed", [](Record& r) { r.noisy = {"the power mode changed"}; }},
      {"the limits of Fake are not known", [](Record&) {},
       [](Results& file) { file.header.environment["cuda"]["name"] = "Fake"; }},
      {"the clock of its GPU was not seen", [](Record& r) { r.time->device->clock_mhz = 0; }},
      {"the cost of a launch", [](Record& r) { r.time->median_ns = 5e3; }},
      {"what limits linear on a GPU", [](Record& r) { r.operation = "linear"; }},
      {"not in f16 or bf16 (qk=tf32,pv=f16)", [](Record& r) { r.arithmetic = "qk=tf32,pv=f16"; }},
      {"whether products or reads limit it on NVIDIA H100",
       [](Record& r) {
         r.features = "GRID";
         r.min_bytes = 3352 * 100e3;
       }},
      {"whether products or reads limit it on NVIDIA H100",
       [](Record& r) {
         r.features = "CAUSAL";
         r.min_bytes = 3352 * 100e3;
       }},
      {"how full its waves are on NVIDIA H100", [](Record& r) { r.features = "GRID+REL_BIAS"; }},
      {"how full its waves are on NVIDIA H100",  // diagonals of rectangles
       [](Record& r) {
         r.features = "CAUSAL";
         r.spec += " seq_len_kv=8192";
       }},
      {"how many tiles it has is not known (VARLEN)", [](Record& r) { r.features = "VARLEN"; }},
      {"the rates of sm_110 are not known", [](Record&) {},
       [](Results& file) { file.header.environment["cuda"]["architecture"] = "sm_110"; }},
      {"reads its workspace", [](Record& r) { r.memory.workspace_bytes = 1 << 30; }},
      {"of the least time", [](Record& r) { r.time->median_ns = 20e3; }},
      {"no tile of it fits",
       [](Record& r) { r.spec = "softmax num_heads=16 seq_len_q=4096 head_dim=1024"; }},
      // On the H100 reads, on the board arithmetic
      {"a share of the one says nothing of the other; it takes at least",
       [](Record& r) { r.min_bytes = 3352 * 100e3; }},
      {"no finite number above 0", [](Record& r) { r.time->median_ns = std::nan(""); }},
      {"its operations or its bytes",
       [](Record& r) {
         r = on_cpu();
         r.flops = std::nan("");
       }},
      {"its operations or its bytes",
       [](Record& r) {
         r = on_cpu();
         r.flops = 0;
       }},
      {"it has no roofline",
       [](Record& r) {
         r = on_cpu();
         r.roofline.reset();
       }},
      {"the rate of the cores", cpu("L2 reads")},
      {"bf16 AMX, for which", cpu("bf16 AMX")},
  };
  for (const Refusal& refusal : refusals) {
    Record record = dense();
    refusal.change(record);
    Results file = on_h100({record});
    refusal.elsewhere(file);
    const Projection projection = project(record, file, board("orin-nx16-10w"));
    EXPECT_THAT(projection.why, HasSubstr(refusal.why));
    EXPECT_EQ(projection.ns, 0) << refusal.why;
  }
  const Record record = dense();
  EXPECT_EQ(project(record, on_h100({record}), board("orin-nx16-10w")).why, "");
  Record windows = record;  // 4,096 tiles of 128 rows
  windows.features = "GRID+REL_BIAS";
  windows.spec += " batch=8";
  EXPECT_EQ(project(windows, on_h100({windows}), board("orin-nx16-10w")).why, "");
}

const LimitKind kCores{.device = "cpu"};

Results cpus(const char* model, const std::vector<double>& shares,
             const std::string& limit = "f32 AVX3") {
  std::vector<Record> records;
  for (size_t i = 0; i < shares.size(); ++i) {
    records.push_back(on_cpu(limit, shares[i]));
    records.back().case_name = "case" + std::to_string(i);
  }
  Results file = attest::testing::file(std::move(records));
  file.header.environment.erase("cuda");
  file.header.environment["cpu"]["model"] = model;
  return file;
}

TEST(Calibration, NineCasesGiveAnInterval) {
  const std::vector<double> half(9, 0.5);
  std::vector<double> there = half;
  there[0] = 0.25;
  there[1] = 0.75;  // twice as long as projected, and two thirds
  const Calibration calibration = calibrate(cpus("one", half), cpus("other", there));
  EXPECT_EQ(calibration.spreads.at(kCores).ratios.size(), 9u);
  EXPECT_NEAR(calibration.spreads.at(kCores).ratios.front(), 2.0 / 3, 1e-12);
  EXPECT_NEAR(calibration.factor(kCores).value_or(0), 2, 1e-12);
  EXPECT_FALSE(calibration.factor({"cpu", true}));
  // The other way round the factor is the same.
  EXPECT_NEAR(calibrate(cpus("other", there), cpus("one", half)).factor(kCores).value_or(0), 2,
              1e-12);
  there.pop_back();
  EXPECT_FALSE(calibrate(cpus("one", half), cpus("other", there)).factor(kCores))
      << "eight cases cannot say where nine of ten lie";
  // Of 19 cases one may be as far off as it likes
  std::vector<double> many(19, 0.5), outlier = many;
  outlier[0] = 0.001;
  outlier[1] = 0.4;
  EXPECT_NEAR(calibrate(cpus("one", many), cpus("other", outlier)).factor(kCores).value_or(0), 1.25,
              1e-12);

  // Of cases that would be refused nothing is known; a time that is far off on the second machine
  // alone is one that a projection misses.
  EXPECT_EQ(
      calibrate(cpus("one", {0.5, 0.05}), cpus("other", {0.05, 0.5})).spreads.at(kCores).ratios,
      std::vector<double>{0.5 / 0.05});

  const Record record = on_cpu();
  const Projection projection =
      project(record, attest::testing::file({record}), board("orin-agx64-maxn"), &calibration);
  EXPECT_NEAR(*projection.high_ns, 2 * projection.ns, 1e-6);
  EXPECT_NEAR(*projection.low_ns, projection.bound->ns, 1e-6) << "no less than the limits allow";
  const Record on_gpu = dense();
  const Projection gpu = project(on_gpu, on_h100({on_gpu}), board("orin-agx64-maxn"), &calibration);
  EXPECT_GT(gpu.ns, 0);
  EXPECT_FALSE(gpu.low_ns || gpu.high_ns) << "how far cores are off says nothing of a GPU";
}

TEST(Calibration, OnlyLikeLimitsOfTwoMachinesCount) {
  const std::vector<double> half(9, 0.5);
  const auto error = [&](const Results& from, const Results& to) -> std::string {
    try {
      calibrate(from, to);
    } catch (const core::Error& caught) {
      return caught.what();
    }
    return {};
  };
  EXPECT_THAT(error(cpus("one", half), cpus("one", half)), HasSubstr("needs two machines"));
  EXPECT_THAT(error(cpus("one", half), cpus("other", {})), HasSubstr("no case in common"));
  EXPECT_THAT(error(cpus("one", half), cpus("other", half, "L2 reads")),
              HasSubstr("no case in common"));
  Results mixed = cpus("other", half);
  mixed.records[0].roofline->limit = "L2 reads";
  mixed.records[1].noisy = {"throttled"};
  mixed.records[2].device = "another";
  const Calibration calibration = calibrate(cpus("one", half), mixed);
  EXPECT_EQ(calibration.other_limits, 2u);
  EXPECT_EQ(calibration.spreads.at(kCores).ratios.size(), 6u);
}

TEST(Projected, LeavesOutWhatIsUnsupportedOrNotWanted) {
  Record unsupported = dense();
  unsupported.outcome = {core::ReasonCode::kUnsupportedQuery, "no f16"};
  const Results file = on_h100({dense(), unsupported, on_cpu()});
  const ProjectionTarget target{.board = &board("orin-agx64-maxn")};
  EXPECT_EQ(project_all({&file, 1}, target).files.at(0).projections.size(), 2u);
  const Projected of_flash =
      project_all({&file, 1}, target, [](const Record& record) { return record.impl == "flash"; });
  ASSERT_EQ(of_flash.files.at(0).projections.size(), 1u);
  EXPECT_EQ(of_flash.files[0].projections[0].record, &file.records[0]);
}

TEST(ProjectionText, SaysProjectionWithEachTimeAndEscapes) {
  Record hostile = dense();
  hostile.impl = "a\033[31m|<b>";
  const Results file = on_h100({dense(), hostile});
  const ProjectionTarget target{.board = &board("orin-agx64-maxn")};
  const Projected projected = project_all({&file, 1}, target);
  EXPECT_EQ(projected.count(), 2u);
  const std::string text = print_projected(projected), page = projected_markdown(projected);
  EXPECT_EQ(text.find('\033'), text.npos);
  EXPECT_EQ(page.find("<b>"), page.npos);
  EXPECT_THAT(text,
              AllOf(HasSubstr("from x.jsonl, NVIDIA H100 80GB HBM3"), HasSubstr("data sheet")));
  for (const std::string& all : {text, page}) {
    size_t times = 0;
    std::istringstream lines(all);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("150 us") == line.npos) continue;
      ++times;
      EXPECT_THAT(line, HasSubstr("PROJECTION "));
    }
    EXPECT_EQ(times, 2u);
  }
  const nlohmann::ordered_json document = projected_json(projected);
  EXPECT_EQ(document["label"], kProjection);
  EXPECT_EQ(document["projections"][0]["label"], kProjection);
  EXPECT_TRUE(document["calibration"].is_null());
}

}  // namespace
}  // namespace attest::reports
