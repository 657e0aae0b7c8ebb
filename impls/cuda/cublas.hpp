// cuBLAS, found at run time: what is built without it runs with it, and without it says so.
#pragma once
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#ifndef ATTEST_CUBLAS_WORKSPACE_BYTES
#define ATTEST_CUBLAS_WORKSPACE_BYTES (size_t{32} << 20)
#endif

namespace cuda {

/// The functions that are used, by their names in cublas_api.h; handles, streams and enumerators
/// are those of its ABI.
class Cublas {
 public:
  enum Operation { kAsIs = 0, kTransposed = 1 };  // cublasOperation_t
  enum Type { kF32 = 0, kF16 = 2, kBF16 = 14 };   // cudaDataType
  static constexpr int kCompute32F = 68,
                       kDefaultAlgorithm = -1;  // cublasComputeType_t, cublasGemmAlgo_t

  /// A batch of column-major matrices: `ld` elements from column to column, `step` from matrix to
  /// matrix.
  struct Matrices {
    const void* data;
    Type type;
    int ld;
    long long step;
  };

  /// What NVIDIA advises for Hopper. Without memory of its caller's, a call that is captured into a
  /// graph adds allocations to it.
  static constexpr size_t kWorkspaceBytes = ATTEST_CUBLAS_WORKSPACE_BYTES;

  /// The only one of a process, since a handle takes long to make. It is never destroyed: when a
  /// process ends, the driver may be gone before its static objects are. Throws std::runtime_error
  /// where there is no cuBLAS.
  static const Cublas& of_process() {
    static const Cublas* const only = new Cublas;
    return *only;
  }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  /// "" when it is there, else why not.
  static const std::string& missing() { return library().missing; }

  /// Sets where multiply() enqueues its work, and kWorkspaceBytes of memory for it, aligned to 256
  /// bytes.
  void use(void* stream, void* workspace) const {
    check(library().set_stream(handle_, stream), "cublasSetStream");
    // After the stream, since that takes the workspace away.
    check(library().set_workspace(handle_, workspace, kWorkspaceBytes), "cublasSetWorkspace");
  }
  /// c [m, n] = a [m, k] b [k, n], `count` times, each after its Operation, summed in float32.
  void multiply(Operation op_a, Operation op_b, int m, int n, int k, const Matrices& a,
                const Matrices& b, const Matrices& c, int count) const {
    const float one = 1, zero = 0;
    check(library().multiply(handle_, op_a, op_b, m, n, k, &one, a.data, a.type, a.ld, a.step,
                             b.data, b.type, b.ld, b.step, &zero, const_cast<void*>(c.data), c.type,
                             c.ld, c.step, count, kCompute32F, kDefaultAlgorithm),
          "cublasGemmStridedBatchedEx");
  }

 private:
  struct Library {
    int (*create)(void** handle) = nullptr;
    int (*set_stream)(void* handle, void* stream) = nullptr;
    int (*set_workspace)(void* handle, void* workspace, size_t bytes) = nullptr;
    int (*multiply)(void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha,
                    const void* a, int a_type, int lda, long long a_step, const void* b, int b_type,
                    int ldb, long long b_step, const void* beta, void* c, int c_type, int ldc,
                    long long c_step, int count, int compute, int algorithm) = nullptr;
    const char* (*status_string)(int status) = nullptr;
    std::string missing;

    Library() {
      void* found = open();
      if (!found) {
        missing = "cuBLAS is not there (libcublas.so.11 to 13; ATTEST_CUBLAS names another)";
        return;
      }
      find(found, "cublasCreate_v2", create);
      find(found, "cublasSetStream_v2", set_stream);
      find(found, "cublasSetWorkspace_v2", set_workspace);
      find(found, "cublasGemmStridedBatchedEx", multiply);
      find(found, "cublasGetStatusString", status_string);
    }
    static void* open() {
      if (const char* named = std::getenv("ATTEST_CUBLAS"))
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
      for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"})
        if (void* found = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return found;
      return nullptr;
    }
    template <class Function>
    void find(void* found, const char* name, Function& function) {
      function = reinterpret_cast<Function>(dlsym(found, name));
      if (!function && missing.empty()) missing = std::string("cuBLAS has no ") + name;
    }
  };
  Cublas() {
    if (!missing().empty()) throw std::runtime_error(missing());
    check(library().create(&handle_), "cublasCreate");
  }
  static const Library& library() {
    static const Library found;
    return found;
  }
  static void check(int status, const char* function) {
    if (status != 0)
      throw std::runtime_error(std::string(function) + ": " + library().status_string(status));
  }

  void* handle_ = nullptr;
};

}  // namespace cuda
