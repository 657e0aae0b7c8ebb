// cuBLAS as cublas_cuda uses it, on the host: plain loops, for tests.
#include <cstdint>
#include <cstring>

#include "attest.hpp"

namespace {

enum { kAsIs = 0, kF32 = 0, kF16 = 2, kSuccess = 0, kInvalidValue = 7 };

attest::AnyElement element(const void* data, int type, long long index) {
  const int32_t dtype = type == kF32 ? ATTEST_F32 : type == kF16 ? ATTEST_F16 : ATTEST_BF16;
  return {const_cast<void*>(data), dtype, index};
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

/// A handle. As with the real one, a new stream takes the workspace away.
struct Handle {
  const void* workspace = nullptr;
};

API int cublasCreate_v2(void** handle) {
  *handle = new Handle;
  return kSuccess;
}
API int cublasSetStream_v2(void* handle, void*) {
  static_cast<Handle*>(handle)->workspace = nullptr;
  return kSuccess;
}
API int cublasSetWorkspace_v2(void* handle, void* workspace, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0) return kInvalidValue;
  std::memset(workspace, 0xff, bytes);  // it is all the library's
  static_cast<Handle*>(handle)->workspace = workspace;
  return kSuccess;
}
API const char* cublasGetStatusString(int status) {
  return status == kSuccess ? "success" : "an argument is invalid";
}
API int cublasGemmStridedBatchedEx(void* handle, int op_a, int op_b, int m, int n, int k,
                                   const void* alpha, const void* a, int a_type, int lda,
                                   long long a_step, const void* b, int b_type, int ldb,
                                   long long b_step, const void* beta, void* c, int c_type, int ldc,
                                   long long c_step, int count, int compute, int) {
  // What the real one demands of leading dimensions.
  if (lda < (op_a == kAsIs ? m : k) || ldb < (op_b == kAsIs ? k : n) || ldc < m || compute != 68)
    return kInvalidValue;
  // What makes it slow, and what adds allocations to graphs: it gets neither here.
  if ((c_type == kF32 && a_type != kF32 && ldc % 8 != 0) ||
      !static_cast<const Handle*>(handle)->workspace)
    return kInvalidValue;
  for (int at = 0; at < count; ++at)
    for (int column = 0; column < n; ++column)
      for (int row = 0; row < m; ++row) {
        float sum = 0;
        for (int e = 0; e < k; ++e) {
          const long long in_a = op_a == kAsIs ? row + static_cast<long long>(e) * lda
                                               : e + static_cast<long long>(row) * lda;
          const long long in_b = op_b == kAsIs ? e + static_cast<long long>(column) * ldb
                                               : column + static_cast<long long>(e) * ldb;
          sum += element(a, a_type, at * a_step + in_a) * element(b, b_type, at * b_step + in_b);
        }
        const long long in_c = at * c_step + row + static_cast<long long>(column) * ldc;
        const float before = *static_cast<const float*>(beta);
        const attest::AnyElement to = element(c, c_type, in_c);
        to = *static_cast<const float*>(alpha) * sum + (before == 0 ? 0 : before * to);
      }
  return kSuccess;
}
