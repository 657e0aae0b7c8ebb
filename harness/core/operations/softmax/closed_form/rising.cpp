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

#include "core/operations/softmax/closed_form/codebook.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr int64_t kOtherCodes = 4;  // of keys that are no marks
constexpr int64_t kMostGroups = 512, kMostAsks = 250;
// By which a mark is above the one before it. A rescale that is forgotten early shows by the low
// one: the rises after it take little of the error away.
constexpr double kStair = 3, kLowStair = 0.125;
constexpr double kMargin = 2;  // of the other keys over all other marks
// The other keys' share of a direction's length, so that their scores differ by little
constexpr float kShort = 0.25f;
constexpr int64_t kOwnChannels = 2;  // before the directions
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
constexpr uint64_t kTries = 64;      // of a direction
constexpr double kFreeSoftcap = 46;  // from which on scores have nearly all leads themselves
// Limits on the bytes of inputs and the operations of all rounds together.
constexpr double kRoundBytes = 256 << 20, kRoundFlops = 1e11;
// If BIAS hides keys, one row in so many sees the mark that it asks for.
constexpr int64_t kRowsOfAsk = 4;
constexpr int64_t kFewQueries = 16;  // behind a long cache, so few queries see nearly the same keys
// What REL_BIAS adds to the key at the row's own position, and the slopes of ALiBi. Large leads
// hide all other keys, others leave gaps, and the rest rise by much or by little in tiles of 16 to
// 256 keys.
constexpr double kOwnLeads[] = {104, 16, 10, 20, 72, 8, 30, 14, 12, 18, 40, 1};
constexpr double kSlopes[] = {104,       16, 10,         20, 72.0 / 16,  8,  72.0 / 32, 14,
                              72.0 / 64, 12, 72.0 / 128, 18, 72.0 / 256, 40, 1.0 / 16,  1.0 / 128};
constexpr double kHighBias = 30720;      // every dtype holds it
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

int32_t Codebook::leading_term(const Problem& problem) {
  const auto& p = problem.as<attest_softmax_params>();
  if (p.softcap <= 0 || double(p.softcap) >= kFreeSoftcap) return 0;
  const TensorSpec& bias = problem.tensor[ATTEST_BIAS];
  if (present(bias) && bias.dim[3] > 1) return ATTEST_BIAS;
  if (problem.has(ATTEST_REL_BIAS)) return ATTEST_REL_BIAS;
  return problem.has(ATTEST_ALIBI_SLOPES) ? ATTEST_ALIBI_SLOPES : 0;
}

std::vector<Ask> Codebook::asks_of(const Marks& marks, int32_t term, bool slopes, bool few,
                                   size_t& wanted) {
  std::vector<Ask> asks = asks_for(marks, kMostAsks, slopes && term == 0 ? 2 : 1);
  if (term == ATTEST_BIAS) asks.insert(asks.begin() + 2, {{Ask::kHigh}, {Ask::kLow}});
  wanted = few ? sort_for_few_rows(marks, asks) : asks.size();
  return asks;
}

int64_t Codebook::most_rounds(const Problem& problem) {
  const double by_bytes = kRoundBytes / std::max(1.0, double(min_bytes(problem))),
               by_flops = kRoundFlops / std::max(1.0, problem.operation->flops(problem));
  return int64_t(std::clamp(std::min(by_bytes, by_flops), 1.0, double(kMostRounds)));
}

bool Codebook::rows_are_few(const attest_softmax_params& params,
                            const std::vector<int64_t>& length_q,
                            const std::vector<int64_t>& length_kv, bool slopes) {
  const int64_t rows = std::accumulate(length_q.begin(), length_q.end(), int64_t{0});
  if (rows * params.num_heads >= kMostAsks) return false;
  int64_t seeing_all = 0;
  for (size_t b = 0; b < length_q.size(); ++b)
    for (int64_t i = 0; i < length_q[b]; ++i)
      seeing_all += visible_keys(params, i, length_q[b], length_kv[b]).size() == length_kv[b];
  return params.seq_len_q <= kFewQueries || (seeing_all == rows && !slopes);
}

int64_t Codebook::rising_rounds(const Problem& problem) {
  const auto& p = problem.as<attest_softmax_params>();
  const std::vector<int64_t> length_q = sequence_lengths(problem, false),
                             length_kv = sequence_lengths(problem, true);
  const int32_t term = leading_term(problem);
  int64_t rows = p.num_heads * std::accumulate(length_q.begin(), length_q.end(), int64_t{0});
  if (rows == 0 || p.head_dim <= kOwnChannels) return 1;
  if (term != 0) {
    const TensorSpec& spec = problem.tensor[size_t(term)];
    rows = spec.dim[0] * (term == ATTEST_REL_BIAS ? 1 : spec.dim[1]) *
           (term == ATTEST_BIAS ? (spec.dim[2] + kRowsOfAsk - 1) / kRowsOfAsk : 1);
  } else if (!rows_are_few(p, length_q, length_kv, problem.has(ATTEST_ALIBI_SLOPES))) {
    return 1;
  }
  int64_t period = 1;
  for (size_t b = 0; b < length_q.size(); ++b)
    for (int64_t i = 0; i < length_q[b]; ++i)
      period = std::max(period, visible_keys(p, i, length_q[b], length_kv[b]).size());
  size_t wanted = 0;
  if (term == ATTEST_REL_BIAS)
    wanted = std::size(kOwnLeads);
  else if (term == ATTEST_ALIBI_SLOPES)
    wanted = std::size(kSlopes);
  else
    asks_of(Marks(period, Marks::kMost), term, problem.has(ATTEST_ALIBI_SLOPES), true, wanted);
  const int64_t rounds = (int64_t(wanted) + rows - 1) / rows + (term != 0 ? 1 : 0);
  return std::clamp<int64_t>(rounds, term != 0 ? 2 : 1,
                             std::max<int64_t>(most_rounds(problem), term != 0 ? 2 : 1));
}

void Codebook::plan_marks() {
  const int64_t most = std::min(Marks::kMost, kMostGroups / levels_.key_levels() - kOtherCodes);
  const Marks marks(period_, most);
  edge_codes_ = marks.size();
  key_codes_ = edge_codes_ + kOtherCodes;
  std::vector<int64_t> length_q, length_kv;
  for (int64_t b = 0; b < geometry_.batch(); ++b) {
    length_q.push_back(geometry_.length_q(b));
    length_kv.push_back(geometry_.length_kv(b));
    all_rows_ += geometry_.length_q(b) * params_.num_heads;
  }
  few_rows_ = term_ == 0 && rows_are_few(params_, length_q, length_kv, has_slopes_);
  size_t wanted = 0;
  asks_ = asks_of(marks, term_, has_slopes_, few_rows_ || term_ != 0, wanted);
  query_codes_ = int64_t(asks_.size());
  codes_of_mark_.resize(size_t(marks.size()));
  for (size_t code = 0; code < asks_.size(); ++code) {
    if (asks_[code].mark >= 0) codes_of_mark_[size_t(asks_[code].mark)].push_back(uint8_t(code));
    if (asks_[code].is_gap) codes_of_gaps_.push_back(uint8_t(code));
  }
  if (!repeats())
    for (int64_t b = 0; b < geometry_.batch(); ++b)
      marks_.try_emplace(geometry_.length_kv(b), geometry_.length_kv(b), edge_codes_);
  marks_.try_emplace(period_, marks);
}

const Marks& Codebook::marks_of(int64_t b) const {
  return marks_.at(repeats() ? period_ : geometry_.length_kv(b));
}

// The code of a mark. Sequences that have fewer marks than there are codes leave some out in the
// middle, so that the last mark of each has the last code.
int64_t Codebook::code_of(const Marks& marks, int64_t index) const {
  return index < marks.size() / 2 ? index : index + edge_codes_ - marks.size();
}
int64_t Codebook::place_of(const Marks& marks, int64_t code) const {
  const int64_t index =
      code < marks.size() / 2 ? code : std::max(code - edge_codes_ + marks.size(), int64_t{0});
  return index < marks.size() && code_of(marks, index) == code ? marks.place(index) : -1;
}

int64_t Codebook::mark_code(int64_t b, int64_t j) const {
  const Marks& marks = marks_of(b);
  const int64_t index = marks.index_of(repeats() ? j % period_ : j);
  return index < 0 ? -1 : code_of(marks, index);
}

// Rows that see all marks ask for everything in turn. The others ask for a mark that they see:
// where they end with a tile, and once in four elsewhere, for their last one.
void Codebook::turn_to_marks() {
  turned_.assign(size_t(params_.num_heads * geometry_.batch() * q_rows_), kUnseen);
  if (few_rows_) return turn_few_to_marks();
  rows_asking_.assign(size_t(params_.num_heads) * asks_.size(), 0);
  for (int64_t b = 0; b < geometry_.batch(); ++b)
    for (int64_t i = 0; i < geometry_.length_q(b); ++i) {
      const Interval seen = geometry_.keys(b, i);
      if (seen.size() == 0) continue;
      for (int64_t head = 0; head < params_.num_heads; ++head)
        turn(head, geometry_.query(b, i), asked(b, seen, i, head));
    }
}

// Returns the query code that the fewest rows have had so far, among those whose marks the row
// sees.
int64_t Codebook::least_asked(int64_t b, int64_t i, int64_t head,
                              std::vector<int64_t>& asking) const {
  const Marks& marks = marks_of(b);
  const Interval seen = geometry_.keys(b, i);
  int64_t best = 0, least = std::numeric_limits<int64_t>::max();
  for (int64_t code = 0; code < query_codes_; ++code) {
    if (asking[size_t(code)] >= least) continue;
    const int64_t mark = asks_[size_t(code)].mark, place = mark < 0 ? 0 : place_of(marks, mark),
                  at = place < 0 ? -1 : seen_place(place, seen.begin);
    if (mark >= 0 && (!seen.contains(at) || levels_.hidden(b, head, i, at))) continue;
    best = code, least = asking[size_t(code)];
  }
  ++asking[size_t(best)];
  return best;
}

// Each round goes on where the round before it ended. Rows that see the most keys come first.
void Codebook::turn_few_to_marks() {
  struct RowOfHead {
    int64_t keys, b, i, head;
  };
  std::vector<RowOfHead> rows;
  for (int64_t b = 0; b < geometry_.batch(); ++b)
    for (int64_t i = 0; i < geometry_.length_q(b); ++i)
      for (int64_t head = 0; head < params_.num_heads; ++head)
        if (const int64_t keys = geometry_.keys(b, i).size(); keys > 0)
          rows.push_back({keys, b, i, head});
  std::ranges::stable_sort(rows, std::greater(), &RowOfHead::keys);
  std::vector<int64_t> asking(asks_.size());
  for (int64_t round = 0; round <= round_; ++round)
    for (const auto& [keys, b, i, head] : rows)
      if (const int64_t code = least_asked(b, i, head, asking); round == round_)
        turn(head, geometry_.query(b, i), code);
}

// Where intervals repeat, the first key position from `begin` on with that mark.
int64_t Codebook::seen_place(int64_t mark_place, int64_t begin) const {
  return repeats() ? mark_place + (begin - mark_place + period_ - 1) / period_ * period_
                   : mark_place;
}

// Returns the query code that the fewest rows of the head have had so far. The row sees all marks
// except those that its pattern hides; codes that ask for a hidden mark are left out.
int64_t Codebook::next_ask(int64_t b, int64_t i, int64_t head) {
  const Marks& marks = marks_of(b);
  const int64_t begin = geometry_.keys(b, i).begin;
  // Each head goes on where few rows of the one after it end. The last one, from whose leads ALiBi
  // takes least, begins with what shows most bugs.
  const int64_t heads = params_.num_heads,
                few = std::min(query_codes_ / heads, geometry_.length_q(b)),
                first = (heads - 1 - head) * few + round_ * all_rows_;
  int64_t* const asking = &rows_asking_[size_t(head * query_codes_)];
  int64_t best = -1;
  for (int64_t n = 0; n < query_codes_; ++n) {
    const int64_t code = (first + n) % query_codes_, mark = asks_[size_t(code)].mark;
    if (best >= 0 && asking[code] >= asking[best]) continue;
    const int64_t place = mark < 0 ? 0 : place_of(marks, mark);
    if (mark < 0 || (place >= 0 && !levels_.hidden(b, head, i, seen_place(place, begin))))
      best = code;
  }
  ++asking[best];
  return best;
}

// The query code of row i of a sequence and head, which sees that interval.
int64_t Codebook::asked(int64_t b, Interval seen, int64_t i, int64_t head) {
  const int64_t count = i * params_.num_heads + head;
  if (term_ == ATTEST_BIAS && bias_.dim[2] == 1) {  // all rows have the same leads
    const int64_t plane = (bias_.dim[0] > 1 ? b * bias_.dim[1] : 0) + (bias_.dim[1] > 1 ? head : 0);
    return (plane + (round_ - 1) * bias_.dim[0] * bias_.dim[1]) % query_codes_;
  }
  if (seen.size() == period_ || (!repeats() && seen.size() == geometry_.length_kv(b))) {
    if (levels_.patterns(b, head) > 1) return next_ask(b, i, head);
    // Each time that all have been asked for, the heads change places.
    return (count + count / query_codes_ + b * kSequences) % query_codes_;
  }
  const Marks& marks = marks_of(b);
  int64_t last = -1, last_place = -1;
  std::vector<int64_t> there;  // codes of marks
  for (int64_t index = 0; index < marks.size(); ++index) {
    const int64_t place = seen_place(marks.place(index), seen.begin);
    if (!seen.contains(place) || levels_.hidden(b, head, i, place)) continue;
    there.push_back(code_of(marks, index));
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
  const double shortest = std::pow(kShortestDirection * double(sigma_), 2);
  std::vector<float> best(head_dim), tried(head_dim);
  for (size_t g = 0; g < size_t(edge_codes_); ++g) {
    float* const key = &keys[g * head_dim];
    double least = INFINITY;
    std::copy_n(key, head_dim, tried.begin());
    for (uint64_t n = 0; n < kTries && least > kUnlike; ++n) {
      const double square = along(tried.data(), tried.data());
      double alike = square < shortest ? kTooAlike : 0;
      for (size_t other = 0; other < g; ++other) {
        const float* const known = &keys[other * head_dim];
        alike = std::max(alike, along(tried.data(), known) / std::min(square, along(known, known)));
      }
      if (alike < least) {
        least = alike;
        best = tried;
      }
      const uint64_t stream = random_bits(random_bits(seed, g), n);
      for (size_t c = 0; c < head_dim; ++c) tried[c] = sigma_ * random_normal(stream, c);
    }
    std::copy(best.begin(), best.end(), key);
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
  const double scale = double(params_.softmax_scale), unit = std::ldexp(1, std::ilogb(sigma_));
  for (size_t code = 0; code < asks_.size(); ++code) {
    float* const query = &queries[code * head_dim];
    if (asks_[code].mark < 0) {
      query[0] = float(stair(asks_[code].mark) / (scale * level_step()));
      continue;
    }
    const auto mark = size_t(asks_[code].mark);
    const double square = along(mark, mark);
    double nearest = 0,
           // Of the other marks, of the other keys, as shares of the mark's own score
        largest = -1;
    for (size_t other = 0; other < size_t(key_codes_); ++other)
      if (double& most = other < size_t(edge_codes_) ? nearest : largest; other != mark)
        most = std::max(most, along(mark, other) / square);
    const auto [score, pushed] = reach(asks_[code].lead, nearest, largest);
    for (size_t c = kOwnChannels; c < head_dim; ++c)
      query[c] = float(score / (scale * square) * double(keys[mark * head_dim + c]));
    query[1] = float(pushed / (scale * unit));
  }
  return queries;
}

// Gives row `at` of BIAS the leads that row i of a sequence and head asks for.
void Codebook::raise_bias_row(const Tensor& bias, int64_t at, int64_t b, int64_t head,
                              int64_t i) const {
  const TensorSpec& spec = bias.spec;
  const Ask& ask = asks_[query_code(head, geometry_.query(b, i))];
  const Interval seen = geometry_.keys(b, i);
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
  const Marks& marks = marks_of(b);
  for (int64_t index = 0; index < marks.size(); ++index) {
    const int64_t place = seen_place(marks.place(index), seen.begin), code = code_of(marks, index);
    if (!seen.contains(place)) continue;
    if (ask.mark < 0) raise(place, stair(ask.mark) * double(code + 1));
    if (ask.mark == code) raise(place, ask.lead);
  }
}

// Sequences and heads that share a row of BIAS take turns in it.
void Codebook::raise_bias(const Tensor& bias) const {
  const TensorSpec& spec = bias.spec;
  for (int64_t at = 0; at < row_count(spec, 3); ++at) {
    const int64_t plane = at / spec.dim[2], place = at % spec.dim[2], shared = round_ - 1 + place;
    const int64_t b = spec.dim[0] > 1 ? plane / spec.dim[1] : shared % geometry_.batch(),
                  head = spec.dim[1] > 1 ? plane % spec.dim[1] : shared % params_.num_heads;
    // A row of keys is that of the last query, which sees most keys.
    const int64_t i = spec.dim[2] > 1 ? place : geometry_.length_q(b) - 1;
    if (i < 0 || i >= geometry_.length_q(b)) continue;
    raise_bias_row(bias, plane * spec.dim[2] + (spec.dim[2] > 1 ? geometry_.token(i) : 0), b, head,
                   i);
  }
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
  for (int64_t at = 0; at < row_count(spec, 2); ++at) {
    const int64_t element = row_offset(spec, 2, at);
    store(slopes.data, spec.dtype, element,
          term_ != ATTEST_ALIBI_SLOPES
              ? load(slopes.data, spec.dtype, element) * kFaintSlope
              : kSlopes[size_t(at + (round_ - 1) * row_count(spec, 2)) % std::size(kSlopes)]);
  }
}

}  // namespace attest::core
