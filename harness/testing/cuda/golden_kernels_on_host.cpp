// The golden's kernels on the host, thread by thread, as a library that the driver without a device
// takes for a module.
#include "testing/cuda/on_host.hpp"

#include "core/operations/softmax/golden/row_kernels.cuh"

namespace {

template <class Job>
void launch(void (*kernel)(Job), unsigned blocks, unsigned threads, void** parameters) {
  cuda::launch(kernel, blocks, static_cast<int>(threads), 0, nullptr,
               *static_cast<const Job*>(parameters[0]));
}

}  // namespace

extern "C" void attest_softmax_row_scores_on_host(unsigned blocks, unsigned threads,
                                                  void** parameters) {
  launch(attest_softmax_row_scores, blocks, threads, parameters);
}
extern "C" void attest_softmax_row_sums_on_host(unsigned blocks, unsigned threads,
                                                void** parameters) {
  launch(attest_softmax_row_sums, blocks, threads, parameters);
}
