// Which kernels a library has, and which devices take them. The headers are those that nvcc 13.0
// wrote for sm_87, sm_90a, sm_100f and PTX of compute_80.
#include "core/device/cuda/cuda_code.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/device/testing/fake_elf.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr FakeEntry kSass87{2, 87, 0x11}, kSass90a{2, 90, 0x100011, 64, 1544},
    kSass100f{2, 100, 0x1208011, 96, 528}, kPtx80{1, 80, 0x8011, 80, 240};

std::vector<CudaCode> parse(const std::string& file) {
  return parse_cuda_code(std::as_bytes(std::span(file)));
}

TEST(CudaCode, IsReadFromTheSectionOfNvcc) {
  const std::string two = fake_container({kSass87, kSass90a}) + std::string(8, '\0') +
                          fake_container({kSass87, kSass90a, kPtx80});
  EXPECT_EQ(print(parse(fake_elf(".nv_fatbin", two))), "sm_87 sm_90a, PTX of compute_80");
  EXPECT_EQ(print(parse(fake_elf("__nv_relfatbin", fake_container({kSass100f})))), "sm_100f");
  EXPECT_EQ(print(parse(fake_elf(".nv_fatbin", fake_container({kPtx80})))), "PTX of compute_80");
  EXPECT_THAT(parse(fake_elf(".text", two)), IsEmpty()) << "a plugin of the host";
  EXPECT_THAT(parse(fake_elf(".nv_fatbin", "")), IsEmpty());
  EXPECT_THAT(parse("no library"), IsEmpty());
  EXPECT_THAT(read_cuda_code("/nowhere.so"), IsEmpty());
}

TEST(CudaCode, WhatIsCutHasWhatComesBefore) {
  const std::string whole = fake_container({kSass87, kSass90a}),
                    file = fake_elf(".nv_fatbin", whole);
  for (size_t length = 0; length < file.size(); ++length)
    EXPECT_THAT(parse(file.substr(0, length)), IsEmpty()) << length;  // the sections are at the end
  std::string lies = whole;
  lies[16 + 8] = char(0xff);
  lies[16 + 9] = char(0xff);  // the first is longer than its container
  EXPECT_EQ(print(parse(fake_elf(".nv_fatbin", lies))), "sm_87");
  lies = whole;
  lies[16 + 4] = 8;  // a header that is too short
  EXPECT_THAT(parse(fake_elf(".nv_fatbin", lies)), IsEmpty());
}

TEST(CudaCode, FitsDevices) {
  const auto sass = [](int architecture, char variant = 0) {
    return CudaCode{architecture, false, variant};
  };
  const auto ptx = [](int architecture, char variant = 0) {
    return CudaCode{architecture, true, variant};
  };
  const std::tuple<CudaCode, int, CudaFit> known[] = {
      {sass(87), 87, CudaFit::kYes},        {sass(80), 86, CudaFit::kYes},
      {sass(86), 80, CudaFit::kNone},       {sass(80), 90, CudaFit::kNone},
      {sass(80), 87, CudaFit::kPerhaps},    {sass(86), 87, CudaFit::kPerhaps},
      {sass(87), 89, CudaFit::kPerhaps},    {sass(89), 87, CudaFit::kNone},
      {sass(90, 'a'), 90, CudaFit::kYes},   {sass(100, 'a'), 103, CudaFit::kNone},
      {sass(100, 'f'), 103, CudaFit::kYes}, {sass(100, 'f'), 110, CudaFit::kNone},
      {ptx(80), 87, CudaFit::kYes},         {ptx(87), 80, CudaFit::kNone},
      {ptx(80), 110, CudaFit::kYes},        {ptx(90, 'a'), 110, CudaFit::kNone},
      {ptx(90, 'a'), 90, CudaFit::kYes},
  };
  for (const auto& [code, architecture, expected] : known)
    EXPECT_EQ(int(fit(code, architecture)), int(expected))
        << print({code}) << " on sm_" << architecture;
  EXPECT_EQ(int(best_fit({sass(86), sass(90, 'a')}, 87)), int(CudaFit::kPerhaps));
  EXPECT_EQ(int(best_fit({}, 87)), int(CudaFit::kNone));
}

TEST(CudaCode, OnlyWhatIsKnownToBeMissingIsMissing) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("attest_code_" + std::to_string(getpid()) + ".so");
  std::ofstream(file, std::ios::binary)
      << fake_elf(".nv_fatbin", fake_container({kSass90a, {2, 75, 0x11}}));
  EXPECT_EQ(cuda_code_missing(file, "sm_87"), "no kernel for sm_87: it has sm_75 sm_90a");
  EXPECT_EQ(cuda_code_missing(file, "sm_90"), "");
  EXPECT_EQ(cuda_code_missing(file, "an architecture of tomorrow"), "");
  std::ofstream(file, std::ios::binary) << fake_elf(".text", "of the host, or made at run time");
  EXPECT_EQ(cuda_code_missing(file, "sm_87"), "");
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace attest::core
