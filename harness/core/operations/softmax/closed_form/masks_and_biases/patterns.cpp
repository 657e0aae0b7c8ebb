#include "core/operations/softmax/closed_form/masks_and_biases/patterns.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr int64_t kShortest = 16, kLengths = 6;  // runs of 16, 32 .. 512
constexpr int64_t kLargestTile = 256;

// Patterns by number; the first three are in the header.
enum Pattern : int64_t {
  kScattered = 2,
  kEveryOther,
  kOneOfMany,
  kFirstOfTiles,
  kLastOfTiles,
  kPrefix = HiddenPatterns::kFirstHiding,
  kSuffix,
  kDocuments,
  kBands = kDocuments + 4,
  kAligned = kBands + 3,
  kUnaligned = kAligned + 2 * kLengths,
};
static_assert(kUnaligned + kLengths == HiddenPatterns::kCount);

// The largest power of two below n, or 1.
int64_t power_below(int64_t n) {
  return int64_t(std::bit_floor(uint64_t(std::max<int64_t>(n - 1, 1))));
}

// The lengths of runs; where few keys are seen, short ones stand in for the long ones.
int64_t run_length(int64_t n, int64_t seen) {
  const int64_t length = kShortest << n, longest = power_below(seen);
  return length <= longest ? length : std::max<int64_t>(1, longest >> (n % 4));
}

// Numbers of one stream, one after another.
class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  int64_t below(int64_t n) {
    return int64_t(random_below(seed_, count_++, uint64_t(std::max<int64_t>(n, 1))));
  }

 private:
  uint64_t seed_, count_ = 0;
};

// A place that no run of 16 keys and more is aligned at.
int64_t off_grid(int64_t place, Dice& dice) {
  return place % kShortest == 0 ? place + 1 + dice.below(kShortest - 1) : place;
}

}  // namespace

HiddenPatterns::HiddenPatterns(uint64_t seed, int64_t keys, int64_t seen, Interval never)
    : seed_(seed), keys_(keys), seen_(seen), never_(never) {}

int64_t HiddenPatterns::longest_aligned(int64_t seen, bool last) {
  int64_t longest = 0;
  for (int64_t n = 1; n < kLengths; ++n)
    if (run_length(n, seen) > run_length(longest, seen)) longest = n;
  return kAligned + 2 * longest + last;
}

void HiddenPatterns::hide(std::vector<uint8_t>& hidden, int64_t begin, int64_t end) const {
  for (int64_t j = std::clamp<int64_t>(begin, 0, keys_); j < std::clamp<int64_t>(end, 0, keys_);
       ++j)
    hidden[size_t(j)] = 1;
}

void HiddenPatterns::hide_but(std::vector<uint8_t>& hidden, int64_t begin, int64_t end) const {
  hide(hidden, 0, begin);
  hide(hidden, end, keys_);
}

// Half of the blocks at random; of the first and the last one is hidden; in the middle a hidden one
// stands beside a visible one.
void HiddenPatterns::hide_aligned(std::vector<uint8_t>& hidden, int64_t length, bool last,
                                  uint64_t seed) const {
  const int64_t blocks = (keys_ + length - 1) / length;
  for (int64_t block = 0; block < blocks; ++block) {
    bool hides = random_below(seed, uint64_t(block), 2) != 0;
    if (blocks >= 4 && block == blocks / 2) hides = true;
    if (blocks >= 4 && block == blocks / 2 - 1) hides = false;
    if (block == 0) hides = !last;
    if (block == blocks - 1 && block > 0) hides = last;
    if (hides) hide(hidden, block * length, (block + 1) * length);
  }
}

// The first run has just that length, the others up to a quarter more or less.
void HiddenPatterns::hide_unaligned(std::vector<uint8_t>& hidden, int64_t length,
                                    uint64_t seed) const {
  Dice dice(seed);
  const int64_t jitter = length / 4;
  for (int64_t place = dice.below(length), size = length; place < keys_;) {
    const int64_t begin = off_grid(place, dice);
    hide(hidden, begin, begin + size);
    place = begin + size + 1 + length / 2 + dice.below(length);
    size = length - jitter + dice.below(2 * jitter + 1);
  }
}

int64_t HiddenPatterns::document_begin(int64_t n) const {
  if (n % 4 == 0) return n / 4 * keys_;
  Dice dice(random_bits(seed_, uint64_t(n)));
  return n * keys_ / 4 + dice.below(keys_ / 8) - keys_ / 16;
}

std::vector<uint8_t> HiddenPatterns::hidden(int64_t pattern) const {
  std::vector<uint8_t> hidden(size_t(keys_), pattern == kBlind);
  const uint64_t seed = random_bits(seed_, uint64_t(100 + pattern));
  Dice dice(seed);
  const int64_t many = std::clamp<int64_t>(power_below(seen_) / 4, 2, 64),
                tiles = std::clamp<int64_t>(power_below(seen_) / 2, 2, kLargestTile);
  if (pattern == kScattered)
    for (int64_t j = 0; j < keys_; ++j) hidden[size_t(j)] = dice.below(5) == 0;
  else if (pattern == kEveryOther)
    for (int64_t j = 0; j < keys_; ++j) hidden[size_t(j)] = j % 2 == 0;
  else if (pattern == kOneOfMany)
    for (int64_t j = 0; j < keys_; j += many) {
      const int64_t seen = j + dice.below(many);
      hide(hidden, j, seen);
      hide(hidden, seen + 1, j + many);
    }
  else if (pattern == kFirstOfTiles || pattern == kLastOfTiles)
    for (int64_t tile = 0; tile < keys_; tile += tiles)
      hide(hidden, tile + (pattern == kFirstOfTiles), tile + tiles - (pattern == kLastOfTiles));
  else if (pattern == kPrefix)
    hide(hidden, 0, 1 + keys_ / 8 + dice.below(keys_ / 2));
  else if (pattern == kSuffix)
    hide(hidden, keys_ - 1 - keys_ / 8 - dice.below(keys_ / 2), keys_);
  else if (pattern >= kDocuments && pattern < kBands)
    hide_but(hidden, document_begin(pattern - kDocuments),
             document_begin(pattern - kDocuments + 1));
  else if (pattern >= kBands && pattern < kAligned) {
    const int64_t n = pattern - kBands, block = std::clamp<int64_t>(power_below(seen_) / 8, 1, 64),
                  wider = keys_ / 12;
    hide_but(hidden, (n * keys_ / 3 - wider) / block * block,
             ((n + 1) * keys_ / 3 + wider) / block * block + block);
  } else if (pattern >= kAligned && pattern < kUnaligned)
    hide_aligned(hidden, run_length((pattern - kAligned) / 2, seen_), (pattern - kAligned) % 2 == 1,
                 seed);
  else if (pattern >= kUnaligned)
    hide_unaligned(hidden, run_length(pattern - kUnaligned, seen_), seed);
  hide(hidden, never_.begin, never_.end);
  return hidden;
}

Interval never_seen(uint64_t seed, int64_t keys, int64_t seen) {
  const int64_t size = std::min<int64_t>(16, seen / 16),
                begin = keys / 4 + int64_t(random_below(seed, 0, uint64_t(keys / 2 + 1)));
  return {begin, begin + size};
}

std::vector<uint8_t> hidden_keys(uint64_t seed, int64_t keys, int64_t seen, bool bands,
                                 int64_t variant) {
  std::vector<uint8_t> hidden(size_t(keys), 0);
  auto hide = [&](int64_t begin, int64_t end) {
    std::fill(hidden.begin() + std::clamp<int64_t>(begin, 0, keys),
              hidden.begin() + std::clamp<int64_t>(end, 0, keys), 1);
  };
  Dice dice(seed);
  const int64_t power = power_below(seen), least = std::clamp<int64_t>(power / 2, 1, kShortest),
                longest = std::clamp<int64_t>(power / (bands ? 8 : 2), least,
                                              kShortest << (kLengths - 1));
  // Several fills and heads begin with runs of different lengths, every other one off the grid. One
  // in four begins with a run that is as long as possible, off the grid.
  const int64_t lengths = std::bit_width(uint64_t(std::max<int64_t>(longest / kShortest, 1)));
  const bool begins_long = variant % 4 == 1 && !bands;
  int64_t length = begins_long ? std::min(power, 2 * longest)
                               : std::min(kShortest << (variant % lengths), longest);
  for (int64_t place = 0, n = begins_long ? 1 : variant / 2; place < keys;
       ++n, length = length < longest ? 2 * length : std::min(kShortest, longest)) {
    const int64_t gap = std::min(length, keys / 8) + dice.below(length / 2 + 1), next = place + gap,
                  begin = n % 2 ? off_grid(next, dice) : (next + length - 1) / length * length,
                  size = n % 4 == 3 ? length - dice.below(length / 4 + 1) : length;
    for (int64_t j = place; n % 3 != 0 && j < std::min(begin, keys); ++j)
      hidden[size_t(j)] = dice.below(5) == 0;
    hide(begin, begin + size);
    place = begin + size;
  }
  // Of a band the first rows see little else.
  const bool widely = !bands && (variant % 4 == 0 || variant % 4 == 3);
  const int64_t end =
      bands ? std::max<int64_t>(1, longest / 4) : std::min<int64_t>(widely ? power : longest, 256);
  if (variant % 2 == 0) hide(0, end);
  if (variant % 4 == 3 || (bands && variant % 4 == 0)) hide((keys - 1) / end * end, keys);
  if (std::find(hidden.begin(), hidden.end(), 0) == hidden.end() && keys > 0)
    hidden[size_t(keys / 2)] = 0;
  return hidden;
}

namespace {

class Dealer {
 public:
  explicit Dealer(const PatternDeal& deal)
      : deal_(deal), dice_(deal.seed), pattern_(size_t(deal.rows)) {}

  std::vector<uint8_t> deal() {
    const int64_t unit = deal_.rows >= kManyRows || deal_.variant % 2 ? 64 : 16;
    // "rising", of variant 8, begins with what "cancelling" does, which not all problems have.
    // Heads with room for two or three blocks would else begin with two kinds alone, however many
    // heads there are.
    int64_t part = unit < deal_.rows
                       ? 3 * deal_.variant + deal_.variant / 8 * 6 + deal_.variant / kVariantsOfKind
                       : deal_.variant / 2;
    const int64_t first_cycle = part + int64_t(std::size(kParts));
    for (int64_t begin = 0; begin < deal_.rows; ++part) {
      const Part kind = kParts[size_t(part) % std::size(kParts)];
      const bool again = part >= first_cycle;  // at first there has to be room for each of them
      const int64_t units = kind == kRuns ? (again ? 2 : 1) : kind == kRows ? (again ? 3 : 2) : 1;
      const int64_t end = std::min(begin + units * unit, deal_.rows);
      if (kind == kRows)
        for (int64_t i = begin; i < end; ++i) pattern_[size_t(i)] = next(i);
      else if (kind == kRuns)
        runs(begin, end, unit);
      else
        block(begin, end, kind);
      begin = end;
    }
    return std::move(pattern_);
  }

 private:
  static constexpr int64_t kManyRows = 192, kTries = 12, kStep = 8, kVariantsOfKind = 24;
  // Blocks that hide much with an odd row that sees all, the other way round, runs of rows that are
  // not aligned, single rows.
  enum Part {
    kAll,
    kFirstSees,
    kLastSees,
    kOneSees,
    kFirstHides,
    kLastHides,
    kOneHides,
    kRuns,
    kRows
  };
  static constexpr Part kParts[] = {kAll,       kFirstSees, kRows, kLastSees, kFirstHides, kRuns,
                                    kLastHides, kOneSees,   kRows, kOneHides, kRows,       kRuns};

  // Any pattern from `first` on by which the rows see something; or the one by which no row does,
  // at its turn.
  uint8_t pick(int64_t begin, int64_t end, int64_t first) {
    for (int64_t n = 0; n < kTries; ++n) {
      const int64_t pattern = first + dice_.below(HiddenPatterns::kCount - first);
      if (pattern == HiddenPatterns::kBlind || sees(begin, end, pattern)) return uint8_t(pattern);
    }
    return uint8_t(HiddenPatterns::kVisible);
  }
  // Of single rows: all patterns in turn, beginning with those that few other rows have.
  uint8_t next(int64_t row) {
    static constexpr int64_t kFirst[] = {HiddenPatterns::kBlind, kFirstOfTiles, kLastOfTiles};
    static constexpr int64_t kStride = 9;
    static_assert(std::gcd(kStride, HiddenPatterns::kCount) == 1);
    for (int64_t n = 0; n < kTries; ++n, ++turn_) {
      const int64_t pattern = turn_ < int64_t(std::size(kFirst))
                                  ? kFirst[turn_]
                                  : turn_ * kStride % HiddenPatterns::kCount;
      if (pattern != HiddenPatterns::kBlind && !sees(row, row + 1, pattern)) continue;
      ++turn_;
      return uint8_t(pattern);
    }
    return uint8_t(HiddenPatterns::kVisible);
  }
  bool sees(int64_t begin, int64_t end, int64_t pattern) const {
    for (int64_t i = begin; i < end - 1; i += kStep)
      if (!deal_.sees(i, pattern)) return false;
    return deal_.sees(end - 1, pattern);
  }
  // One that hides much: the longest runs three times out of four, once in four at the end.
  uint8_t pick_hiding(int64_t begin, int64_t end) {
    const int64_t turn = hiding_++ % 4;
    if (turn < 3)
      for (const bool last : {turn == 2, turn != 2})
        if (sees(begin, end, deal_.longest_aligned[last]))
          return uint8_t(deal_.longest_aligned[last]);
    return pick(begin, end, HiddenPatterns::kFirstHiding);
  }

  void block(int64_t begin, int64_t end, Part kind) {
    const bool odd_sees = kind == kFirstSees || kind == kLastSees || kind == kOneSees,
               base_hides = odd_sees || kind == kAll;
    const auto all = uint8_t(HiddenPatterns::kVisible);
    std::fill(pattern_.begin() + begin, pattern_.begin() + end,
              base_hides ? pick_hiding(begin, end) : all);
    if (kind == kAll || end - begin < 2) return;
    const bool first = kind == kFirstSees || kind == kFirstHides,
               last = kind == kLastSees || kind == kLastHides;
    const int64_t odd = first ? begin : last ? end - 1 : begin + (end - begin) / 2;
    pattern_[size_t(odd)] = odd_sees ? all : pick_hiding(odd, odd + 1);
  }

  void runs(int64_t begin, int64_t end, int64_t unit) {
    for (int64_t at = begin; at < end;) {
      const int64_t next =
          std::min(end, at + unit / 4 + dice_.below(at == begin ? unit / 2 : 7 * unit / 4));
      std::fill(pattern_.begin() + at, pattern_.begin() + next, pick(at, next, 0));
      if (dice_.below(2) == 0) {
        const int64_t odd = at + dice_.below(next - at);
        pattern_[size_t(odd)] = pick(odd, odd + 1, 0);
      }
      at = next;
    }
  }

  const PatternDeal& deal_;
  Dice dice_;
  std::vector<uint8_t> pattern_;
  int64_t hiding_ = 0, turn_ = 0;
};

}  // namespace

std::vector<uint8_t> deal_patterns(const PatternDeal& deal) { return Dealer(deal).deal(); }

}  // namespace attest::core
