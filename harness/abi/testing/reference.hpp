// Softmax attention and its gradients by definition, in float64, written from the meaning of
// attest.h pair by pair: for each query, which of all keys it may see. It shares nothing with
// attest.hpp, which it is there to test, nor with the goldens of the harness.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <vector>

#include "attest.h"

namespace abi_test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The value of 16 stored bits, or 8 of f8e4m3 and f8e5m2, and the nearest (even) bits of a value,
/// by arithmetic on the definition of the format.
double decode(int32_t dtype, uint64_t bits);
uint64_t encode(int32_t dtype, double value);

/// Up to six indices.
struct Index {
  Index(std::initializer_list<int64_t> list) : rank(list.size()) {
    std::copy(list.begin(), list.end(), at);
  }
  explicit Index(size_t rank_) : rank(rank_) {}
  int64_t& operator[](size_t axis) { return at[axis]; }
  int64_t operator[](size_t axis) const { return at[axis]; }
  int64_t at[6]{};
  size_t rank;
};

/// A tensor in its own memory, on exactly 64 bytes (or on its element only), gaps and surroundings
/// filled with a pattern.
struct Tensor {
  attest_tensor spec{};
  std::vector<unsigned char> memory;
  size_t first = 0;  // where the first element lies

  void* data() { return spec.dtype == ATTEST_NONE ? nullptr : memory.data() + first; }
  explicit operator bool() const { return spec.dtype != ATTEST_NONE; }
  double at(const Index& index) const;
  void set(const Index& index, double value);
  /// Whether every byte that is no element still holds the pattern.
  bool surroundings_untouched() const;
  template <class Visit>
  void each(const Visit& visit) const {  // visit(index), every element once
    Index index(size_t(spec.rank));
    for (;;) {
      visit(index);
      int axis = spec.rank - 1;
      while (axis >= 0 && ++index[size_t(axis)] == spec.dim[axis]) index[size_t(axis--)] = 0;
      if (axis < 0) return;
    }
  }
  size_t offset(const Index& index) const;  // bytes, into memory
};
Tensor make_tensor(int32_t dtype, const std::vector<int64_t>& dims, int64_t gap = 0,
                   bool aligned = true);

/// A problem as a host hands it over: every struct in its room, data by role.
struct Trial {
  Trial();
  Trial(const Trial&) = delete;
  attest_problem& problem() { return *reinterpret_cast<attest_problem*>(problem_room); }
  attest_softmax_params& p() { return *reinterpret_cast<attest_softmax_params*>(params_room); }
  const attest_softmax_params& p() const {
    return *reinterpret_cast<const attest_softmax_params*>(params_room);
  }
  /// Copies specs and feature bits to where a plugin reads them; the array for run.
  std::vector<void*> finish();

  alignas(64) unsigned char problem_room[ATTEST_ROOM]{};
  alignas(64) unsigned char params_room[ATTEST_ROOM]{};
  attest_tensor specs[ATTEST_ROLES]{};
  Tensor tensor[ATTEST_ROLES];
  uint64_t features = 0;
};

struct Cell {
  int64_t batch, row;
  bool operator==(const Cell& other) const { return batch == other.batch && row == other.row; }
};
/// Of sequence b: tokens in the order that bands and patches count, and where they lie. On a grid:
/// along its rows.
int64_t length_q(const Trial& trial, int64_t b);
int64_t length_kv(const Trial& trial, int64_t b);
Cell query_cell(const Trial& trial, int64_t b, int64_t i);
Cell key_cell(const Trial& trial, int64_t b, int64_t j);
/// Whether i may see j by band, patch and window, and by mask and bias too.
bool in_reach(const Trial& trial, int64_t b, int64_t i, int64_t j);
bool visible(const Trial& trial, int64_t b, int64_t h, int64_t i, int64_t j);

struct Reference {
  std::vector<double> o;          // [head_dim_v]
  std::vector<double> magnitude;  // [head_dim_v], sum of p |v|: what errors are relative to
  double lse, largest;            // largest: of |logit|
  // Whether rounding to float32 may change which keys count in a problem with top_k.
  bool is_unclear = false;
};
Reference attend(const Trial& trial, int64_t b, int64_t h, int64_t i);

/// A gradient, dense, and what errors are relative to.
struct Gradient {
  std::vector<double> value, magnitude;
};
struct Gradients {
  Gradient dq, dk, dv, dbias, drel_bias, dsinks;  // empty where the trial has none
  double largest = 0;                             // of |logit| and |lse|
  bool is_unclear = false;                        // as Reference has it, of any row
};
/// Of the sum of dO * O, from O and LSE as the trial has them.
Gradients differentiate(const Trial& trial);

/// A random small problem with some of `allowed`, inputs filled in, outputs NaN; keys that nobody
/// sees hold NaN, Inf or 1000.
void randomize(Trial& trial, uint64_t seed, uint64_t allowed, uint64_t dtypes);
/// The same of ATTEST_SOFTMAX_BACKWARD. O and LSE are those of the other inputs. Queries that see
/// no key hold NaN, Inf or 1000, too.
void randomize_gradients(Trial& trial, uint64_t seed, uint64_t allowed, uint64_t dtypes);

}  // namespace abi_test
