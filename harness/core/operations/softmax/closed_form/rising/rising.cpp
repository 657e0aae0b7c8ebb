// What the fill "rising" has of its own: which mark a query asks for, and the vectors that give it
// its lead.
//
// Channel 0 counts marks, channel 1 parts them from the other keys, and in the others each has a
// direction of its own. A query is a multiple of its mark's direction and, in channel 1, as much as
// pushes all other marks below the other keys.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "core/operations/softmax/closed_form/codebook.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr int64_t kOtherCodes = 4;  // of keys that are no marks
constexpr int64_t kMostGroups = 512;
// By which a mark is above the one before it. A rescale that is forgotten early shows by the low
// one: the rises after it take little of the error away.
constexpr double kStair = 3, kLowStair = 0.125;
constexpr double kMargin = 2;  // of the other keys over all other marks
// The other keys' share of a direction's length, so that their scores differ by little
constexpr float kShort = 0.25f;
constexpr double kMostAlike = 0.8;   // of two directions
constexpr int64_t kLastTile = 256;   // the largest that a row's last mark is looked for in
constexpr int64_t kFewLeads = 2;     // of a mark that is there for its lane
constexpr int64_t kSequences = 101;  // by which sequences begin with different marks
constexpr int64_t kWholeTile = 64;   // rows that end with one ask for their last mark
// A lead that a softcap does not allow becomes this share of the widest that it does.
constexpr double kFarEnough = 0.98;
constexpr double kUnlike = 0.5;  // of two directions, where a head has room for that
// The shortest direction, in standard deviations of a channel: queries grow as directions shrink.
constexpr double kShortestDirection = 0.25, kTooAlike = 1e3;
constexpr uint64_t kTries = 64;  // of a direction
// What REL_BIAS adds to the key at the row's own position, and the slopes of ALiBi. Large leads
// hide all other keys, others leave gaps, and the rest rise by much or by little in tiles of 16 to
// 256 keys.
constexpr double kOwnLeads[] = {104, 16, 10, 20, 72, 8, 30, 14, 12, 18, 40, 1};
constexpr double kSlopes[] = {104,       16, 10,         20, 72.0 / 16,  8,  72.0 / 32, 14,
                              72.0 / 64, 12, 72.0 / 128, 18, 72.0 / 256, 40, 1.0 / 16,  1.0 / 128};
constexpr double kHighBias = 30720;      // every dtype holds it, and a score beside it
constexpr double kFaintSlope = 0x1p-10;  // of ALiBi beside leads in BIAS
enum RisingStream : uint64_t { kAsks = 50, kDirections };

// Which of `count` leads the rows ask for that end there. Rows that end with tiles of any size have
// each lead in turn, and so have those that end within a tile.
int64_t turn_of_end(int64_t end, int64_t head, int64_t count) {
  int64_t turn = head + (count > kFewLeads ? end % Marks::kFirstTile : 0);
  for (int64_t tile = 16; tile <= kLastTile; tile *= 2) turn += end / tile;
  return turn % count;
}

}  // namespace

bool Codebook::repeats(const attest_softmax_params& params) {
  return params.grid_height > 0 || params.patch_size > 0 ||
         (params.window_left >= 0 && params.window_right >= 0);
}

int64_t Codebook::leads_of_term(int32_t term) {
  return int64_t(term == ATTEST_REL_BIAS ? std::size(kOwnLeads) : std::size(kSlopes));
}

void Codebook::plan_marks() {
  const int64_t most = std::min(Marks::kMost, kMostGroups / levels_.key_levels() - kOtherCodes);
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < geometry_.batch(); ++b) lengths.push_back(reach(b));
  marks_ = MarkPlan(repeats(), period_, lengths, most);
  edge_codes_ = marks_.codes();
  key_codes_ = edge_codes_ + kOtherCodes;
  asks_ = asks_of(marks_.marks(), term_, has_slopes_);
  query_codes_ = int64_t(asks_.size());
  codes_of_mark_.resize(size_t(edge_codes_));
  for (size_t code = 0; code < asks_.size(); ++code) {
    if (asks_[code].mark >= 0) codes_of_mark_[size_t(asks_[code].mark)].push_back(uint8_t(code));
    if (asks_[code].is_gap) codes_of_gaps_.push_back(uint8_t(code));
  }
}

int64_t Codebook::mark_code(int64_t b, int64_t j) const { return marks_.code_at(reach(b), j); }

// Rows that see all marks ask for everything in turn. The others ask for a mark that they see:
// where they end with a tile, and once in four elsewhere, for their last one.
void Codebook::turn_to_marks(const Problem& problem) {
  turned_.assign(size_t(params_.num_heads * geometry_.batch() * q_rows_), kUnseen);
  deal_asks(problem);
  if (is_dealt_) return;
  rows_asking_.assign(size_t(params_.num_heads) * asks_.size(), 0);
  for (int64_t b = 0; b < geometry_.batch(); ++b)
    for (int64_t i = 0; i < geometry_.length_q(b); ++i) {
      const Interval seen = geometry_.keys(b, i);
      if (seen.size() == 0) continue;
      for (int64_t head = 0; head < params_.num_heads; ++head)
        turn(head, geometry_.query(b, i), asked(b, seen, i, head));
    }
}

// Each round goes on where the round before it ended.
void Codebook::deal_asks(const Problem& problem) {
  std::vector<int64_t> length_q, length_kv;
  for (int64_t b = 0; b < geometry_.batch(); ++b) {
    length_q.push_back(geometry_.length_q(b));
    length_kv.push_back(geometry_.length_kv(b));
  }
  const AskingRows rows(problem, term_, std::move(length_q), std::move(length_kv));
  is_dealt_ = rows.are_dealt();
  if (!is_dealt_) return;
  AskDeal deal(asks_);
  std::vector<int64_t> places(static_cast<size_t>(edge_codes_));
  for (int64_t round = term_ != 0 ? 1 : 0; round <= round_; ++round)
    for (const AskingRow& row : rows.of_round(round)) {
      for (int64_t code = 0; code < edge_codes_; ++code) {
        const int64_t place = place_of_mark(row.b, code, row.keys.begin);
        places[size_t(code)] =
            row.keys.contains(place) && !levels_.hidden(row.b, row.head, row.i, place) ? place : -1;
      }
      const int64_t code = deal.next(row, places);
      if (round == round_) turn(row.head, geometry_.query(row.b, row.i), code);
    }
}

// Returns the query code that the fewest rows of the head have had so far. The row sees all marks
// except those that its pattern hides; codes that ask for a hidden mark are left out.
int64_t Codebook::next_ask(int64_t b, int64_t i, int64_t head) {
  const int64_t begin = geometry_.keys(b, i).begin;
  // Each head goes on where few rows of the one after it end. The last one, from whose leads ALiBi
  // takes least, begins with what shows most bugs.
  const int64_t heads = params_.num_heads,
                few = std::min(query_codes_ / heads, geometry_.length_q(b)),
                first = (heads - 1 - head) * few;
  int64_t* const asking = &rows_asking_[size_t(head * query_codes_)];
  int64_t best = -1;
  for (int64_t n = 0; n < query_codes_; ++n) {
    const int64_t code = (first + n) % query_codes_, mark = asks_[size_t(code)].mark;
    if (best >= 0 && asking[code] >= asking[best]) continue;
    const int64_t place = mark < 0 ? -1 : place_of_mark(b, mark, begin);
    if (mark < 0 || (place >= 0 && !levels_.hidden(b, head, i, place))) best = code;
  }
  ++asking[best];
  return best;
}

// The query code of row i of a sequence and head, which sees that interval.
int64_t Codebook::asked(int64_t b, Interval seen, int64_t i, int64_t head) {
  const int64_t count = i * params_.num_heads + head;
  if (seen.size() == period_ || (!repeats() && seen.size() == geometry_.length_kv(b))) {
    if (levels_.patterns(b, head) > 1) return next_ask(b, i, head);
    // Each time that all have been asked for, the heads change places.
    return (count + count / query_codes_ + b * kSequences) % query_codes_;
  }
  int64_t last = -1, last_place = -1;
  std::vector<int64_t> there;  // codes of marks
  for (int64_t code = 0; code < edge_codes_; ++code) {
    const int64_t place = place_of_mark(b, code, seen.begin);
    if (!seen.contains(place) || levels_.hidden(b, head, i, place)) continue;
    there.push_back(code);
    if (seen.end - place > kLastTile || place <= last_place) continue;
    last = there.back();
    last_place = place;
  }
  if (there.empty() || count % 16 == 0) return count / 16 % 2;  // stairs, high or low
  const uint64_t bits = random_bits(random_bits(seed_, kAsks), uint64_t(count));
  const bool ends_tile = seen.end % kWholeTile == 0, asks_last = ends_tile || bits % 4 == 0;
  if (!asks_last && bits % 4 == 1 && !codes_of_gaps_.empty()) {
    const uint8_t gap = codes_of_gaps_[size_t(bits >> 32) % codes_of_gaps_.size()];
    if (std::ranges::find(there, asks_[gap].mark) != there.end()) return gap;
  }
  const int64_t index = last >= 0 && asks_last ? last : there[size_t(bits >> 8) % there.size()];
  const std::vector<uint8_t>& codes = codes_of_mark_[size_t(index)];
  if (codes.empty()) return 0;
  const auto count_of_codes = int64_t(codes.size());
  return codes[size_t(index == last ? turn_of_end(seen.end, head, count_of_codes)
                                    : int64_t((bits >> 32) % codes.size()))];
}

// A power of two, so that its multiples are exact.
double Codebook::level_step() const { return std::ldexp(1, std::ilogb(sigma_) - 4); }

// Marks get directions that are little alike and not short: a query that asks for one would else
// have to be long. Where all channels of a direction are 0, it would not be a number.
void Codebook::part_directions(std::vector<float>& keys, uint64_t seed) const {
  const auto head_dim = size_t(params_.head_dim);
  auto along = [&](const float* one, const float* other) {
    return std::inner_product(one + kOwnChannels, one + head_dim, other + kOwnChannels, 0.0);
  };
  const double length = kShortestDirection * double(sigma_), shortest = length * length;
  std::vector<float> best(head_dim), tried(head_dim);
  std::vector<double> squares;  // of the directions before this one
  for (size_t g = 0; g < size_t(edge_codes_); ++g) {
    float* const key = &keys[g * head_dim];
    double least = INFINITY;
    std::copy_n(key, head_dim, tried.begin());
    for (uint64_t n = 0; n < kTries && least > kUnlike; ++n) {
      const double square = along(tried.data(), tried.data());
      double alike = square < shortest ? kTooAlike : 0;
      for (size_t other = 0; other < g && alike < least; ++other)
        alike = std::max(
            alike, along(tried.data(), &keys[other * head_dim]) / std::min(square, squares[other]));
      if (alike < least) {
        least = alike;
        best = tried;
      }
      const uint64_t stream = random_bits(random_bits(seed, g), n);
      for (size_t c = 0; c < head_dim; ++c) tried[c] = sigma_ * random_normal(stream, c);
    }
    std::copy(best.begin(), best.end(), key);
    squares.push_back(along(key, key));
  }
}

void Codebook::lift_marks(std::vector<float>& keys, uint64_t seed) const {
  const auto head_dim = size_t(params_.head_dim);
  if (head_dim <= kOwnChannels) return;
  part_directions(keys, random_bits(seed, kDirections));
  // With a softcap both sides of 0 are used, since it bends what is far from it.
  const float parted = params_.softcap > 0 ? -3 : -2, others = params_.softcap > 0 ? -1 : 0;
  const auto unit = float(std::ldexp(1, std::ilogb(sigma_)));
  for (size_t g = 0; g < size_t(key_codes_); ++g) {
    const bool mark = g < size_t(edge_codes_);
    float* const key = &keys[g * head_dim];
    key[0] = mark ? float(level_step() * double(g + 1)) : 0;
    key[1] = unit * (mark ? parted : others);
    for (size_t c = kOwnChannels; c < head_dim && !mark; ++c) key[c] *= kShort;
  }
}

// Two numbers: the score that a mark gets from its own direction, and how far channel 1 has to push
// the other keys down. It pushes marks further. `nearest` and `largest` are the largest shares of
// that score that other marks and other keys get.
std::pair<double, double> Codebook::reach(double lead, double nearest, double largest) const {
  const double cap = double(params_.softcap);
  if (cap <= 0) {
    const double score = (lead + kMargin) / (1 - std::min(nearest + largest, kMostAlike));
    return {score, (nearest * score + kMargin) / 2};
  }
  // The mark scores as far above 0 as all others score below it; the softcap bends the two scores
  // to half of the lead each.
  const double half = cap * std::atanh(std::min(lead / (2 * cap), kFarEnough));
  const double alike = std::min(nearest, kMostAlike), other = std::min(largest, 0.25);
  const double pushed =
      std::max(half * (1 + other) / (1 - 3 * other), half * (1 + alike) / (3 * (1 - alike)));
  return {half + 3 * pushed, pushed};
}

// By how much the dot product of a mark is above that of the one before it. A softcap would make
// the marks of high stairs equal, and all of them would have the error with which the cap is
// rounded.
double Codebook::stair(int64_t ask) const {
  const double height = ask == Ask::kStairs ? kStair : kLowStair, cap = double(params_.softcap);
  if (cap <= 0 || term_ != 0) return height;
  return std::min(height, cap * std::atanh(kFarEnough) / double(edge_codes_));
}

std::vector<float> Codebook::asking(const std::vector<float>& keys) const {
  const auto head_dim = size_t(params_.head_dim);
  std::vector<float> queries(size_t(query_codes_) * head_dim);
  if (head_dim <= kOwnChannels || term_ != 0) return queries;
  auto along = [&](size_t one, size_t other) {
    return std::inner_product(&keys[one * head_dim + kOwnChannels], &keys[(one + 1) * head_dim],
                              &keys[other * head_dim + kOwnChannels], 0.0);
  };
  // The squared length of a mark's direction, and the largest shares of its own score that other
  // marks and other keys get.
  struct Mark {
    double square = 0, nearest = 0, largest = -1;
  };
  std::vector<std::optional<Mark>> marks(static_cast<size_t>(edge_codes_));
  auto measure = [&](size_t mark) {
    Mark of{.square = along(mark, mark)};
    for (size_t other = 0; other < size_t(key_codes_); ++other)
      if (double& most = other < marks.size() ? of.nearest : of.largest; other != mark)
        most = std::max(most, along(mark, other) / of.square);
    return of;
  };
  const double scale = double(params_.softmax_scale), unit = std::ldexp(1, std::ilogb(sigma_));
  for (size_t code = 0; code < asks_.size(); ++code) {
    float* const query = &queries[code * head_dim];
    if (asks_[code].mark < 0) {
      query[0] = float(stair(asks_[code].mark) / (scale * level_step()));
      continue;
    }
    const auto mark = size_t(asks_[code].mark);
    std::optional<Mark>& measured = marks[mark];
    if (!measured) measured = measure(mark);
    const auto& [square, nearest, largest] = *measured;
    const auto [score, pushed] = reach(asks_[code].lead, nearest, largest);
    for (size_t c = kOwnChannels; c < head_dim; ++c)
      query[c] = float(score / (scale * square) * double(keys[mark * head_dim + c]));
    query[1] = float(pushed / (scale * unit));
  }
  return queries;
}

// Gives row `at` of BIAS the leads that `row` asks for.
void Codebook::raise_bias_row(const Tensor& bias, int64_t at, const BiasRow& row) const {
  const TensorSpec& spec = bias.spec;
  const Ask& ask = asks_[query_code(row.head, geometry_.query(row.b, row.i))];
  const Interval seen = geometry_.keys(row.b, row.i);
  auto raise = [&](int64_t place, double lead) {
    const int64_t element = row_offset(spec, 3, at) + geometry_.token(place) * spec.stride[3];
    const double now = load(bias.data, spec.dtype, element);
    if (now != kHidden) store(bias.data, spec.dtype, element, now + lead);
  };
  if (ask.mark == Ask::kHigh || ask.mark == Ask::kLow) {
    for (int64_t j = seen.begin; j < seen.end; ++j)
      raise(j, ask.mark == Ask::kHigh ? kHighBias : -kHighBias);
    return;
  }
  for (int64_t code = 0; code < edge_codes_; ++code) {
    const int64_t place = place_of_mark(row.b, code, seen.begin);
    if (!seen.contains(place)) continue;
    if (ask.mark < 0) raise(place, stair(ask.mark) * double(code + 1));
    if (ask.mark == code) raise(place, ask.lead);
  }
}

// Sequences and heads that share a row of BIAS take turns in it.
void Codebook::raise_bias(const Tensor& bias) const {
  const TensorSpec& spec = bias.spec;
  std::vector<int64_t> length_q;
  for (int64_t b = 0; b < geometry_.batch(); ++b) length_q.push_back(geometry_.length_q(b));
  for (int64_t at = 0; at < row_count(spec, 3); ++at) {
    const BiasRow row = row_of_bias(spec, at, round_, params_.num_heads, length_q);
    if (row.b < 0) continue;
    const int64_t of_token =
        spec.dim[2] > 1 ? at / spec.dim[2] * spec.dim[2] + geometry_.token(row.i) : at;
    raise_bias_row(bias, of_token, row);
  }
}

// Of more queries than keys, the last see no key at their own position. All of their logits would
// be -inf to a kernel that keeps scores in f16.
double Codebook::steepest_slope() const {
  int64_t farthest = 1;
  for (int64_t b = 0; b < geometry_.batch(); ++b)
    for (int64_t i = 0; i < geometry_.length_q(b); ++i) {
      const Interval keys = geometry_.keys(b, i);
      const int64_t at = geometry_.diagonal(b, i);
      if (keys.size() > 0) farthest = std::max({farthest, keys.begin - at, at - keys.end + 1});
    }
  return kHighBias / double(farthest);
}

void Codebook::raise_term(const Tensors& tensors) const {
  const Tensor &slopes = tensors[ATTEST_ALIBI_SLOPES], &rel_bias = tensors[ATTEST_REL_BIAS];
  if (term_ == ATTEST_BIAS) raise_bias(tensors[ATTEST_BIAS]);
  if (term_ == ATTEST_REL_BIAS) {
    const TensorSpec& spec = rel_bias.spec;
    for (int64_t head = 0; head < spec.dim[0]; ++head)
      store(rel_bias.data, spec.dtype,
            head * spec.stride[0] + (params_.window_height - 1) * spec.stride[1] +
                (params_.window_width - 1) * spec.stride[2],
            kOwnLeads[size_t(head + (round_ - 1) * spec.dim[0]) % std::size(kOwnLeads)]);
  }
  if (!slopes) return;
  const TensorSpec& spec = slopes.spec;
  const double steepest = steepest_slope();
  for (int64_t at = 0; at < row_count(spec, 2); ++at) {
    const int64_t element = row_offset(spec, 2, at);
    store(
        slopes.data, spec.dtype, element,
        term_ != ATTEST_ALIBI_SLOPES
            ? load(slopes.data, spec.dtype, element) * kFaintSlope
            : std::min(kSlopes[size_t(at + (round_ - 1) * row_count(spec, 2)) % std::size(kSlopes)],
                       steepest));
  }
}

}  // namespace attest::core
