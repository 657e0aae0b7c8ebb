// What kernels read of a problem: copies of the problem, its parameters and its tensors' layouts in the device's memory, so that
// attest.hpp's views work there; and the addresses of the tensors as a kernel's argument.
#pragma once
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "attest.hpp"

namespace cuda {

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // so that the next call does not report it again
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// data[] of attest_impl::run, by value: the host's array is gone when a kernel starts.
struct Data {
  void* at[ATTEST_ROLES];
  explicit Data(void* const* data) {
    for (int role = 0; role < ATTEST_ROLES; ++role) at[role] = data[role];
  }
};

/// Made in create, before anything is timed.
class DeviceProblem {
 public:
  explicit DeviceProblem(const attest_problem& problem) {
    check(cudaMalloc(&room_, sizeof(Room)), "cudaMalloc");
    Room room{};
    std::memcpy(room.params, problem.params, ATTEST_ROOM);
    std::memcpy(room.tensor, problem.tensor, sizeof(room.tensor));
    room.problem = problem;
    room.problem.params = room_->params, room.problem.tensor = room_->tensor;
    check(cudaMemcpy(room_, &room, sizeof(Room), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  DeviceProblem(const DeviceProblem&) = delete;
  DeviceProblem& operator=(const DeviceProblem&) = delete;
  ~DeviceProblem() { cudaFree(room_); }

  const attest_problem* get() const { return &room_->problem; }

 private:
  struct Room {
    attest_problem problem;
    alignas(64) unsigned char params[ATTEST_ROOM];
    attest_tensor tensor[ATTEST_ROLES];
  };
  Room* room_ = nullptr;
};

}  // namespace cuda
