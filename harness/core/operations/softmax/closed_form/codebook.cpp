#include "core/operations/softmax/closed_form/codebook.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/operations/numerics/portable_math.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr double kRealisticDeviation = 1.75, kFlatDeviation = 1.0 / 64, kBestScore = 24,
                 kHugeScore = 30000;
constexpr int64_t kMostEdges = 48;
constexpr double kEdgeLead = 1.5;  // of an edge's score over the log of how many keys there are

struct Named {
  std::string_view fill;
  Codebook::Kind kind;
};
constexpr Named kNamed[] = {{"codebook", Codebook::Kind::kWide},
                            {"codebook_peaked", Codebook::Kind::kPeaked},
                            {"cancelling", Codebook::Kind::kCancelling},
                            {"huge", Codebook::Kind::kHuge},
                            {"edges", Codebook::Kind::kEdges},
                            {"equal", Codebook::Kind::kEqual},
                            {"flat", Codebook::Kind::kFlat},
                            {"tiny", Codebook::Kind::kTiny},
                            {"rising", Codebook::Kind::kRising}};

// Streams of one fill's seed.
enum Stream : uint64_t { kKeyVectors, kQueryVectors, kPartners, kKeyCodes, kQueryCodes };

// Of the product that makes a score of kHugeScore, the power of two nearest to it.
int huge_exponent(double scale) {
  constexpr double kRootOfHalf = 0x1.6a09e667f3bcdp-1;
  int above = 0;
  const double part = std::frexp(kHugeScore / scale, &above);  // 0.5 <= part < 1
  return part < kRootOfHalf ? above - 1 : above;
}

}  // namespace

bool Codebook::knows(std::string_view fill) {
  return round_of(fill) > 0 || std::any_of(std::begin(kNamed), std::end(kNamed),
                                           [fill](const Named& one) { return one.fill == fill; });
}

Codebook::Kind Codebook::kind_of(std::string_view fill) {
  if (round_of(fill) > 0) return Kind::kRising;
  for (const Named& one : kNamed)
    if (one.fill == fill) return one.kind;
  throw Error(fmt::format("fill '{}': has no codebook", fill));
}

Codebook::Codebook(const Problem& problem, const Fill& fill, const Tensors& tensors)
    : params_(problem.as<attest_softmax_params>()),
      geometry_(problem, tensors),
      levels_(problem, tensors, geometry_, level_unit(kind_of(fill.name))),
      seed_(fill.seed),
      kind_(kind_of(fill.name)),
      has_slopes_(problem.has(ATTEST_ALIBI_SLOPES)),
      k_rows_(tensors[ATTEST_K].spec.dim[2]),
      q_rows_(tensors[ATTEST_Q].spec.dim[2]),
      tiny_(smallest_normal(tensors[ATTEST_K].spec.dtype) / 4),
      largest_finite_(std::min(largest_finite(tensors[ATTEST_Q].spec.dtype),
                               largest_finite(tensors[ATTEST_K].spec.dtype))) {
  const double scale = std::fabs(double(params_.softmax_scale)),
               head_dim = double(params_.head_dim);
  const double deviation = kind_ == Kind::kFlat ? kFlatDeviation : kRealisticDeviation;
  const double variance = kind_ == Kind::kPeaked ? kBestScore / (scale * head_dim)
                                                 : deviation / (scale * std::sqrt(head_dim));
  sigma_ = float(std::clamp(std::sqrt(variance), 1e-3,
                            1e3));  // stays a normal number in float16, whatever the scale
  round_ = round_of(fill.name);
  term_ = round_ > 0 ? leading_term(problem) : 0;
  first_claim_.assign(size_t(tensors[ATTEST_K].spec.dim[0] * k_rows_), -1);
  note_seen();
  count_codes();
  if (kind_ == Kind::kEdges) turn_to_edges();
  if (kind_ == Kind::kRising) turn_to_marks(problem);
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

// Whether no head sees a key, wherever the query stands: all patterns that rows of the sequence
// have hide it.
bool Codebook::hidden(int64_t b, int64_t j) const {
  if (!levels_.may_hide()) return false;
  for (int64_t h = 0; h < params_.num_heads; ++h)
    for (int64_t n = 0; n < levels_.patterns(b, h); ++n)
      if (!levels_.hidden(b, h, levels_.place_of(b, h, n), j)) return false;
  return true;
}

void Codebook::count_codes() {
  // The fewer keys have one code, the more each of them weighs where it is the best.
  const int64_t levels = kind_ == Kind::kPeaked ? 1 : levels_.key_levels(),
                most = std::clamp<int64_t>(kMost / levels, 8, kMost);
  key_codes_ = query_codes_ = std::clamp<int64_t>(period_ / 4, 2, most);
  if (kind_ == Kind::kEdges) plan_edges(most);
  if (kind_ == Kind::kRising) plan_marks();
  if (kind_ == Kind::kEqual) key_codes_ = 1;
  if (!cancels()) return;
  key_codes_ = kBlock * std::clamp<int64_t>(period_ / (2 * kBlock), 1, most / kBlock);
  query_codes_ = kCancellingQueries;
}

// A quarter of the codes is left to the keys between the edges.
void Codebook::plan_edges(int64_t most) {
  const int64_t others = std::clamp<int64_t>(period_ / 4, 2, most / 4);
  edge_codes_ = EdgePlaces(period_, std::min(kMostEdges, most - others)).size();
  key_codes_ = query_codes_ = edge_codes_ + others;
  for (int64_t b = 0; b < geometry_.batch(); ++b)
    edges_.try_emplace(geometry_.length_kv(b), geometry_.length_kv(b), edge_codes_);
  edges_.try_emplace(period_, period_, edge_codes_);
}

// Queries whose interval ends within the sequence ask for what lies at its ends, or just beyond.
void Codebook::turn_to_edges() {
  turned_.assign(size_t(params_.num_heads * geometry_.batch() * q_rows_), kUnseen);
  if (params_.grid_height > 0 || params_.patch_size > 0) return;
  for (int64_t b = 0; b < geometry_.batch(); ++b)
    for (int64_t i = 0; i < geometry_.length_q(b); ++i) {
      const Interval seen = geometry_.keys(b, i);
      if (seen.size() == 0) continue;
      std::vector<int64_t> found;
      if (seen.end < geometry_.length_kv(b))
        for (const int64_t j : {seen.end - 1, seen.end}) found.push_back(edge_code(b, j));
      if (seen.begin > 0)
        for (const int64_t j : {seen.begin, seen.begin - 1}) found.push_back(edge_code(b, j));
      std::erase(found, -1);
      if (found.empty()) continue;
      for (int64_t head = 0; head < params_.num_heads; ++head)
        turn(head, geometry_.query(b, i), found[size_t(i) % found.size()]);
    }
}

void Codebook::turn(int64_t head, Cell cell, int64_t code) {
  turned_[size_t((head * geometry_.batch() + cell.outer) * q_rows_ + cell.row)] = uint8_t(code);
}

int64_t Codebook::edge_code(int64_t b, int64_t j) const {
  const bool windows = params_.grid_height > 0 || params_.patch_size > 0;
  return windows ? edges_.at(period_).index_of(j % period_)
                 : edges_.at(geometry_.length_kv(b)).index_of(j);
}

Codebook::KeyPlace Codebook::key_place(Cell cell) const {
  const int64_t claim = this->claim(cell);
  if (claim < 0) return {-1, 0};
  return {claim % params_.seq_len_kv, geometry_.length_kv(claim / params_.seq_len_kv)};
}

uint8_t Codebook::key_code(int64_t kv_head, Cell cell) const {
  const int64_t claim = this->claim(cell);
  if (claim < 0) return kUnseen;
  if (cancels()) {
    const BlockPlace at = block_place(kv_head, cell);
    return uint8_t(at.code(at.place));
  }
  const uint64_t seed = random_bits(random_bits(seed_, kKeyCodes), uint64_t(kv_head));
  if (kind_ == Kind::kEdges || kind_ == Kind::kRising) {
    const int64_t b = claim / params_.seq_len_kv, j = claim % params_.seq_len_kv;
    if (const int64_t own = kind_ == Kind::kEdges ? edge_code(b, j) : mark_code(b, j); own >= 0)
      return uint8_t(own);
    const int64_t others = key_codes_ - edge_codes_, first = j % period_ - 1;
    // Every code is in the first tile, so that no score behind it rises a little above it.
    if (kind_ == Kind::kRising && first >= 0 && first < others) return uint8_t(edge_codes_ + first);
    return uint8_t(edge_codes_ + int64_t(random_below(seed, uint64_t(claim), uint64_t(others))));
  }
  const auto code = int64_t(random_below(seed, uint64_t(claim), uint64_t(key_codes_)));
  const int64_t late = key_codes_ / 8, place = claim % params_.seq_len_kv;
  return uint8_t(code < late && place % period_ < period_ / 2 ? code + late : code);
}

bool Codebook::localised(int64_t key_code) const {
  if (kind_ == Kind::kEdges || kind_ == Kind::kRising) return key_code < edge_codes_;
  return !cancels() &&
         key_code <
             key_codes_ / 8 * 2;  // those that stand late, and those that stand in for them before
}

// Blocks start with their window or patch, so that none is cut by its edge.
Codebook::BlockPlace Codebook::block_place(int64_t kv_head, Cell cell) const {
  const bool windows = params_.grid_height > 0 || params_.patch_size > 0;
  const int64_t claim = this->claim(cell), b = claim / params_.seq_len_kv,
                j = claim % params_.seq_len_kv;
  const int64_t window = windows ? j / period_ : 0, inside = windows ? j % period_ : j;
  const int64_t block = (b * (params_.seq_len_kv + 1) + window * period_) + inside / kBlock;
  const uint64_t bits =
      random_bits(random_bits(random_bits(seed_, kKeyCodes), uint64_t(kv_head)), uint64_t(block));
  return {block, inside % kBlock, int64_t((bits >> 8) % uint64_t(key_codes_ / kBlock)),
          int64_t(bits % kBlock)};
}

uint8_t Codebook::query_code(int64_t head, Cell cell) const {
  if (!turned_.empty())
    if (const uint8_t code =
            turned_[size_t((head * geometry_.batch() + cell.outer) * q_rows_ + cell.row)];
        code != kUnseen)
      return code;
  const int64_t row = (cell.outer * params_.num_heads + head) * q_rows_ + cell.row;
  // So few rows might by chance have no flat scores, or none near 30,000.
  if (kind_ == Kind::kHuge && geometry_.batch() * params_.num_heads * q_rows_ <= query_codes_)
    return uint8_t(row % query_codes_);
  return uint8_t(
      random_below(random_bits(seed_, kQueryCodes), uint64_t(row), uint64_t(query_codes_)));
}

// Each key code is the best of one query code.
std::vector<uint8_t> Codebook::partners(int64_t head) const {
  const uint64_t seed = random_bits(random_bits(seed_, kPartners), uint64_t(head));
  std::vector<uint8_t> codes(static_cast<size_t>(key_codes_));
  std::iota(codes.begin(), codes.end(), uint8_t{0});
  for (size_t k = codes.size(); k > 1; --k)
    std::swap(codes[k - 1], codes[size_t(random_below(seed, k, k))]);
  return codes;
}

std::vector<float> Codebook::keys(int64_t kv_head) const {
  std::vector<float> vectors(static_cast<size_t>(key_codes_ * params_.head_dim));
  const uint64_t seed = random_bits(random_bits(seed_, kKeyVectors), uint64_t(kv_head));
  for (size_t i = 0; i < vectors.size(); ++i) vectors[i] = sigma_ * random_normal(seed, i);
  if (kind_ == Kind::kTiny)
    for (int64_t g = 1; g <= key_codes_; ++g)
      vectors[size_t(g * params_.head_dim - 1)] = float(tiny_);
  if (kind_ == Kind::kHuge)
    for (int64_t g = 0; g < key_codes_; ++g)
      vectors[size_t(g * params_.head_dim)] = float(common_key());
  if (kind_ == Kind::kRising) lift_marks(vectors, seed);
  return vectors;
}

// What all keys, and queries of kHuge, have in common.
double Codebook::common_key() const {
  const int exponent = huge_exponent(std::fabs(double(params_.softmax_scale))),
            most = std::ilogb(largest_finite_);
  return std::ldexp(1, std::clamp(exponent - exponent / 2, -most, most));
}
double Codebook::common_query() const {
  const int exponent = huge_exponent(std::fabs(double(params_.softmax_scale))),
            most = std::ilogb(largest_finite_);
  return std::ldexp(1, std::clamp(exponent / 2, -most, most));
}

// The common channel of kHuge, and the query of 0 that kEqual has too.
void Codebook::lift(std::vector<float>& queries) const {
  const auto head_dim = size_t(params_.head_dim);
  const size_t codes = queries.size() / head_dim, blank = kind_ == Kind::kEqual ? 0 : 2;
  if (blank < codes) std::fill_n(&queries[blank * head_dim], head_dim, 0.0f);
  for (size_t h = 0; h < codes && kind_ == Kind::kHuge; ++h)
    if (h != blank)
      queries[h * head_dim] = h == 3 ? 0 : float(h % 2 ? -common_query() : common_query());
}

std::vector<float> Codebook::queries(int64_t head) const {
  if (kind_ == Kind::kRising)
    return asking(keys(head / (params_.num_heads / params_.num_kv_heads)));
  std::vector<float> vectors(static_cast<size_t>(query_codes_ * params_.head_dim));
  const int64_t kv_head = head / (params_.num_heads / params_.num_kv_heads);
  // Values can only cancel for all query heads that share them if these weigh alike.
  const uint64_t seed =
      random_bits(random_bits(seed_, kQueryVectors), uint64_t(cancels() ? kv_head : head));
  for (size_t i = 0; i < vectors.size(); ++i) vectors[i] = sigma_ * random_normal(seed, i);
  if (kind_ == Kind::kTiny)
    for (int64_t g = 1; g <= query_codes_; ++g)
      vectors[size_t(g * params_.head_dim - 1)] = float(tiny_);
  if (kind_ == Kind::kHuge || kind_ == Kind::kEqual) lift(vectors);
  const auto head_dim = size_t(params_.head_dim);
  if (kind_ == Kind::kEdges) {
    const std::vector<float> edges = keys(kv_head);
    const double score = portable_log(double(period_)) + kEdgeLead;
    const auto gain = float(score / (double(params_.softmax_scale) * double(sigma_) *
                                     double(sigma_) * double(params_.head_dim)));
    for (size_t i = 0; i < size_t(edge_codes_) * head_dim; ++i) vectors[i] = gain * edges[i];
  }
  if (kind_ != Kind::kPeaked) return vectors;
  const std::vector<float> near = keys(kv_head);
  const std::vector<uint8_t> partner = partners(head);
  for (size_t i = 0; i < vectors.size(); ++i) {
    const float toward = near[partner[i / head_dim] * head_dim + i % head_dim];
    vectors[i] = 0.25f * vectors[i] + (params_.softmax_scale < 0 ? -toward : toward);
  }
  return vectors;
}

}  // namespace attest::core
