// The list of softmax attention's events, and why a problem cannot have some of them.
#include <fmt/format.h>

#include <cmath>

#include "core/operations/softmax/events/events.hpp"
#include "core/operations/softmax/events/shape.hpp"
#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax/softmax.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

class Catalogue {
 public:
  explicit Catalogue(const Problem& problem)
      : problem_(problem), p_(problem.as<Params>()), shape_(problem) {}

  std::vector<NumericEvent> list() {
    if (p_.top_k > 0) return events::top_k_events(problem_);
    add_rises();
    add_lanes();
    add_gaps();
    add_spreads();
    add_subnormals();
    for (const int32_t role : {ATTEST_MASK, ATTEST_BIAS}) add_hidden(role);
    add_finite_biases();
    add_wild();
    add_weights();
    for (NumericEvent& event : events::length_events(problem_)) events_.push_back(std::move(event));
    for (NumericEvent& event : events::structure_events(problem_))
      events_.push_back(std::move(event));
    return std::move(events_);
  }

 private:
  bool has(int32_t role) const { return present(problem_.tensor[size_t(role)]); }
  const TensorSpec& spec(int32_t role) const { return problem_.tensor[size_t(role)]; }
  void add(std::string name, std::string why_not) {
    events_.push_back({std::move(name), std::move(why_not)});
  }

  // Scores of a softcap c lie within -c .. c; what is added to them later does not. A bias with one
  // number for each row moves all of them alike.
  bool only_softcap() const {
    const bool biased = has(ATTEST_BIAS) && spec(ATTEST_BIAS).dim[3] > 1;
    return p_.softcap > 0 && !biased && !has(ATTEST_REL_BIAS) && p_.shift_bias == 0;
  }
  std::string beyond_softcap(double difference) const {
    if (!only_softcap() || has(ATTEST_ALIBI_SLOPES) || 2 * double(p_.softcap) > difference)
      return "";
    return fmt::format("softcap {} leaves no two scores {} apart", p_.softcap, difference);
  }
  // Of tiles that lie nearer and nearer to the diagonal, ALiBi raises each by as much. Where scores
  // of a softcap c keep the second from rising, it is by 2 c at most, and later ones rise by 4 c.
  std::string beyond_alibi(double difference) const {
    if (!only_softcap() || !has(ATTEST_ALIBI_SLOPES) || has(ATTEST_MASK) ||
        4 * double(p_.softcap) > difference)
      return "";
    return fmt::format("ALiBi beside softcap {} raises the second tile, too, or none by {}",
                       p_.softcap, difference);
  }

  void add_rises() {
    static constexpr std::pair<const char*, double> kSizes[] = {
        {"little", 0.5}, {"much", 8}, {"over_64", 64}, {"over_88", events::kBeyondExp}};
    for (size_t t = 0; t < kEventTiles.size(); ++t) {
      const EventShape::OfTile& of = shape_.tile[t];
      const std::string group = fmt::format("rise/{}/", kEventTiles[t]);
      auto at_least = [&](int64_t tiles) {
        return of.most_tiles >= tiles
                   ? ""
                   : fmt::format("no row sees {} tiles of {}", tiles, kEventTiles[t]);
      };
      struct Position {
        const char* name;
        std::string why;
        bool may_be_second;
      };
      const Position positions[] = {
          {"second", at_least(2), true},
          {"middle", at_least(4), false},
          {"last",
           of.last ? ""
                   : fmt::format("no row of two tiles ends at a multiple of {}", kEventTiles[t]),
           of.second_is_last},
          {"tail",
           of.tail ? ""
                   : fmt::format("no row of two tiles ends off a multiple of {}", kEventTiles[t]),
           of.second_is_tail}};
      for (const auto& [position, why, may_be_second] : positions)
        for (const auto& [size, rise] : kSizes)
          add(group + position + "/" + size, first_of(first_of(why, beyond_softcap(rise)),
                                                      may_be_second ? "" : beyond_alibi(rise)));
      add(group + "never", at_least(2));
      add(group + "always", at_least(3));
    }
  }

  void add_lanes() {
    for (size_t w = 0; w < kEventLanes.size(); ++w)
      for (int64_t lane = 0; lane < kEventLanes[w]; ++lane)
        add(fmt::format("lane/{}/{}", kEventLanes[w], lane),
            lane < shape_.lanes[w] ? beyond_softcap(events::kBeyondExp)
                                   : fmt::format("no row has a key in lane {} behind its first {}",
                                                 lane, kEventLanes[w]));
  }

  // Weights of e^-gap that are seen in the largest values that any fill has beside them, the least
  // that gaps.cpp takes for seen.
  std::string too_few_keys(int gap) const {
    if (shape_.most_keys < 2) return "no row sees two keys";
    constexpr double kLargest = 448;
    const double shown = double(shape_.most_keys - 1) * std::exp(-gap) * kLargest,
                 least = events::kSeenSubnormals * half_subnormal(spec(ATTEST_O).dtype);
    return shown >= least
               ? ""
               : fmt::format("{} keys of weight e^-{} are lost beside what {} holds",
                             shape_.most_keys - 1, gap, dtype_name(spec(ATTEST_O).dtype));
  }

  void add_gaps() {
    for (const int gap : events::kGaps)
      for (const char* side : {"after_top", "before_top"}) {
        const std::string why = beyond_softcap(gap);
        add(fmt::format("gap/{}/{}", side, gap), why.empty() ? too_few_keys(gap) : why);
      }
    const std::string why = beyond_softcap(25);
    add("gap/cut/40", why.empty() ? too_few_keys(20) : why);
  }

  void add_subnormals() {
    const std::string dtypes = is_in_f16(problem_) ? "" : "Q, K and V are not all in f16";
    // Of half the channels, beside numbers that f16 holds times log2(e)
    const double most = std::fabs(double(p_.softmax_scale)) * smallest_normal(ATTEST_F16) * 32768 *
                        std::sqrt(double(p_.head_dim) / 2);
    const std::string scores =
        shape_.most_keys < 2 ? "no row sees two keys"
        : most < 1
            ? fmt::format("softmax_scale {} leaves subnormal numbers no weight", p_.softmax_scale)
            : "";
    const char* const narrow = p_.head_dim < 2 ? "head_dim 1 has one channel, for K" : "";
    add("subnormal/q", first_of(dtypes, first_of(narrow, scores)));
    add("subnormal/k", first_of(dtypes, scores));
    add("subnormal/v", dtypes);
  }

  void add_spreads() {
    for (size_t t = 0; t < kEventTiles.size(); ++t) {
      const std::string tiles = shape_.tile[t].most_tiles >= 2
                                    ? ""
                                    : fmt::format("no row sees 2 tiles of {}", kEventTiles[t]);
      for (const int rise : events::kLargeRises)
        add(fmt::format("spread/{}/rise/{}", kEventTiles[t], rise),
            first_of(tiles, no_spread(rise, false)));
      add(fmt::format("spread/{}/negative", kEventTiles[t]), no_negative_tile());
    }
    const std::string two = shape_.most_keys >= 2 ? "" : "no row sees two keys";
    for (const events::FarGap& gap : events::kFarGaps)
      add(fmt::format("spread/gap/{}", int(gap.least)), first_of(two, no_spread(gap.least, true)));
  }
  bool biases_pairs() const { return has(ATTEST_BIAS) && spec(ATTEST_BIAS).dim[3] > 1; }
  // Beside a softcap, of what fills add to scores only ALiBi and finite biases go so far: ALiBi in
  // long rows, finite biases by less than 1,000 or more than 40,000.
  bool has_near_terms(double difference) const {
    const bool near_biases = !biases_pairs() || difference >= events::kFarGaps[1].least;
    return p_.softcap > 0 && !has(ATTEST_ALIBI_SLOPES) && p_.shift_bias == 0 && near_biases;
  }
  std::string no_spread(double difference, bool is_gap) const {
    const bool near = has_near_terms(is_gap ? difference : 0);
    return near && !only_softcap() && 2 * double(p_.softcap) <= difference
               ? fmt::format("no fill has terms {} apart beside softcap {}", difference, p_.softcap)
               : beyond_softcap(difference);
  }
  std::string no_negative_tile() const {
    if (has(ATTEST_SINKS)) return "no fill has sinks below such scores";
    if (shape_.most_keys < 2) return "no row sees two keys";
    const bool is_low = has_near_terms(0) && double(p_.softcap) <= events::kBeyondExp;
    return is_low ? fmt::format("softcap {} leaves no two negative scores {} apart", p_.softcap,
                                events::kBeyondExp)
                  : "";
  }

  static std::string first_of(const std::string& one, const std::string& other) {
    return one.empty() ? other : one;
  }

  // Why a tensor of pairs hides no single key of a row, or none in rows alone.
  std::string no_hiding(int32_t role, bool by_row) const {
    const std::string name = role == ATTEST_MASK ? "mask" : "bias";
    if (!has(role)) return "there is no " + name;
    if (spec(role).dim[3] == 1) return name + " is one value a row";
    return by_row && spec(role).dim[2] == 1 ? name + " is the same for all rows" : "";
  }

  void add_hidden(int32_t role) {
    const std::string name = role == ATTEST_MASK ? "mask" : "bias", none = no_hiding(role, false),
                      same = no_hiding(role, true);
    auto keys = [&](int64_t least) {
      return shape_.most_keys >= least ? "" : fmt::format("no row sees {} keys", least);
    };
    for (size_t t = 0; t < kEventTiles.size(); ++t) {
      const std::string group = fmt::format("{}/{}/", name, kEventTiles[t]);
      auto tiles = [&](int64_t least) {
        return shape_.tile[t].most_tiles >= least
                   ? ""
                   : fmt::format("no row sees {} tiles of {}", least, kEventTiles[t]);
      };
      add("hidden/" + group + "first", first_of(none, tiles(2)));
      add("hidden/" + group + "middle", first_of(none, tiles(3)));
      add("hidden/" + group + "last", first_of(none, tiles(2)));
      const std::string block = shape_.tile[t].block
                                    ? ""
                                    : fmt::format("no {} rows have {} keys and more in common",
                                                  kQueryTile, kEventTiles[t]);
      add("block/" + group + "all", first_of(none, block));
      for (const char* which : {"first_row", "last_row", "all_but_one"})
        add("block/" + group + which, first_of(same, block));
    }
    for (const int64_t run : events::kRuns)
      add(fmt::format("hidden/{}/unaligned/{}", name, run), first_of(none, keys(run + 2)));
    add("hidden/" + name + "/scattered", first_of(none, keys(3)));
  }

  void add_finite_biases() {
    const bool by_row = has(ATTEST_BIAS) && spec(ATTEST_BIAS).dim[2] > 1;
    const std::string none = has(ATTEST_BIAS) ? "" : "there is no bias",
                      hides_none = no_hiding(ATTEST_BIAS, false),
                      one_bias = by_row ? "" : "all rows of a head have one bias",
                      few = by_row && p_.seq_len_q < 3 ? "there are fewer than three rows" : "";
    auto keys = [&](int64_t least) {
      return shape_.most_keys >= least ? "" : fmt::format("no row sees {} keys", least);
    };
    add("finite_bias/only", first_of(none, one_bias));
    add("finite_bias/differ", first_of(hides_none, first_of(one_bias, keys(2))));
    add("finite_bias/lowest", first_of(hides_none, first_of(few, keys(by_row ? 4 : 16))));
    const std::string same =
        !by_row && shape_.varies ? "some row sees its first tile alone, with the same biases" : "";
    for (const int64_t tile : kEventTiles)
      add(fmt::format("finite_bias/{}/first", tile),
          first_of(hides_none, first_of(first_of(few, same), keys(2 * tile))));
  }

  bool blocks_differ() const {
    return has(ATTEST_BLOCK_MASK) && spec(ATTEST_BLOCK_MASK).dim[2] > 1;
  }
  // Whether hiding or intervals part the rows of one head.
  bool rows_differ() const {
    return shape_.varies || blocks_differ() || p_.global_tokens > 0 ||
           no_hiding(ATTEST_MASK, true).empty() || no_hiding(ATTEST_BIAS, true).empty();
  }

  // What an infinity may not stand for, since honest kernels differ in what they make of it.
  static constexpr const char* kCapped =
      "beyond the softcap -inf is a score like any other, or hides the key where kernels mark so";
  static constexpr const char* kCappedScores =
      "infinities of K, of which queries make such scores, are scores like any other beyond the "
      "softcap";
  static constexpr const char* kWeightless =
      "keys far below the largest weigh 0 in float32, and 0 times infinity is NaN";

  std::string weightless() const {
    return p_.shift_bias != 0 || has(ATTEST_ALIBI_SLOPES) ? kWeightless : "";
  }

  void add_wild() {
    const bool keys_differ = shape_.key_heads > 1 || rows_differ();
    const std::string one_head =
        keys_differ ? "" : "one head, and all its rows see the same keys: they would all be NaN";
    const std::string bias_why = !has(ATTEST_BIAS) ? "there is no bias"
                                 : spec(ATTEST_BIAS).dim[2] > 1 || rows_differ()
                                     ? ""
                                     : "all rows of a head have one bias: they would all be NaN";
    for (const bool infinite : {false, true}) {
      const char* kind = infinite ? "inf" : "nan";
      const std::string capped = infinite && p_.softcap > 0 ? kCapped : "",
                        weighs_not = infinite ? weightless() : "";
      add(fmt::format("{}/q", kind), first_of(capped, shape_.rows > 1 ? "" : "there is one row"));
      add(fmt::format("{}/k", kind), first_of(capped, one_head));
      add(fmt::format("{}/v", kind), first_of(weighs_not, p_.head_dim_v > 1 ? "" : one_head));
      add(fmt::format("{}/bias", kind), bias_why);
    }
    add_wild_ends(one_head);
    add("nan/of_others/k", rows_differ() ? "" : "all rows of a head see the same keys");
    const bool hides =
        no_hiding(ATTEST_MASK, false).empty() || no_hiding(ATTEST_BIAS, false).empty();
    for (const char* tensor : {"k", "v"})
      add(fmt::format("hidden_nan/{}", tensor),
          shape_.unread || hides ? "" : "some row sees each key");
  }

  // Beyond a softcap no score is infinite, so K has a NaN where a score is to be one.
  std::string no_capped_nan(bool in_first_tile) const {
    const bool apart = shape_.key_heads > 1 || shape_.varies;
    if (!apart) return "one head, and all its rows see the same keys: they would all be NaN";
    return !in_first_tile || shape_.key_heads > 2 || shape_.starts_differ
               ? ""
               : "a NaN of K in the first tile is every row's, and one key head has to be left";
  }

  // What one tile of a row has alone.
  void add_wild_ends(const std::string& one_head) {
    const std::string tiles =
        shape_.tile.front().most_tiles >= 2 ? "" : "no row sees two tiles of 16";
    const std::string score = p_.softcap > 0    ? kCappedScores
                              : shape_.rows > 1 ? ""
                                                : "there is one row";
    const std::string nan = p_.head_dim_v > 1 ? "" : one_head,
                      infinite = first_of(weightless(), nan);
    for (const bool first : {true, false}) {
      const char* end = first ? "first_tile" : "last_tile";
      add(fmt::format("nan/{}/score", end),
          first_of(tiles, p_.softcap > 0 ? no_capped_nan(first) : score));
      add(fmt::format("nan/{}/v", end), first_of(tiles, nan));
      for (const char* sign : {"+", "-"}) {
        add(fmt::format("inf/{}/{}score", end, sign), first_of(tiles, score));
        add(fmt::format("inf/{}/{}v", end, sign), first_of(tiles, infinite));
      }
    }
  }

  void add_weights() {
    auto keys = [&](int64_t least) {
      return shape_.most_keys >= least ? "" : fmt::format("no row sees {} keys", least);
    };
    add("equal/65504", keys(int64_t(events::kManyEqual)));
    const bool bounded = p_.softcap > 0 && p_.softcap <= events::kHugeLogit && !has(ATTEST_BIAS);
    const std::string capped = bounded ? fmt::format("softcap {}", p_.softcap) : "";
    add("logit/+30000", capped);
    add("logit/-30000", capped);
    for (const char* event : {"softcap/+88", "softcap/-88"})
      add(event, p_.softcap == 0 ? "there is no softcap"
                 : double(p_.softcap) * events::kBeyondExp > events::kHugeLogit
                     ? "no fill has such scores"
                     : "");
    add("softcap/bends", p_.softcap == 0 ? "there is no softcap" : keys(2));
    for (const char* event : {"sink/leads", "sink/trails"})
      add(event, has(ATTEST_SINKS) ? "" : "there are no sinks");
    add("weights/graded", keys(events::kGradedKeys));
    add("weights/key", keys(2));
    add("cancels", keys(events::kCancellingKeys));
    add("distinct", keys(2));
    add("heavy", keys(1));
  }

  const Problem& problem_;
  const Params& p_;
  const EventShape shape_;
  std::vector<NumericEvent> events_;
};

}  // namespace

std::vector<NumericEvent> SoftmaxOperation::events(const Problem& problem) const {
  if (has_f8(problem)) return events::f8_events(problem);
  return Catalogue(problem).list();
}

}  // namespace attest::core
