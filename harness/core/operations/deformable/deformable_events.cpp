#include "core/operations/deformable/deformable_events.hpp"

#include <algorithm>
#include <cmath>

#include "core/operations/deformable/sampling.hpp"
#include "core/tensor/dtype.hpp"

namespace attest::core {
namespace {

using deformable::Level, deformable::Params;
using Found = std::set<std::string>;

constexpr double kFarCoordinate = 0x1p31, kSmallWeight = 0x1p-12, kLargeOfV = 256,
                 kLargeShare = 0.01, kCancelledShare = 1.0 / 3;
constexpr size_t kCancellingPoints = 3;

/// A point of one row: locations and coordinates along x and y.
struct Spot {
  int64_t level = 0;
  double location[2] = {}, at[2] = {}, weight = 0;
  bool inside = false;

  bool weighs() const { return std::isfinite(weight) && weight != 0; }
  bool counts() const { return inside && weighs(); }
};

/// What a kernel in float32 takes for the coordinate.
float float_coordinate(const Params& p, double location, int64_t size) {
  const auto x = static_cast<float>(location), pixels = static_cast<float>(size);
  return p.align_corners ? x * (pixels - 1) : x * pixels - 0.5f;
}

/// The sum of one row over its points.
class RowSum {
 public:
  explicit RowSum(size_t channels) : sum_(channels), squares_(channels), excess_(channels) {}

  /// `pixel`: the channels of the pixel, whose bilinear factor times the weight is `share`.
  void add_pixel(double share, const std::vector<double>& pixel, std::vector<double>& sample) {
    for (size_t c = 0; c < pixel.size(); ++c) {
      if (std::isnan(pixel[c])) reads_nan_ = true;
      sample[c] += share * pixel[c];
      excess_[c] += std::fabs(share) * std::max(0.0, std::fabs(pixel[c]) - kLargeOfV);
    }
  }
  void add_sample(const std::vector<double>& sample) {
    for (size_t c = 0; c < sample.size(); ++c) {
      sum_[c] += sample[c];
      squares_[c] += sample[c] * sample[c];
    }
    ++samples_;
  }
  bool reads_nan() const { return reads_nan_; }
  void note(Found& found) const {
    if (reads_nan_) return;
    double output = 0, squares = 0;
    for (size_t c = 0; c < sum_.size(); ++c) {
      output += sum_[c] * sum_[c];
      squares += squares_[c];
      if (excess_[c] > 0 &&
          excess_[c] >= kLargeShare * std::max(std::fabs(sum_[c]), std::sqrt(squares_[c])))
        found.insert("value/256");
    }
    if (samples_ >= kCancellingPoints && output < kCancelledShare * kCancelledShare * squares)
      found.insert("cancels");
  }

 private:
  std::vector<double> sum_, squares_, excess_;  // [channels]
  size_t samples_ = 0;
  bool reads_nan_ = false;
};

class DeformableCounter {
 public:
  DeformableCounter(const Problem& problem, const Tensors& inputs, const std::vector<bool>& judged)
      : p_(problem.as<Params>()),
        levels_(deformable::levels_of(p_)),
        locations_(inputs[ATTEST_LOCATIONS]),
        weights_(inputs[ATTEST_WEIGHTS]),
        pixels_(problem, inputs),
        judged_(judged),
        pixel_(size_t(p_.head_dim_v)),
        sample_(pixel_.size()) {}

  Found count() {
    for (int64_t head = 0; head < p_.batch * p_.num_heads; ++head) {
      Found of_nan;  // events of rows with a NaN
      bool calm = false;
      for (int64_t i = 0; i < p_.seq_len_q; ++i) {
        if (!judged_[size_t(head * p_.seq_len_q + i)]) continue;
        const Found row = note_row(head / p_.num_heads, head % p_.num_heads, i);
        calm |= row.empty();
        of_nan.insert(row.begin(), row.end());
      }
      if (calm) found_.merge(of_nan);
    }
    return std::move(found_);
  }

 private:
  /// Returns the events of a row with a NaN, which count beside one without any.
  Found note_row(int64_t b, int64_t h, int64_t i) {
    const std::vector<Spot> spots = read(b, h, i);
    Found of_nan;
    for (const Spot& spot : spots) {
      note_location(spot);
      if (std::isnan(spot.weight)) {
        if (spot.inside)
          of_nan.insert("weight/nan");
        else
          found_.insert("outside/nan_weight");
      }
      if (spot.counts()) note_counting(spot);
    }
    note_levels(spots);
    RowSum sum(pixel_.size());
    for (const Spot& spot : spots) {
      if (!spot.counts()) continue;
      if (!add(b, h, spot, sum)) continue;
      of_nan.insert("nan/v");
      if (is_inner(spot.level)) of_nan.insert("nan/v/inner");
    }
    if (of_nan.empty()) sum.note(found_);
    return of_nan;
  }

  std::vector<Spot> read(int64_t b, int64_t h, int64_t i) const {
    std::vector<Spot> spots;
    for (int64_t level = 0; level < p_.num_levels; ++level)
      for (int64_t point = 0; point < p_.num_points; ++point) {
        const Level& size = levels_[size_t(level)];
        Spot spot{.level = level, .weight = weights_.at({b, h, i, level, point})};
        for (int64_t axis = 0; axis < 2; ++axis) {
          spot.location[axis] = locations_.at({b, h, i, level, point, axis});
          spot.at[axis] =
              deformable::coordinate(p_, spot.location[axis], axis == 0 ? size.width : size.height);
        }
        spot.inside = deformable::is_inside(spot.at[0], size.width) &&
                      deformable::is_inside(spot.at[1], size.height);
        spots.push_back(spot);
      }
    return spots;
  }

  bool is_inner(int64_t level) const { return level > 0 && level + 1 < p_.num_levels; }
  int64_t side(const Spot& spot, int axis) const {
    const Level& level = levels_[size_t(spot.level)];
    return axis == 0 ? level.width : level.height;
  }

  void note_location(const Spot& spot) {
    if (!spot.weighs()) return;
    for (int axis = 0; axis < 2; ++axis) {
      const char* name = axis == 0 ? "x" : "y";
      if (std::isnan(spot.location[axis])) found_.insert(std::string("location/nan/") + name);
      if (std::isinf(spot.location[axis])) found_.insert(std::string("location/inf/") + name);
    }
    if (spot.inside || !std::isfinite(spot.at[0]) || !std::isfinite(spot.at[1])) return;
    if (std::max(std::fabs(spot.at[0]), std::fabs(spot.at[1])) > kFarCoordinate)
      found_.insert("outside/far");
    if (deformable::is_inside(spot.at[0], side(spot, 0), 1) &&
        deformable::is_inside(spot.at[1], side(spot, 1), 1))
      found_.insert("outside/near");
  }

  void note_counting(const Spot& spot) {
    const bool left = spot.at[0] < 0, top = spot.at[1] < 0;
    const bool right = spot.at[0] > double(side(spot, 0) - 1);
    const bool bottom = spot.at[1] > double(side(spot, 1) - 1);
    const auto note = [&](bool happens, const char* name) {
      if (happens) found_.insert(name);
    };
    note(left, "border/left");
    note(right, "border/right");
    note(top, "border/top");
    note(bottom, "border/bottom");
    note((left || right) && (top || bottom), "border/corner");
    for (int axis = 0; axis < 2; ++axis) {
      const float at = float_coordinate(p_, spot.location[axis], side(spot, axis));
      note(at == std::floor(at), axis == 0 ? "centre/x" : "centre/y");
    }
    note(spot.level == 0, "level/first");
    note(is_inner(spot.level), "level/middle");
    note(spot.level > 0 && !is_inner(spot.level), "level/last");
    note(spot.weight < 0, "weight/negative");
    note(spot.weight > 1, "weight/above_1");
  }

  void note_levels(const std::vector<Spot>& spots) {
    std::set<int64_t> levels;
    bool small = true;
    for (const Spot& spot : spots) {
      if (!spot.counts()) continue;
      levels.insert(spot.level);
      small &= std::fabs(spot.weight) < kSmallWeight;
    }
    if (levels.empty()) return;
    if (small) found_.insert("weight/small");
    if (p_.num_levels > 1 && int64_t(levels.size()) == p_.num_levels) found_.insert("levels/all");
    if (p_.num_levels > 1 && levels.size() == 1) found_.insert("levels/one");
    if (p_.num_points < 2) return;
    for (size_t first = 0; first < spots.size(); first += size_t(p_.num_points)) {
      const auto begin = spots.begin() + std::ptrdiff_t(first);
      if (std::all_of(begin, begin + p_.num_points, [&](const Spot& spot) {
            return spot.counts() && spot.at[0] == begin->at[0] && spot.at[1] == begin->at[1];
          }))
        found_.insert("points/one_place");
    }
  }

  /// Returns whether the sample of that spot reads a NaN.
  bool add(int64_t b, int64_t h, const Spot& spot, RowSum& sum) {
    std::ranges::fill(sample_, 0.0);
    const double x = std::floor(spot.at[0]), y = std::floor(spot.at[1]), right = spot.at[0] - x,
                 lower = spot.at[1] - y;
    bool reads_nan = false;
    for (int k = 0; k < 4; ++k) {
      const double factor = (k % 2 ? right : 1 - right) * (k / 2 ? lower : 1 - lower);
      if (factor == 0) continue;
      pixels_.read(b, h, levels_[size_t(spot.level)], int64_t(y) + k / 2, int64_t(x) + k % 2,
                   pixel_.data());
      sum.add_pixel(spot.weight * factor, pixel_, sample_);
      reads_nan |= std::ranges::any_of(pixel_, [](double value) { return std::isnan(value); });
    }
    sum.add_sample(sample_);
    return reads_nan;
  }

  const Params p_;
  const std::vector<Level> levels_;
  const Tensor locations_, weights_;
  const deformable::Pixels pixels_;
  const std::vector<bool>& judged_;
  std::vector<double> pixel_, sample_;  // [channels]
  Found found_;
};

}  // namespace

std::vector<NumericEvent> deformable_events(const Problem& problem) {
  const Params& p = problem.as<Params>();
  std::vector<NumericEvent> events;
  const auto add = [&](const char* name, std::string why_not = "") {
    events.push_back({name, std::move(why_not)});
  };
  int64_t width = 0, height = 0;  // the largest ones
  for (const Level& level : deformable::levels_of(p)) {
    width = std::max(width, level.width);
    height = std::max(height, level.height);
  }
  // With align_corners, every finite location along an axis of one pixel is that pixel's centre.
  const bool is_column = p.align_corners && width == 1, is_row = p.align_corners && height == 1;
  const std::string column = is_column ? "no level has two columns, and corners are aligned" : "",
                    row = is_row ? "no level has two rows, and corners are aligned" : "",
                    either = is_column ? column : row;
  add("border/left", column);
  add("border/right", column);
  add("border/top", row);
  add("border/bottom", row);
  add("border/corner", either);
  add("centre/x");
  add("centre/y");
  const std::string pixel =
      is_column && is_row ? "all levels are one pixel, and corners are aligned" : "";
  add("outside/near", pixel);
  const double most = largest_finite(problem.tensor[ATTEST_LOCATIONS].dtype);
  add("outside/far", !pixel.empty() ? pixel
                     : most * double(std::max(width, height)) <= 2 * kFarCoordinate
                         ? "locations reach no coordinate beyond 2^31"
                         : "");
  add("outside/nan_weight");
  for (const char* name : {"location/nan/x", "location/nan/y", "location/inf/x", "location/inf/y"})
    add(name);
  const std::string levels = p.num_levels < 2 ? "there is one level" : "",
                    inner = p.num_levels < 3 ? "no level is between two others" : "";
  add("level/first");
  add("level/middle", inner);
  add("level/last", levels);
  add("levels/all", levels);
  add("levels/one", levels);
  add("points/one_place", p.num_points < 2 ? "there is one point a level" : "");
  add("weight/negative");
  add("weight/above_1");
  add("weight/small");
  add("weight/nan", p.seq_len_q < 2 ? "there is one query" : "");
  add("value/256");
  const std::string alone = p.seq_len_q < 2 ? "there is one query" : "";
  add("nan/v", alone);
  add("nan/v/inner", !alone.empty() ? alone : inner);
  add("cancels", p.num_levels * p.num_points < int64_t(kCancellingPoints)
                     ? "there are fewer than three points"
                     : "");
  return events;
}

std::set<std::string> count_deformable_events(const Problem& problem, const Tensors& inputs,
                                              const std::vector<bool>& judged) {
  return DeformableCounter(problem, inputs, judged).count();
}

}  // namespace attest::core
