// The standard deviation of an honest kernel's error in linear attention.
//
// To first order in the roundings. c counts channels, j counts keys. D = phi(q) z + eps. m =
// max(phi, 1): elu + 1 has the absolute rounding error of a number near 1, however small phi is.
//   delta o = sum_c delta phi(q)_c (S_c - z_c o) / D + sum_c phi(q)_c (delta S_c - o delta z_c) / D
//   S = sum_j phi(k)_j^T v_j, z = sum_j phi(k)_j, A1 = sum_j m_j^2 v_j, A2 = sum_j m_j^2 v_j^2, A0
//   = sum_j m_j^2, P2 = sum_j phi(k)_j^2 v_j^2, P1 = sum_j phi(k)_j^2 v_j, P0 = sum_j phi(k)_j^2
// Each variance below is quadratic in (S, z, A..) and in o, so one declared arithmetic is three
// matrices X, Y, Z:
//   variance = (sum_c phi(q)_c^2 (X_c - 2 o Y_c + o^2 Z_c) + u_phi^2 / 3 sum_c m(q)_c^2 (S_c - o
//   z_c)^2) / D^2 + (terms in o alone)
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/operations/linear/linear_arithmetic.hpp"
#include "core/operations/operation.hpp"
#include "core/operations/term_factor.hpp"

namespace attest::core::linear {

/// The terms of sigma. Each stands for one rounding of honest arithmetic.
enum class Term {
  kOutput,           // rounding of o
  kOutputSubnormal,  // the same below the smallest normal number
  kQueryFeatures,    // phi(q) kept in the operand of QK
  kKeyFeatures,      // phi(k)
  kEqualKeys,        // equal keys have equal features: their errors add up
  kExp,              // the declared error of exp
  kState,            // S and z kept in the operand of PV, relative
  kSmallState,       // the same below the smallest normal number, absolute
  kFlushed,          // numbers below the smallest normal number become 0
  kValues,           // V rounded to the operand of PV
  kKeySum,           // sums over keys
  kReach,            // partial sums that are larger than the final sum
  kRepeated,         // adding the same number again and again rounds the same way
  kStalled,          // sums so long that they stop growing
  kChannelSum,       // sums over channels
  kPairs,            // kernels without a state: a sum over channels for each (query, key) pair
  kSmallSums,        // sums over keys below the accumulator's smallest normal number, absolute
  kSmallChannels,    // the same of sums over channels
  kSmallPairs,       // the same of kernels without a state
  kCount
};

struct Sizes {
  int64_t head_dim, width;  // width: head_dim_v padded
  int64_t matrix() const { return head_dim * width; }
};

struct Variances;

/// Sums over the keys of one (batch, kv head). z, A0, P0, E0 and those whose name ends in _z are
/// [head_dim], V1 and V2 are [width], all others [head_dim, width].
struct Moments {
  Moments(Sizes s, const Variances& u);
  std::vector<double> S, A1, A2, P1, P2, z, A0, P0;
  std::vector<double> most, least;  // largest and smallest partial sum of S
  // Additions to A0, A1, A2 for equal keys, whose errors are equal and add up. Empty if no keys are
  // equal.
  std::vector<double> E0, E1, E2;
  // How far the rounding of a sum leans to one side: the square of a share of the sum. For z and S.
  std::vector<double> repeated_z, repeated;
  // By how much z and S change if each addend is rounded to the accumulator's smallest step, and
  // the variance of that change over all orders of the sum. Empty if no sum is that small.
  std::vector<double> rounding_z, small_z, rounding, small;
  // Sums of v and v^2 over the keys that count. Empty with a state.
  std::vector<double> V1, V2;
  double keys = 0;  // how many keys count

  /// Appends the sums of the keys that follow.
  void add(const Moments& next);
  /// Updates most and least. To be called after each key that was added to S.
  void note_reach();
};

/// The distance between the smallest numbers of a dtype.
struct SmallestStep {
  double size = 0, factor = 0;  // factor: of the term
  /// Whether sums may be so small. Those of f16 may, whose step is 2^-24; the steps of bf16 and
  /// float32 are below 2^-100.
  bool matters() const { return size > 0x1p-100 && factor > 0; }
  /// By how much an addend changes if it is rounded to whole steps. A sum below the smallest normal
  /// number is a whole number of steps, so its error is the sum of these changes in any order.
  double rounding(double addend) const {
    if (!matters()) return 0;
    const double shift = 0x1.8p52 * size;  // numbers around it are one step apart
    return factor * (((addend + shift) - shift) - addend);
  }
  /// The variance of the error of one addition, or of rounding one number. The error is never
  /// larger than the addend.
  double variance(double addend) const {
    return matters() ? factor * factor * std::min(size * size / 12, addend * addend) : 0;
  }
  /// Numbers that are alike are rounded alike, up or down, and to 0 if they are below half a step.
  /// This is the standard deviation of the error that they share, relative to their mean: that of
  /// one rounding, size / sqrt(12), but never more than the numbers themselves.
  double shared_error(double mean) const {
    return matters() ? std::min(size / std::sqrt(12) / mean, 1.0) : 0;
  }
};

/// The variances that follow from a declared arithmetic.
struct Variances {
  Variances(const LinearArithmetic& arithmetic, const attest_linear_params& p, DType stored_v);
  double query, key, equal;   // of phi, relative to m; equal: a factor of E0, E1, E2
  double u_phi;               // roundoff of phi
  double state, state_small;  // of S and z: relative; the square of an absolute error
  double flush_below, lost;   // lost: 1: all numbers below flush_below become 0
  double keys, reach;         // of a sum over keys, relative to the largest partial sum
  double stall;               // by how much a long sum stops short of its end, relative; 0: never
  double step, length;        // of a sum of equal numbers; keys / chain
  double channels, out, eta_squared, value;
  // Kernels without a state: the weight w_j = phi(q) phi(k)_j is a sum over channels, with an error
  // of u w_j sqrt(head_dim) / 3. By Cauchy and Schwarz, w_j^2 <= head_dim sum_c phi(q)_c^2
  // phi(k)_jc^2.
  double pairs;
  // Kernels without a state: the errors of one sum over keys, where a state has one sum for each
  // channel. 0 with a state.
  double one_sum;
  // The accumulator's smallest step in sums over keys and in sums over channels. A kernel without a
  // state has one for its sums over pairs, and one for its weights as operand of PV.
  SmallestStep key_step, channel_step, pair_step, weight_step;

  /// These variances, but only those of phi(k), or of the state: the errors that all rows of a key
  /// head share. Kernels without a state have none of the latter.
  Variances of_key_features() const;
  Variances of_state() const;

  /// Takes the place of m^2 for equal keys. A kernel that rounds phi to a multiple of a roundoff of
  /// 1 turns a smaller phi into 0; its error is phi itself.
  double alike_square(double phi, double wide) const {
    return std::min(wide, phi * phi / (u_phi * u_phi));
  }
  /// The variance of a sum in which equal addends repeat. `share_square`: the square of their share
  /// of all addends. `weight`: their share of the sum. Each addition rounds the same way, on
  /// average by a quarter of an ulp of the final sum; no more than the addends themselves can be
  /// lost. If a step of the chain adds several keys, all of them must be equal.
  double repeated(double share_square, double weight) const {
    return std::min(step * std::pow(share_square, length), weight * weight);
  }
};

/// The matrices of the formula at the top: X, Y, S2, Sz [head_dim, width] and Z, z2 [head_dim].
/// root: sqrt(P2), for V rounded to an operand dtype.
/// lean, lean_z: errors that have the same sign in all channels. They come from sums of repeated
/// numbers and from flushed elements of the state. lean is empty if there are none.
struct Quadratic {
  Quadratic(Sizes s, const Moments& m, const Variances& u);
  std::vector<double> X, Y, S2, Sz, Z, z2, root, lean, lean_z;
};

}  // namespace attest::core::linear
