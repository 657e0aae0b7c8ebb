// The standard deviation of an honest error in linear attention.
//
// With m = max(phi, 1), since elu + 1 loses what it loses at 1 however small phi is (sums of phi
// lose what phi does), and D = phi(q) z + eps, first order in the roundings, c over channels, j
// over keys:
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

/// The terms that sigma is made of, each for one thing that honest arithmetic does.
enum class Term {
  kOutput,           // rounding of o
  kOutputSubnormal,  // the same below the smallest normal number
  kQueryFeatures,    // phi(q) kept in the operand of QK
  kKeyFeatures,      // phi(k)
  kEqualKeys,        // equal keys have equal features: their errors add up
  kExp,              // the declared error of exp
  kState,            // S and z kept in the operand of PV, relative
  kSmallState,       // the same below the smallest normal number, absolute
  kFlushed,          // or it is 0 there
  kValues,           // V rounded to that operand
  kKeySum,           // sums over keys
  kReach,            // sums that grow beyond their end before they cancel
  kRepeated,         // one number added again and again rounds the same way
  kStalled,          // sums so long that they stop growing
  kChannelSum,       // sums over channels
  kPairs,            // without a state: sums over channels, one for each pair of a query and a key
  kCount
};

struct Sizes {
  int64_t head_dim, width;  // width: head_dim_v padded
  int64_t matrix() const { return head_dim * width; }
};

/// Sums over the keys of one (batch, kv head), all [head_dim, width] but z, A0, P0 and E0
/// [head_dim].
struct Moments {
  explicit Moments(Sizes s);
  std::vector<double> S, A1, A2, P1, P2, z, A0, P0;
  std::vector<double> most, least;  // of S on the way through the keys
  std::vector<double> E0, E1, E2;   // where keys are equal, else empty: what A0, A1, A2 have
                                    // besides, since equal errors add up
  // By how much the rounding of a sum leans to one side, as the square of a share of the sum: of z
  // [head_dim], of S.
  std::vector<double> repeated_z, repeated;

  /// Appends the sums of the keys that follow.
  void add(const Moments& next);
  /// S has grown: notes how far it got.
  void note_reach();
};

/// What a declared arithmetic adds up to.
struct Variances {
  Variances(const LinearArithmetic& arithmetic, const attest_linear_params& p, DType stored_v);
  double query, key, equal;   // of phi, relative to m; equal: a factor of E0, E1, E2
  double u_phi;               // its roundoff
  double state, state_small;  // relative; the square of an absolute error
  double flush_below, lost;   // lost: 1: all below flush_below
  double keys, reach;         // of a sum over keys, relative to the largest partial sum
  double
      stall;  // how far a sum of so long a chain may be off, relative to its end; 0: it grows to it
  double step, length;  // of a sum of keys that are all alike; keys / chain
  double channels, out, eta_squared, value;
  // Where there is no state: of a weight w_j = phi(q) phi(k)_j, whose sum over channels errs by
  // u w_j sqrt(head_dim) / 3. By Cauchy and Schwarz, w_j^2 <= head_dim sum_c phi(q)_c^2
  // phi(k)_jc^2.
  double pairs;
  // Then one sum over keys has what the state's channels have apart; 0 where there is a state.
  double one_sum;

  /// What is m^2 where equal keys err alike: whoever rounds a phi below a roundoff of 1 to a
  /// multiple of it has 0, and lost phi.
  double alike_square(double phi, double wide) const {
    return std::min(wide, phi * phi / (u_phi * u_phi));
  }
  /// Of addends that are alike and `share` of all, `weight` of their sum: adding one number again
  /// and again rounds the same way, by a quarter of an ulp of the final sum as the mean over its
  /// growth, and loses no more than there is. Where a step of the chain adds several keys, all of
  /// them must be alike.
  double repeated(double share_square, double weight) const {
    return std::min(step * std::pow(share_square, length), weight * weight);
  }
};

/// X, Y [head_dim, width] and Z [head_dim] of the formula at the top; S2, Sz [head_dim, width] and
/// z2 [head_dim] of its second part; root: sqrt(P2), for V rounded to an operand dtype; lean,
/// lean_z: by how much sums of repeated numbers lean, the same way in all channels, since these
/// take their numbers from one set, and what is lost of the state, whose channels may all have one
/// sign; lean is empty where it is nothing.
struct Quadratic {
  Quadratic(Sizes s, const Moments& m, const Variances& u);
  std::vector<double> X, Y, S2, Sz, Z, z2, root, lean, lean_z;
};

}  // namespace attest::core::linear
