#include "core/operations/softmax/codebook.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr double kRealisticDeviation = 1.75, kBestScore = 24;

// Streams of one fill's seed.
enum Stream : uint64_t { kKeyVectors, kQueryVectors, kPartners, kKeyCodes, kQueryCodes };

}  // namespace

Codebook::Codebook(const Problem& problem, const Fill& fill, const Tensors& tensors)
    : params_(problem.as<attest_softmax_params>()),
      geometry_(problem, tensors),
      levels_(problem, tensors, geometry_),
      seed_(fill.seed),
      kind_(fill.name == "codebook_peaked" ? Kind::kPeaked
            : fill.name == "cancelling"    ? Kind::kCancelling
                                           : Kind::kWide),
      k_rows_(tensors[ATTEST_K].spec.dim[2]),
      q_rows_(tensors[ATTEST_Q].spec.dim[2]) {
  const double scale = std::fabs(double(params_.softmax_scale)), head_dim = double(params_.head_dim);
  const double variance =
      kind_ == Kind::kPeaked ? kBestScore / (scale * head_dim) : kRealisticDeviation / (scale * std::sqrt(head_dim));
  sigma_ = float(std::clamp(std::sqrt(variance), 1e-3, 1e3));  // stays a normal number in float16, whatever the scale
  first_claim_.assign(size_t(tensors[ATTEST_K].spec.dim[0] * k_rows_), -1);
  note_seen();
  count_codes();
}

void Codebook::note_seen() {
  for (int64_t b = 0; b < geometry_.batch(); ++b) {
    int64_t noted = 0;  // intervals never move back
    for (int64_t i = 0; i < geometry_.length_q(b); ++i) {
      const Interval seen = geometry_.keys(b, i);
      period_ = std::max(period_, seen.size());
      for (int64_t j = std::max(noted, seen.begin); j < seen.end; ++j) {
        if (hidden(b, j)) continue;
        const Cell cell = geometry_.key(b, j);
        int64_t& claim = first_claim_[size_t(cell.outer * k_rows_ + cell.row)];
        if (claim < 0) claim = b * params_.seq_len_kv + j;  // sequences may share pages
      }
      noted = std::max(noted, seen.end);
    }
  }
}

// Whether no head sees a key, wherever the query stands.
bool Codebook::hidden(int64_t b, int64_t j) const {
  if (!levels_.may_hide()) return false;
  for (int64_t h = 0; h < params_.num_heads; ++h)
    if (!levels_.hidden(b, h, j)) return false;
  return true;
}

void Codebook::count_codes() {
  const int64_t most = std::clamp<int64_t>(kMost / levels_.key_levels(), 8, kMost);
  key_codes_ = query_codes_ = std::clamp<int64_t>(period_ / 4, 2, most);
  if (!cancels()) return;
  key_codes_ = kBlock * std::clamp<int64_t>(period_ / (2 * kBlock), 1, kMost / kBlock), query_codes_ = kCancellingQueries;
}

uint8_t Codebook::key_code(int64_t kv_head, Cell cell) const {
  const int64_t claim = this->claim(cell);
  if (claim < 0) return kUnseen;
  if (cancels()) {
    const BlockPlace at = block_place(kv_head, cell);
    return uint8_t(at.code(at.place));
  }
  const uint64_t seed = random_bits(random_bits(seed_, kKeyCodes), uint64_t(kv_head));
  const auto code = int64_t(random_below(seed, uint64_t(claim), uint64_t(key_codes_)));
  const int64_t late = key_codes_ / 8, place = claim % params_.seq_len_kv;
  return uint8_t(code < late && place % period_ < period_ / 2 ? code + late : code);
}

// Blocks start with their window or patch, so that none is cut by its edge.
Codebook::BlockPlace Codebook::block_place(int64_t kv_head, Cell cell) const {
  const bool windows = params_.grid_height > 0 || params_.patch_size > 0;
  const int64_t claim = this->claim(cell), b = claim / params_.seq_len_kv, j = claim % params_.seq_len_kv;
  const int64_t window = windows ? j / period_ : 0, inside = windows ? j % period_ : j;
  const int64_t block = (b * (params_.seq_len_kv + 1) + window * period_) + inside / kBlock;
  const uint64_t bits = random_bits(random_bits(random_bits(seed_, kKeyCodes), uint64_t(kv_head)), uint64_t(block));
  return {block, inside % kBlock, int64_t((bits >> 8) % uint64_t(key_codes_ / kBlock)), int64_t(bits % kBlock)};
}

uint8_t Codebook::query_code(int64_t head, Cell cell) const {
  const int64_t row = (cell.outer * params_.num_heads + head) * q_rows_ + cell.row;
  return uint8_t(random_below(random_bits(seed_, kQueryCodes), uint64_t(row), uint64_t(query_codes_)));
}

// Each key code is the best of one query code.
std::vector<uint8_t> Codebook::partners(int64_t head) const {
  const uint64_t seed = random_bits(random_bits(seed_, kPartners), uint64_t(head));
  std::vector<uint8_t> codes(static_cast<size_t>(key_codes_));
  std::iota(codes.begin(), codes.end(), uint8_t{0});
  for (size_t k = codes.size(); k > 1; --k) std::swap(codes[k - 1], codes[size_t(random_below(seed, k, k))]);
  return codes;
}

std::vector<float> Codebook::keys(int64_t kv_head) const {
  std::vector<float> vectors(static_cast<size_t>(key_codes_ * params_.head_dim));
  const uint64_t seed = random_bits(random_bits(seed_, kKeyVectors), uint64_t(kv_head));
  for (size_t i = 0; i < vectors.size(); ++i) vectors[i] = sigma_ * random_normal(seed, i);
  return vectors;
}

std::vector<float> Codebook::queries(int64_t head) const {
  std::vector<float> vectors(static_cast<size_t>(query_codes_ * params_.head_dim));
  const int64_t kv_head = head / (params_.num_heads / params_.num_kv_heads);
  // Values can only cancel for all query heads that share them if these weigh alike.
  const uint64_t seed = random_bits(random_bits(seed_, kQueryVectors), uint64_t(cancels() ? kv_head : head));
  for (size_t i = 0; i < vectors.size(); ++i) vectors[i] = sigma_ * random_normal(seed, i);
  if (kind_ != Kind::kPeaked) return vectors;
  const std::vector<float> near = keys(kv_head);
  const std::vector<uint8_t> partner = partners(head);
  const auto head_dim = size_t(params_.head_dim);
  for (size_t i = 0; i < vectors.size(); ++i) {
    const float toward = near[partner[i / head_dim] * head_dim + i % head_dim];
    vectors[i] = 0.25f * vectors[i] + (params_.softmax_scale < 0 ? -toward : toward);
  }
  return vectors;
}

}  // namespace attest::core
