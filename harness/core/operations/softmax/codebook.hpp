// The codebook fill: keys and queries take one of a few vectors, so that softmax attention has a closed form at any size.
//
// K[.., j, :] is one of C vectors and V[.., j, :] is random, Q[.., i, :] is one of C vectors: with n_g and V_g the number and the
// sum of the values of the visible keys of code g, o_i = sum_g e^(S_hg - m) V_g / sum_g e^(S_hg - m) n_g for a query of code h.
// The C x C scores S come from the stored vectors, so that this is the true answer, whatever the dtype and the amplitude.
//
// "codebook" has scores of standard deviation 1.75; "codebook_peaked" has one best code a query, at a score near 24. An eighth of
// the key codes stands in the second half of an interval only, so that the running maximum of an online softmax moves late too.
// Codes are independent draws: in a shuffle that deals every code once in C keys, all tiles of C keys would have the same sum,
// and adding one number again and again rounds the same way each time, which is no fair test of an accumulator.
#pragma once
#include <cstdint>
#include <vector>

#include "core/operations/softmax/geometry.hpp"

namespace attest::core {

class Codebook {
 public:
  static constexpr int64_t kMost = 64;
  static constexpr uint8_t kUnseen = 255;

  /// Reads the tables (lengths, order, pages), which must be filled.
  Codebook(const Problem& problem, const Fill& fill, const Tensors& tensors);

  /// C: a quarter of the keys that the best placed query sees, 2 to 64.
  int64_t codes() const { return codes_; }
  const Geometry& geometry() const { return geometry_; }
  /// Code of the key in a cell of K, or kUnseen where no query sees it.
  uint8_t key_code(int64_t kv_head, Cell cell) const;
  /// Code of a row of Q.
  uint8_t query_code(int64_t head, Cell cell) const;
  /// The vectors [codes, head_dim] of a head as they are meant, before they are rounded to the dtype of K and Q.
  std::vector<float> keys(int64_t kv_head) const;
  std::vector<float> queries(int64_t head) const;

 private:
  void note_seen();
  std::vector<uint8_t> partners(int64_t head) const;

  attest_softmax_params params_;
  Geometry geometry_;
  uint64_t seed_;
  bool peaked_;
  int64_t k_rows_, q_rows_;
  int64_t codes_ = 2, period_ = 1;    // period: keys of the largest interval
  float sigma_ = 1;                   // of the channels of K
  std::vector<int64_t> first_claim_;  // by dim 0 and dim 2 of K: b * seq_len_kv + j of the first place on that cell, or -1
};

}  // namespace attest::core
