// What the plugin's tables call: one plan a (mutation, problem).
#pragma once
#include <memory>

#include "attest.hpp"
#include "mutants/operations/mutation.hpp"

namespace mutants {

struct Plan {
  virtual ~Plan() = default;
  virtual void run(void* const* data, void* workspace) const = 0;
};

/// Runs Kernel<T>, where T is the type of the elements of `role`. Kernels of different files must
/// have different names, even in unnamed namespaces: g++ 12 merges plans of the same name.
template <template <class> class Kernel>
class TypedPlan final : public Plan {
 public:
  TypedPlan(Mutation mutation, const attest_problem& problem, int role)
      : mutation_(mutation), problem_(problem), role_(role) {}

  void run(void* const* data, void* workspace) const override {
    switch (problem_.tensor[role_].dtype) {
      case ATTEST_F32: return Kernel<float>(mutation_, problem_, data).run(workspace);
      case ATTEST_F16: return Kernel<attest::Half>(mutation_, problem_, data).run(workspace);
      default: return Kernel<attest::BFloat16>(mutation_, problem_, data).run(workspace);
    }
  }

 private:
  const Mutation mutation_;
  const attest_problem& problem_;
  const int role_;
};

/// Declares arithmetic and workspace; why not, or null. The same for every mutation: a bug that is
/// declared is none.
const char* query_softmax(const attest_problem& problem, attest_support& support);
const char* query_linear(const attest_problem& problem, attest_support& support);
const char* query_deformable(const attest_problem& problem, attest_support& support);

/// "nothing is wrong here" where the mutation changes no result of this problem, whatever the data;
/// else null.
const char* equivalent(Mutation mutation, const attest_problem& problem);

std::unique_ptr<Plan> plan_softmax(Mutation mutation, const attest_problem& problem);
std::unique_ptr<Plan> plan_linear(Mutation mutation, const attest_problem& problem);
std::unique_ptr<Plan> plan_deformable(Mutation mutation, const attest_problem& problem);

/// Hands out the workspace piece by piece; with no memory it counts the bytes.
class Arena {
 public:
  explicit Arena(void* memory) : memory_(static_cast<char*>(memory)) {}
  template <class T>
  T* take(int64_t count) {
    T* piece = memory_ ? reinterpret_cast<T*>(memory_ + bytes_) : nullptr;
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  size_t bytes() const { return bytes_; }

 private:
  char* memory_;
  size_t bytes_ = 0;
};

}  // namespace mutants
