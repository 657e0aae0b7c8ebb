// The intervals of times on cores where no results files of two machines are given: two processors
// that were measured at different times, whose figures are tables.
//
// Zen 5: an AMD EPYC with AVX-512 at full width, two virtual cores of a shared server, the better
// of two rounds; its probe read 255 GFLOP/s, on a busy day 236. The table is older than flash_cpu's
// faster kernels, so of commit a84bdf8 or one with the same kernels. Its rates are whole GFLOP/s.
// It was read, and cannot be measured again here.
//
// Zen 4: an AMD EPYC with AVX-512 in two halves, two virtual cores, 2026-11-27, the better of two
// rounds of at least a second with real-time priority, beside other people's builds. flash_cpu is
// that of commit a84bdf8. PyTorch and ONNX Runtime have the versions of the table: 2.15 and 1.32.
#include <algorithm>

#include "reports/projection/calibration.hpp"

namespace attest::reports {
namespace {

constexpr const char *kFlash = "flash_cpu", *kTorch = "PyTorch", *kOnnx = "ONNX Runtime";
constexpr RatedCase kCases[] = {
    {"12x197x64", kFlash, 148, 82.1},     {"12x197x64", kTorch, 75, 70.1},
    {"12x197x64", kOnnx, 179, 85.0},      {"8x12x197x64", kFlash, 123, 75.8},
    {"8x12x197x64", kTorch, 69, 62.7},    {"8x12x197x64", kOnnx, 132, 72.4},
    {"8x4096x32", kFlash, 193, 97.1},     {"8x4096x32", kTorch, 78, 72.2},
    {"8x4096x32", kOnnx, 171, 83.6},      {"8x2500x8700x32", kFlash, 190, 97.1},
    {"8x2500x8700x32", kTorch, 72, 71.2}, {"8x2500x8700x32", kOnnx, 164, 82.3},
    {"4x2048x64", kFlash, 205, 102.8},    {"4x2048x64", kTorch, 90, 84.1},
    {"4x2048x64", kOnnx, 189, 96.0},      {"118x4x1024x64", kFlash, 186, 98.7},
    {"118x4x1024x64", kTorch, 83, 80.8},  {"118x4x1024x64", kOnnx, 170, 93.9},
    {"8x16384x32", kFlash, 184, 94.1},    {"8x16384x32", kTorch, 80, 69.1},
    {"8x16384x32", kOnnx, 171, 79.6},     {"1x32768x64", kFlash, 200, 99.0},
    {"1x32768x64", kTorch, 82, 78.4},     {"1x32768x64", kOnnx, 159, 85.2},
};

Calibration from_rates(const RatedPair& pair) {
  Calibration calibration{.from = pair.from, .to = pair.to, .spreads = {}};
  std::vector<double>& ratios = calibration.spreads[{.device = "cpu"}].ratios;
  for (const RatedCase& one : pair.cases)
    ratios.push_back(one.from_gflops / pair.from_peak_gflops /
                     (one.to_gflops / pair.to_peak_gflops));
  std::ranges::sort(ratios);
  return calibration;
}

}  // namespace

const RatedPair& measured_pair() {
  static constexpr RatedPair kPair{.from = "AMD EPYC (Zen 5)",
                                   .to = "AMD EPYC (Zen 4)",
                                   .from_peak_gflops = 255,
                                   .to_peak_gflops = 118,
                                   .cases = kCases};
  return kPair;
}

const Calibration& calibration_of_cores() {
  static const Calibration calibration = from_rates(measured_pair());
  return calibration;
}

}  // namespace attest::reports
