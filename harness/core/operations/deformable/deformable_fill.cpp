// Inputs of deformable attention.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/operations/deformable/deformable.hpp"
#include "core/operations/deformable/sampling.hpp"
#include "core/operations/fill_rows.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using deformable::Level, deformable::Params;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInfinite = std::numeric_limits<double>::infinity();

/// Streams of random numbers of one fill.
enum : uint64_t { kOfV, kOfPlaces, kOfOffsets, kOfWeights, kOfChoices, kOfSizes };

class DeformableFill {
 public:
  DeformableFill(const Problem& problem, const Fill& fill, const Tensors& tensors)
      : p_(problem.as<Params>()),
        levels_(deformable::levels_of(p_)),
        tensors_(tensors),
        name_(fill.name),
        seed_(fill.seed),
        count_(p_.num_levels * p_.num_points) {}

  void write() const {
    name_ == "cancelling" ? write_planes() : fill_normal(tensors_[ATTEST_V], stream(kOfV));
    if (name_ == "borders") enlarge_values();
    const int64_t rows = p_.batch * p_.num_heads * p_.seq_len_q;
#pragma omp parallel for schedule(static) if (rows * count_ > kThreadedElements)
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<Spot> spots(static_cast<size_t>(count_));
      make_row(row, spots);
      store_spots(row, spots);
    }
    if (name_ == "wild") write_wild_pixels();
  }

 private:
  /// Location and weight of one point.
  struct Spot {
    double x = 0, y = 0, weight = 0;
  };
  struct Pixel {
    int64_t level, y, x;
  };

  uint64_t stream(uint64_t of) const { return random_bits(seed_, of); }
  double uniform(uint64_t of, uint64_t index) const {
    return double(random_uniform(stream(of), index));
  }
  int64_t below(uint64_t index, int64_t n) const {
    return int64_t(random_below(stream(kOfChoices), index, uint64_t(n)));
  }

  /// The location of a pixel coordinate; coordinate() is its inverse. With aligned corners every
  /// location is on the one pixel of an axis of one, so any will do.
  double location(double at, int64_t size) const {
    if (!p_.align_corners) return (at + 0.5) / double(size);
    return size == 1 ? at + 0.5 : at / double(size - 1);
  }

  void make_row(int64_t row, std::vector<Spot>& spots) const {
    around_a_place(row, spots);
    if (name_ == "borders") {
      on_borders(row, spots);
      any_weights(row, spots);
    } else if (name_ == "far")
      far_outside(row, spots);
    else if (name_ == "alone")
      row % 2 == 0 ? one_level(row / 2, spots) : one_place(spots);
    else if (name_ == "cancelling")
      cancelling(row, spots);
    else if (name_ == "wild")
      wild(row, spots);
  }

  const Level& level_of(size_t spot) const { return levels_[spot / size_t(p_.num_points)]; }

  // A query has one place in all levels, and its points lie a few pixels around it. Weights are
  // above 0 and sum to 1.
  void around_a_place(int64_t row, std::vector<Spot>& spots) const {
    const auto first = uint64_t(row * count_);
    const double x = uniform(kOfPlaces, 2 * uint64_t(row)),
                 y = uniform(kOfPlaces, 2 * uint64_t(row) + 1);
    double total = 0;
    for (size_t n = 0; n < spots.size(); ++n) {
      const Level& level = level_of(n);
      const auto offset = [&](uint64_t axis) {
        return 2 * double(random_normal(stream(kOfOffsets), 2 * (first + n) + axis));
      };
      spots[n] = {location(x * double(level.width) - 0.5 + offset(0), level.width),
                  location(y * double(level.height) - 0.5 + offset(1), level.height),
                  uniform(kOfWeights, first + n) + 0x1p-6};
      total += spots[n].weight;
    }
    for (Spot& spot : spots) spot.weight /= total;
  }

  // Coordinates on and beside the first and last pixels, and on the centre of some other; three in
  // four.
  void on_borders(int64_t row, std::vector<Spot>& spots) const {
    for (size_t n = 0; n < spots.size(); ++n) {
      const auto index = 4 * (uint64_t(row * count_) + n);
      const auto at_border = [&](uint64_t of, double old, int64_t size) {
        const auto last = double(size - 1), middle = double(below(index + of + 1, size));
        const std::array<double, 16> places{-1.25,       -0.875,       -0.5,         -0.125,
                                            0,           0.125,        last - 0.875, last - 0.125,
                                            last,        last + 0.125, last + 0.5,   last + 0.875,
                                            last + 1.25, middle,       -1,           last + 1};
        const int64_t choice = below(index + of, 20);
        return choice < 16 ? location(places[size_t(choice)], size) : old;
      };
      const Level& level = level_of(n);
      spots[n].x = at_border(0, spots[n].x, level.width);
      spots[n].y = at_border(2, spots[n].y, level.height);
    }
  }

  // Weights of both signs: as in "random", or some 16, or all of them small. Of more than 64 points
  // the large ones are smaller, so that the sums, beside large values, stay in the range of f16.
  void any_weights(int64_t row, std::vector<Spot>& spots) const {
    constexpr double kMostOfLarge = 64;
    const std::array<double, 4> sizes{
        1, 16 * std::sqrt(std::min(1.0, kMostOfLarge / double(spots.size()))), 0x1p-9, 0x1p-13};
    for (size_t n = 0; n < spots.size(); ++n)
      spots[n].weight =
          sizes[size_t(row) % sizes.size()] *
          double(random_normal(stream(kOfSizes), uint64_t(row * count_) + uint64_t(n)));
  }

  // The values of every fourth channel become some 128.
  void enlarge_values() const {
    constexpr double kLargeValue = 128;
    edit_elements(tensors_[ATTEST_V],
                  [](int64_t, int64_t c, double x) { return c % 4 == 3 ? kLargeValue * x : x; });
  }

  // Two points of three lie far outside in one direction or both, the first never.
  void far_outside(int64_t row, std::vector<Spot>& spots) const {
    const double most = largest_finite(tensors_[ATTEST_LOCATIONS].spec.dtype);
    for (size_t n = 1; n < spots.size(); ++n) {
      const auto index = 4 * (uint64_t(row * count_) + n);
      constexpr double kFar[] = {2, 50, 6e4, 3e6, 2.2e7, 1e12, 1e20, 1e38};
      const double far = std::min(kFar[below(index, 8)], most) * (below(index + 1, 2) ? 1 : -1);
      const int64_t direction = below(index + 2, 4);
      // With aligned corners there is no outside of an axis of one pixel.
      const auto is_free = [&](int64_t size) { return !p_.align_corners || size > 1; };
      if (direction != 1 && direction != 3 && is_free(level_of(n).width)) spots[n].x = far;
      if (direction != 0 && direction != 3 && is_free(level_of(n).height)) spots[n].y = far;
    }
  }

  void one_level(int64_t choice, std::vector<Spot>& spots) const {
    const int64_t level = choice % p_.num_levels;
    double total = 0;
    for (size_t n = 0; n < spots.size(); ++n) {
      if (int64_t(n) / p_.num_points != level) spots[n].weight = 0;
      total += spots[n].weight;
    }
    for (Spot& spot : spots) spot.weight /= total;
  }

  void one_place(std::vector<Spot>& spots) const {
    for (size_t n = 0; n < spots.size(); ++n) {
      const Spot& first = spots[n - n % size_t(p_.num_points)];
      spots[n].x = first.x;
      spots[n].y = first.y;
    }
  }

  // --- "cancelling" ---
  //
  // V is a plane in each square of kSide pixels, whole numbers of 8 bits. Three points on a line in
  // one square have weights w, -2 w, w, so the true output is 0; their locations have few enough
  // bits to be exact in the dtype.
  static constexpr int64_t kSide = 32;

  static double wave(int64_t at) {
    const int64_t phase = at % (2 * kSide);
    return double(phase < kSide ? phase : 2 * kSide - phase);
  }

  void write_planes() const {
    const Tensor& v = tensors_[ATTEST_V];
    const int64_t tokens = v.spec.dim[2];
    fill_rows(v, [&](int64_t r, std::span<float> values) {
      const int64_t token = r % tokens;
      size_t l = 0;
      while (l + 1 < levels_.size() && token >= levels_[l + 1].first) ++l;
      const int64_t pixel = token - levels_[l].first;
      const double x = wave(pixel % levels_[l].width), y = wave(pixel / levels_[l].width);
      for (size_t c = 0; c < values.size(); ++c) {
        const uint64_t index = (uint64_t(r / tokens) * levels_.size() + l) * values.size() + c;
        const auto slope = [&](uint64_t n) {
          return double(random_below(stream(kOfV), 3 * index + n, 3)) - 1;
        };
        values[c] = float(double(random_below(stream(kOfV), 3 * index + 2, 96)) + slope(0) * x +
                          slope(1) * y);
      }
    });
  }

  /// Three locations, evenly apart, in the square of the coordinate of `first`.
  std::array<double, 3> line(double first, int64_t size, uint64_t index) const {
    const DType dtype = tensors_[ATTEST_LOCATIONS].spec.dtype;
    // Steps of locations below 1: of 2^-20 at most, so that products with sizes are rounded.
    const double step = std::max(unit_roundoff(dtype), 0x1p-20);
    const double at = std::clamp(deformable::coordinate(p_, first, size), 0.0, double(size - 1));
    const double begin = std::floor(at / kSide) * kSide;
    const auto lowest = int64_t(std::ceil(location(begin, size) / step)),
               highest = int64_t(
                   std::floor(location(std::min(begin + kSide, double(size - 1)), size) / step));
    const int64_t room = std::max<int64_t>((highest - lowest) / 2, 0);
    const int64_t apart = room == 0 ? 0 : below(index, room + 1),
                  start = lowest + (highest - lowest - 2 * apart > 0
                                        ? below(index + 1, highest - lowest - 2 * apart + 1)
                                        : 0);
    return {double(start) * step, double(start + apart) * step, double(start + 2 * apart) * step};
  }

  void cancelling(int64_t row, std::vector<Spot>& spots) const {
    const auto points = size_t(p_.num_points);
    for (size_t n = 0; n < spots.size(); ++n) {
      if (n % points + 3 > points || n % points % 3 != 0) {
        if (n % points / 3 == points / 3) spots[n].weight = 0;  // no three are left
        continue;
      }
      const Level& level = level_of(n);
      const auto index = 8 * (uint64_t(row * count_) + n);
      const std::array<double, 3> x = line(spots[n].x, level.width, index),
                                  y = line(spots[n].y, level.height, index + 2);
      const double weight = double(16 + below(index + 4, 112)) / 256;
      spots[n] = {x[0], y[0], weight};
      spots[n + 1] = {x[1], y[1], -2 * weight};
      spots[n + 2] = {x[2], y[2], weight};
    }
  }

  // --- "wild" ---
  //
  // In each head some pixels are NaN in one channel each: the middle of the first level and of each
  // level between the first and the last; and the last pixel of the last level, or the 101st of its
  // 101st row. If there is one level, that pixel is NaN only if it is far from the middle. No point
  // lies so near that an error of its coordinate decides whether it reads one: points near
  // such a pixel are moved onto it, or outside. Coordinates of small levels err by less than a
  // tenth of a pixel, and a level of 3 x 5 pixels keeps points that do not read its middle.
  static constexpr double kNear = 3, kNearInSmall = 1.25, kOutside = -3;
  static constexpr int64_t kSmall = 16;         // pixels along each side of a small level
  static constexpr int64_t kWildKinds = 6;      // of rows, in turn
  static constexpr int64_t kFarthestNan = 100;  // bf16 coordinates err by less than a pixel there

  std::vector<Pixel> wild_pixels() const {
    const Level &first = levels_.front(), &last = levels_.back();
    const auto near = [](int64_t place) { return std::min<int64_t>(place, kFarthestNan); };
    const Pixel middle{0, near(first.height / 2), near(first.width / 2)},
        end{int64_t(levels_.size()) - 1, near(last.height - 1), near(last.width - 1)};
    const bool are_apart = end.level != middle.level || double(end.y - middle.y) > 2 * kNear ||
                           double(end.x - middle.x) > 2 * kNear;
    std::vector<Pixel> pixels{middle};
    if (are_apart) pixels.push_back(end);
    for (size_t l = 1; l + 1 < levels_.size(); ++l)
      pixels.push_back({int64_t(l), near(levels_[l].height / 2), near(levels_[l].width / 2)});
    return pixels;
  }

  /// How near to a NaN of its own level, along both axes, a point is moved.
  double near_in(size_t level) const {
    const bool is_inner = level > 0 && level + 1 < levels_.size(),
               is_small = std::max(levels_[level].height, levels_[level].width) <= kSmall;
    return is_inner && is_small ? kNearInSmall : kNear;
  }

  void wild(int64_t row, std::vector<Spot>& spots) const {
    for (const Pixel& pixel : wild_pixels()) {
      const double near = near_in(size_t(pixel.level));
      for (size_t n = 0; n < spots.size(); ++n) {
        const Level& level = level_of(n);
        const double x = deformable::coordinate(p_, spots[n].x, level.width),
                     y = deformable::coordinate(p_, spots[n].y, level.height);
        if (int64_t(n) / p_.num_points != pixel.level ||
            !(std::fabs(x - double(pixel.x)) < near && std::fabs(y - double(pixel.y)) < near))
          continue;
        const bool onto = below(uint64_t(row * count_) + n, 2) == 0;
        spots[n].x = onto ? location(double(pixel.x), level.width) : kOutside;
        spots[n].y = onto ? location(double(pixel.y), level.height) : kOutside;
      }
    }
    Spot& spot = spots[size_t(row / kWildKinds) % spots.size()];
    switch (row % kWildKinds) {
      case 0: spot.x = kNan; break;
      case 1: spot.y = kNan; break;
      case 2: spot.x = kInfinite; break;
      case 3: spot.y = -kInfinite; break;
      case 4: spot = {kOutside, kOutside, kNan}; break;
      default:  // in the middle of its level
        if (row % (2 * kWildKinds) == 5) spot = {0.5, 0.5, kNan};
        break;
    }
  }

  void write_wild_pixels() const {
    const Tensor& v = tensors_[ATTEST_V];
    const auto& stride = v.spec.stride;
    for (int64_t b = 0; b < p_.batch; ++b)
      for (int64_t h = 0; h < p_.num_heads; ++h) {
        int64_t channel = 0;  // the last one stays as it is
        for (const Pixel& pixel : wild_pixels()) {
          if (channel + 1 >= p_.head_dim_v) continue;
          const Level& level = levels_[size_t(pixel.level)];
          const int64_t token = level.first + pixel.y * level.width + pixel.x;
          store(v.data, v.spec.dtype,
                b * stride[0] + h * stride[1] + token * stride[2] + channel++ * stride[3], kNan);
        }
      }
  }

  void store_spots(int64_t row, const std::vector<Spot>& spots) const {
    const Tensor &locations = tensors_[ATTEST_LOCATIONS], &weights = tensors_[ATTEST_WEIGHTS];
    const int64_t first = row_offset(locations.spec, 3, row),
                  first_weight = row_offset(weights.spec, 3, row);
    for (int64_t n = 0; n < count_; ++n) {
      const int64_t level = n / p_.num_points, point = n % p_.num_points;
      const int64_t at =
          first + level * locations.spec.stride[3] + point * locations.spec.stride[4];
      store(locations.data, locations.spec.dtype, at, spots[size_t(n)].x);
      store(locations.data, locations.spec.dtype, at + locations.spec.stride[5],
            spots[size_t(n)].y);
      store(weights.data, weights.spec.dtype,
            first_weight + level * weights.spec.stride[3] + point * weights.spec.stride[4],
            spots[size_t(n)].weight);
    }
  }

  const Params& p_;
  const std::vector<Level> levels_;
  const Tensors& tensors_;
  const std::string name_;
  const uint64_t seed_;
  const int64_t count_;
};

}  // namespace

void fill_deformable(const Problem& problem, const Fill& fill, const Tensors& tensors) {
  const std::vector<std::string> known = problem.operation->fills(problem);
  if (std::ranges::find(known, fill.name) == known.end())
    throw Error("fill '" + fill.name +
                "': deformable attention has random, borders, cancelling (from 3 points on), "
                "alone, far and wild");
  DeformableFill(problem, fill, tensors).write();
}

}  // namespace attest::core
