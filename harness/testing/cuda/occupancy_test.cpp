// Resident blocks and occupancy against hand-computed ones, and the table of kernels against what a
// person should read.
#include "testing/cuda/occupancy.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include <string>

#include "testing/cuda/ptxas_rows.hpp"

namespace cuda {
namespace {

void expect(const Kernel& kernel, const Multiprocessor& on, int blocks, double occupancy,
            const std::string& limit) {
  const Residency found = resident(kernel, on);
  EXPECT_EQ(found.blocks, blocks);
  EXPECT_DOUBLE_EQ(found.occupancy, occupancy);
  EXPECT_EQ(found.limit, limit);
}

TEST(Occupancy, WhatRunsOutFirstDecides) {
  expect({32, 16, 0}, kOrin, 16, 16.0 / 48, "blocks");
  expect({256, 32, 0}, kOrin, 6, 1, "threads");
  expect({0, 32, 0}, kOrin, 1, 32.0 / 48, "threads");  // unbounded: 1024
  expect({1024, 32, 0}, kOrin, 1, 32.0 / 48, "threads");
  // 168 registers: 5376 a warp, 3 warps of each part's 16384, 12 of the multiprocessor
  expect({128, 168, 0}, kOrin, 3, 0.25, "registers");
  // 170 are given as 176 (5632 a warp): 2 warps of each part, 8 of the multiprocessor
  expect({128, 170, 0}, kOrin, 2, 8.0 / 48, "registers");
  expect({128, 255, 0}, kOrin, 2, 8.0 / 48, "registers");
  // 48 KiB and the system's 1 KiB: 3 x 49 = 147 of 164 KiB
  expect({128, 64, 48 << 10}, kOrin, 3, 0.25, "shared memory");
  expect({128, 64, 81 << 10}, kOrin, 2, 8.0 / 48, "shared memory");
  expect({128, 64, (81 << 10) + 1}, kOrin, 1, 4.0 / 48, "shared memory");
  // a block of 5 warps: 12 warps hold two
  expect({160, 168, 0}, kOrin, 2, 10.0 / 48, "registers");
  expect({384, 168, 200 << 10}, kHopper, 1, 12.0 / 64, "shared memory");
}

TEST(Occupancy, WhatDoesNotFitIsNotResident) {
  expect({128, 32, 164 << 10}, kOrin, 0, 0, "shared memory");
  expect({1024, 255, 0}, kOrin, 0, 0, "registers");
}

std::vector<KernelRow> rows_of(const std::string& lines) {
  Shapes shapes;
  shapes["flash::Shape<64,1,64,true>"] = {64, 64, 48 << 10};
  std::istringstream in(lines);
  return read_rows(in, shapes);
}

TEST(KernelTable, IsReadable) {
  const auto rows = rows_of(
      "flash_cuda\t80\t128\t200\t0\t0\tattend<Half, flash::Shape<64, 1, 64, true> >\n"
      "flash_cuda\t87\t128\t210\t20\t128\tattend<Half, flash::Shape<64, 1, 64, true> >\n"
      "linear_cuda\t87\t64\t36\t0\t0\tadd_chunks\n");
  const std::string text = print_tables(rows, "nvcc 13");
  EXPECT_NE(
      text.find("| kernel | 80 | 87 |\n|---|---|---|\n"
                "| flash_cuda: attend Half, head_dim 64, 64 tokens a tile, flash::Shape<64, 1, "
                "64, true> | 200 | 210, **20 B** |\n"
                "| linear_cuda: add_chunks | | 36 |\n"),
      text.npos)
      << text;
  EXPECT_NE(
      text.find("flash::Shape<64, 1, 64, true> | 128 | 210 | 20 | 49280 | 2 | 17 % | registers |\n"
                "| linear_cuda: add_chunks | 64 | 36 | 0 | 0 | 16 | 67 % | blocks |\n"),
      text.npos)
      << text;
  EXPECT_EQ(text.find("Hopper"), text.npos);
}

TEST(KernelTable, ShapesAloneAndWithoutAreNamed) {
  int shared = 0;
  Shapes shapes;
  shapes["S::Shape<32, 1>"] = {32, 64, 1000};
  EXPECT_EQ(readable("attend<S::Shape<32, 1> >", shapes, shared),
            "attend, head_dim 32, 64 tokens a tile, S::Shape<32, 1>");
  EXPECT_EQ(shared, 1000);
  EXPECT_EQ(readable("merge<BFloat16>", shapes, shared), "merge BFloat16");
  EXPECT_THROW(readable("attend<S::Shape<64, 1> >", shapes, shared), std::runtime_error);
  EXPECT_THROW(rows_of("flash_cuda 87 many\n"), std::runtime_error);
}

}  // namespace
}  // namespace cuda
