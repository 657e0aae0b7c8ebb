// For kernels_test: one problem with its tensors, run through a plugin's table by dlopen, and the
// same in plain float64. It shares nothing with the harness or with the implementations.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "attest.h"
#include "simd/storage.hpp"

namespace trial {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The table of a plugin in the build tree's plugins/ (or in $ATTEST_TRIAL_PLUGINS); null with a
/// message if it does not load.
const attest_impl* load(const std::string& name);

inline size_t size_of(int32_t dtype) {
  return dtype == ATTEST_F32 || dtype == ATTEST_I32 ? 4 : dtype == ATTEST_BOOL ? 1 : 2;
}

/// The channels of one token of a tensor that was decoded.
struct Channels {
  const double* first;
  int64_t stride;
  double operator[](int64_t c) const { return first[c * stride]; }
};

/// A tensor of exactly as many bytes as it needs, so that a sanitizer sees what lies beyond.
struct Tensor {
  attest_tensor spec{};
  std::vector<char> bytes;
  std::vector<double> values;  // of every element, once decode() was called

  void decode() {
    values.clear();
    std::vector<double> all(elements());
    for (size_t i = 0; i < all.size(); ++i) all[i] = get(static_cast<int64_t>(i));
    values.swap(all);
  }
  int64_t at(std::initializer_list<int64_t> index) const {
    int64_t element = 0, n = 0;
    for (const int64_t i : index) element += i * spec.stride[n++];
    return element;
  }
  double get(int64_t element) const {
    if (!values.empty()) return values[static_cast<size_t>(element)];
    const char* const p = bytes.data() + static_cast<size_t>(element) * size_of(spec.dtype);
    if (spec.dtype == ATTEST_BOOL) return *p;
    if (spec.dtype == ATTEST_I32) return *reinterpret_cast<const int32_t*>(p);
    return impls::element(spec.dtype, p, 0);
  }
  double operator()(std::initializer_list<int64_t> index) const { return get(at(index)); }
  /// `token`: the index of a token, all dims but the last.
  Channels channels(std::initializer_list<int64_t> token) const {
    return {values.data() + at(token), spec.stride[token.size()]};
  }
  void set(int64_t element, double value) {
    values.clear();
    char* const p = bytes.data() + static_cast<size_t>(element) * size_of(spec.dtype);
    const float rounded = static_cast<float>(value);
    const impls::F16 half = impls::narrow<impls::F16>(rounded);
    const impls::Bf16 brain = impls::narrow<impls::Bf16>(rounded);
    const int32_t number = spec.dtype == ATTEST_I32 ? static_cast<int32_t>(value) : 0;
    if (spec.dtype == ATTEST_BOOL) *p = value != 0;
    if (spec.dtype == ATTEST_I32) std::memcpy(p, &number, 4);
    if (spec.dtype == ATTEST_F32) std::memcpy(p, &rounded, 4);
    if (spec.dtype == ATTEST_F16) std::memcpy(p, &half, 2);
    if (spec.dtype == ATTEST_BF16) std::memcpy(p, &brain, 2);
  }
  size_t elements() const { return bytes.size() / size_of(spec.dtype); }
};

/// A tensor of those dims; `gap` more elements between rows (the last dim but one); dims of 1 get
/// stride 0.
inline Tensor make(int32_t dtype, const std::vector<int64_t>& dims, int64_t gap = 0) {
  Tensor t;
  t.spec.dtype = dtype;
  t.spec.rank = static_cast<int32_t>(dims.size());
  int64_t stride = 1, last = 0;
  for (size_t n = dims.size(); n-- > 0;) {
    t.spec.dim[n] = dims[n];
    t.spec.stride[n] = dims[n] == 1 ? 0 : stride;
    last += (dims[n] - 1) * t.spec.stride[n];
    stride *= dims[n];
    if (n + 1 == dims.size()) stride += gap;
  }
  t.bytes.assign(static_cast<size_t>(last + 1) * size_of(dtype), 0);
  return t;
}

/// A problem of any operation with its tensors by role.
struct Trial {
  std::map<int, Tensor> tensor;
  uint64_t features = 0;
  int32_t operation = ATTEST_SOFTMAX, threads = 1;
  double weight_error = 0, exp_error = 0;  // relative, that judge_softmax allows besides float32's
  alignas(64) char params[ATTEST_ROOM] = {};

  attest_softmax_params& softmax() { return *reinterpret_cast<attest_softmax_params*>(params); }
  const attest_softmax_params& softmax() const {
    return *reinterpret_cast<const attest_softmax_params*>(params);
  }
  attest_linear_params& linear() { return *reinterpret_cast<attest_linear_params*>(params); }
  const attest_linear_params& linear() const {
    return *reinterpret_cast<const attest_linear_params*>(params);
  }
  attest_deformable_params& deformable() {
    return *reinterpret_cast<attest_deformable_params*>(params);
  }
  const Tensor* find(int role) const {
    const auto found = tensor.find(role);
    return found == tensor.end() ? nullptr : &found->second;
  }
};

/// Fills with normal numbers.
inline void randomize(Tensor& t, std::mt19937_64& random, double size) {
  std::normal_distribution<double> normal;
  for (size_t i = 0; i < t.elements(); ++i) t.set(static_cast<int64_t>(i), size * normal(random));
}

struct Outcome {
  attest_status status = ATTEST_OK;
  std::string reason;
  attest_support support{};
};

inline bool is_output(const Trial& trial, int role) {
  if (trial.operation == ATTEST_SOFTMAX_BACKWARD)
    return role == ATTEST_DQ || role == ATTEST_DK || role == ATTEST_DV || role == ATTEST_DBIAS ||
           role == ATTEST_DSINKS;
  return role == ATTEST_O || role == ATTEST_LSE;
}

/// query, create, run twice, destroy, on poisoned outputs and workspace; data on 64 bytes, every
/// byte beyond them guarded if built with a sanitizer.
inline Outcome execute(const attest_impl& impl, Trial& trial) {
  alignas(64) char support_room[ATTEST_ROOM] = {}, problem_room[ATTEST_ROOM] = {};
  auto& support = *reinterpret_cast<attest_support*>(support_room);
  auto& problem = *reinterpret_cast<attest_problem*>(problem_room);
  std::vector<attest_tensor> specs(ATTEST_ROLES);
  std::vector<void*> data(ATTEST_ROLES), owned;
  const auto allocate = [&](size_t bytes, size_t alignment) {
    void* p = nullptr;
    if (posix_memalign(&p, alignment, bytes) != 0) std::abort();
    std::memset(p, 0xff, bytes);
    owned.push_back(p);
    return p;
  };
  for (auto& [role, t] : trial.tensor) {
    specs[static_cast<size_t>(role)] = t.spec;
    data[static_cast<size_t>(role)] = allocate(t.bytes.size(), 64);
    if (!is_output(trial, role))
      std::memcpy(data[static_cast<size_t>(role)], t.bytes.data(), t.bytes.size());
  }
  problem.struct_size = sizeof problem;
  problem.operation = trial.operation;
  problem.params = trial.params;
  problem.tensor = specs.data();
  problem.features = trial.features;
  problem.threads = trial.threads;
  Outcome outcome;
  support.struct_size = sizeof support;
  outcome.status = impl.query(&problem, &support);
  outcome.support = support;
  outcome.reason = support.reason;
  void* plan = nullptr;
  if (outcome.status == ATTEST_OK && (trial.features & ~impl.features) != 0)
    outcome.status = ATTEST_UNSUPPORTED;
  if (outcome.status == ATTEST_OK) outcome.status = impl.create(&problem, &plan);
  if (outcome.status == ATTEST_OK) {
    void* const workspace = allocate(support.workspace_bytes, 256);
    for (int n = 0; n < 2 && outcome.status == ATTEST_OK; ++n)
      outcome.status = impl.run(plan, data.data(), workspace, nullptr);
    if (outcome.status != ATTEST_OK) outcome.reason = impl.last_error();
    impl.destroy(plan);
    for (auto& [role, t] : trial.tensor)
      if (is_output(trial, role))
        std::memcpy(t.bytes.data(), data[static_cast<size_t>(role)], t.bytes.size());
  }
  for (void* p : owned) std::free(p);
  return outcome;
}

/// Error over what is allowed, the largest met; above 1 fails. NaN where the other is a number
/// counts as infinite.
struct Worst {
  double ratio = 0;
  void meet(double got, double expected, double allowed) {
    if (std::isnan(expected) && std::isnan(got)) return;
    if (got == expected) return;
    const double r = std::abs(got - expected) / allowed;
    if (!(r <= ratio)) ratio = std::isnan(r) ? kInfinity : r;
  }
};

/// Rounding to storage: half a unit in the last place, with a hair on top, and half the smallest
/// subnormal.
inline double unit(int32_t dtype) {
  return dtype == ATTEST_F32 ? 1.2e-7 : dtype == ATTEST_F16 ? 0x1.01p-11 : 0x1.01p-8;
}
inline double tiny(int32_t dtype) { return dtype == ATTEST_F16 ? 0x1.01p-25 : 1e-37; }

/// Softmax attention by definition in float64; the worst ratio of O and LSE over all rows.
double judge_softmax(Trial& trial);
/// Writes O and LSE of a dense or packed problem of gradients, rounded to their dtypes.
void write_forward(Trial& trial);
/// Gradients of dense or packed softmax attention by definition in float64, from O and LSE as they
/// are.
double judge_backward(Trial& trial);
/// Linear attention by definition in float64.
double judge_linear(Trial& trial);
/// Deformable attention by definition in float64. With `exact_places` no coordinate may err, as
/// where float32 holds them all.
double judge_deformable(Trial& trial, bool exact_places);

}  // namespace trial
