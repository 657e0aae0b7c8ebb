// What ptxas says of kernels, as Markdown: registers and bytes spilled by architecture; what that
// leaves on Orin and on Hopper. Input: lines "source architecture threads registers spilled shared
// kernel", separated by tabs. kernel_shapes.inc, which scripts/cuda_matrix.sh writes, has an
// ATTEST_SHAPE(...) for each shape that occurs: dynamic shared memory is the shapes' own figure.
// usage: ptxas_table TITLE <LINES
#include "testing/cuda/on_host_sm90.hpp"
#include "testing/cuda/ptxas_rows.hpp"

#include "cuda/linear_mma.cuh"
#include "cuda/patches.cuh"
#if __has_include("cuda/flash_sm90.cuh")
#include "cuda/flash_sm90.cuh"
#endif

#include <cstdio>
#include <iostream>

namespace {

template <class S>
void add(cuda::Shapes& shapes, const char* name) {
  shapes[name] = {S::kDim, S::kKeys, S::kSharedBytes};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: ptxas_table TITLE <LINES\n", stderr);
    return 64;
  }
  cuda::Shapes shapes;
#define ATTEST_SHAPE(...) add<__VA_ARGS__>(shapes, #__VA_ARGS__);
#include "kernel_shapes.inc"
  std::cout << cuda::print_tables(cuda::read_rows(std::cin, shapes), argv[1]);
}
