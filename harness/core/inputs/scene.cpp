#include "core/inputs/scene.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/inputs/trig.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr double kSensorHeight = 1.9, kPavementHeight = 0.12, kKerb = 5.5,
                 kFacade = 9.0;  // metres; the street runs along x
constexpr double kStreetEnd = 150, kLargestRange = 200;
constexpr double kLowestBeam = -25, kHighestBeam = 15;  // degrees

/// An upright prism on a rotated rectangle, or, where `radius` > 0, a cylinder; z from the sensor.
struct Solid {
  double x, y, half_length, half_width, sin_yaw, cos_yaw, radius, z_low, z_high;
  float reflectivity;
  float transmission;  // how likely a beam passes: leaves and window panes
};

/// Draws the numbers of a scene one after the other: never two among the arguments of a call, whose
/// order is the compiler's.
class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  double between(double low, double high) {
    return low + (high - low) * double(random_uniform(seed_, index_++));
  }
  bool chance(double probability) { return between(0, 1) < probability; }

 private:
  uint64_t seed_, index_ = 0;
};

Solid box(double x, double y, double length, double width, double z_low, double z_high,
          double yaw_turns, double reflectivity, double transmission = 0) {
  const SinCos yaw = sin_cos_turns(yaw_turns);
  return {x,
          y,
          length / 2,
          width / 2,
          yaw.sin,
          yaw.cos,
          0,
          z_low - kSensorHeight,
          z_high - kSensorHeight,
          float(reflectivity),
          float(transmission)};
}

Solid cylinder(double x, double y, double radius, double z_low, double z_high, double reflectivity,
               double transmission = 0) {
  return {x,
          y,
          0,
          0,
          0,
          1,
          radius,
          z_low - kSensorHeight,
          z_high - kSensorHeight,
          float(reflectivity),
          float(transmission)};
}

void add_buildings(std::vector<Solid>& solids, Dice& dice, double side) {
  constexpr double kDepth = 12, kStorey = 3.2;
  double x = -kStreetEnd;
  while (x < kStreetEnd) {
    const double length = dice.between(10, 26), height = kStorey * std::floor(dice.between(2, 7)),
                 setback = dice.between(0, 1.5);
    const double centre = side * (kFacade + setback + kDepth / 2);
    solids.push_back(
        box(x + length / 2, centre, length, kDepth, 0, height, 0, dice.between(0.2, 0.6)));
    // Window bays stand out a little and let half of the beams through to the wall behind.
    const double bays = std::floor(length / 3);
    for (double bay = 0; bay < bays; ++bay)
      solids.push_back(box(x + (bay + 0.5) * length / bays, side * (kFacade + setback - 0.1), 1.4,
                           0.2, 1.0, height - 0.8, 0, 0.1, 0.5));
    x += length + (dice.chance(0.25) ? dice.between(6, 12) : 0);  // a side street
  }
  // What stands at the end of the side streets.
  solids.push_back(box(0, side * (kFacade + 35), 2 * kStreetEnd, 4, 0, 14, 0, 0.35));
}

void add_car(std::vector<Solid>& solids, Dice& dice, double x, double y) {
  const double length = dice.between(3.8, 5.0), yaw = dice.between(-0.008, 0.008),
               paint = dice.between(0.05, 0.9);
  solids.push_back(box(x, y, length, 1.8, 0.25, 0.85, yaw, paint));
  solids.push_back(
      box(x - 0.2, y, length * 0.55, 1.6, 0.85, dice.between(1.4, 1.8), yaw, paint * 0.5, 0.2));
}

void add_pavement(std::vector<Solid>& solids, Dice& dice, double side) {
  solids.push_back(box(0, side * (kKerb + 20), 2 * kStreetEnd, 40, -1, kPavementHeight, 0, 0.3));
  for (double x = -80 + dice.between(0, 8); x < 80; x += dice.between(5.5, 14))
    if (dice.chance(0.7)) add_car(solids, dice, x, side * (kKerb - 1.2));
  for (double x = -100 + dice.between(0, 20); x < 100; x += dice.between(18, 30)) {
    solids.push_back(cylinder(x, side * (kKerb + 0.5), 0.09, 0, dice.between(5, 8), 0.5));
    const double tree = x + dice.between(6, 10), crown = dice.between(1.2, 2.4);
    solids.push_back(cylinder(tree, side * (kKerb + 1.2), 0.16, 0, 3, 0.25));
    solids.push_back(
        cylinder(tree, side * (kKerb + 1.2), crown, 2.4, 2.4 + 2.2 * crown, 0.45, 0.35));
  }
  for (int person = 0; person < 8; ++person) {
    const double x = dice.between(-40, 40), y = side * dice.between(kKerb + 0.4, kFacade - 0.4),
                 height = dice.between(1.5, 1.9);
    solids.push_back(cylinder(x, y, 0.24, 0, height, 0.4));
  }
}

std::vector<Solid> build_street(uint64_t seed) {
  std::vector<Solid> solids;
  Dice dice(seed);
  for (const double side : {-1.0, 1.0}) {
    add_buildings(solids, dice, side);
    add_pavement(solids, dice, side);
  }
  for (double x = -90; x < 90; x += dice.between(12, 30))
    if (std::fabs(x) > 6) add_car(solids, dice, x, x > 0 ? 1.8 : -1.8);
  for (const double end : {-1.0, 1.0})
    solids.push_back(box(end * (kStreetEnd + 5), 0, 6, 60, 0, 18, 0, 0.4));
  return solids;
}

/// Where a solid's footprint lies on the horizontal ray (dx, dy) from the origin; empty where out
/// <= in.
struct Span {
  double in, out;
  const Solid* solid;
};

Span cross_circle(const Solid& s, double dx, double dy) {
  const double along = s.x * dx + s.y * dy, across = s.x * dy - s.y * dx;
  const double rest = s.radius * s.radius - across * across;
  if (rest <= 0) return {1, 0, &s};
  const double half = std::sqrt(rest);
  return {std::max(along - half, 0.0), along + half, &s};
}

Span cross_rectangle(const Solid& s, double dx, double dy) {
  const double origin[2] = {-s.x * s.cos_yaw - s.y * s.sin_yaw, s.x * s.sin_yaw - s.y * s.cos_yaw};
  const double step[2] = {dx * s.cos_yaw + dy * s.sin_yaw, dy * s.cos_yaw - dx * s.sin_yaw};
  const double half[2] = {s.half_length, s.half_width};
  Span span{0, 1e9, &s};
  for (int a = 0; a < 2; ++a) {
    if (step[a] > -1e-12 && step[a] < 1e-12) {
      if (origin[a] < -half[a] || origin[a] > half[a]) return {1, 0, &s};
      continue;
    }
    const double first = (-half[a] - origin[a]) / step[a], second = (half[a] - origin[a]) / step[a];
    span.in = std::max(span.in, std::min(first, second));
    span.out = std::min(span.out, std::max(first, second));
  }
  return span;
}

std::vector<Span> cross_all(const std::vector<Solid>& solids, double dx, double dy) {
  std::vector<Span> spans;
  for (const Solid& solid : solids) {
    const Span span =
        solid.radius > 0 ? cross_circle(solid, dx, dy) : cross_rectangle(solid, dx, dy);
    if (span.out > span.in && span.out > 0) spans.push_back(span);
  }
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.in != b.in ? a.in < b.in : a.solid < b.solid;
  });
  return spans;
}

struct Hit {
  double distance = 1e9;  // horizontal
  float reflectivity = 0;
};

/// The first thing that a beam of slope `slope` meets; `stream` feeds its chances.
Hit cast(const std::vector<Span>& spans, double slope, uint64_t stream) {
  Hit hit;
  if (slope < 0) hit = {kSensorHeight / -slope, 0.18f};
  for (const Span& span : spans) {
    if (span.in >= hit.distance) break;
    const Solid& solid = *span.solid;
    double in = span.in, out = span.out;
    if (slope != 0) {
      const double first = solid.z_low / slope, second = solid.z_high / slope;
      in = std::max(in, std::min(first, second));
      out = std::min(out, std::max(first, second));
    } else if (solid.z_low > 0 || solid.z_high < 0) {
      continue;
    }
    if (in > out || in >= hit.distance) continue;
    const uint64_t index = 16 + uint64_t(&span - spans.data());
    if (solid.transmission > 0) {
      if (double(random_uniform(stream, index)) < double(solid.transmission)) continue;
      if (solid.radius > 0)
        in += (out - in) * 0.6 * double(random_uniform(stream, index + 4096));  // within the leaves
    }
    if (in < hit.distance) hit = {in, solid.reflectivity};
  }
  return hit;
}

/// Noise, dropout, and the return's place; nothing where the beam comes back too weak.
void add_return(PointCloud& cloud, const Hit& hit, double dx, double dy, double slope,
                uint64_t stream) {
  constexpr double kNearest = 0.8, kRangeNoise = 0.012;
  const double stretch = std::sqrt(1 + slope * slope);
  double range = hit.distance * stretch;
  if (range > kLargestRange || range < kNearest) return;
  const double far = range / kLargestRange;
  if (double(random_uniform(stream, 0)) < 0.02 + 0.6 * far * far * (1 - double(hit.reflectivity)))
    return;
  range += (kRangeNoise + 0.02 * far) * double(random_normal(stream, 1));
  const double across = range / stretch;
  cloud.x.push_back(float(across * dx));
  cloud.y.push_back(float(across * dy));
  cloud.z.push_back(float(across * slope));
  const double seen =
      double(hit.reflectivity) / (1 + 4 * far) + 0.03 * double(random_normal(stream, 2));
  cloud.intensity.push_back(float(std::clamp(seen, 0.0, 1.0)));
}

std::array<double, kSweepBeams> beam_slopes() {
  std::array<double, kSweepBeams> slopes;
  for (int beam = 0; beam < kSweepBeams; ++beam) {
    const double degrees = kLowestBeam + (kHighestBeam - kLowestBeam) * (beam + 0.5) / kSweepBeams;
    const SinCos angle = sin_cos_turns(degrees / 360);
    slopes[beam] = angle.sin / angle.cos;
  }
  return slopes;
}

}  // namespace

PointCloud synthetic_sweep(uint64_t seed) {
  const std::vector<Solid> solids = build_street(seed);
  const std::array<double, kSweepBeams> slopes = beam_slopes();
  PointCloud cloud;
  for (int azimuth = 0; azimuth < kSweepAzimuths; ++azimuth) {
    const SinCos direction = sin_cos_turns((azimuth + 0.5) / kSweepAzimuths);
    const std::vector<Span> spans = cross_all(solids, direction.cos, direction.sin);
    for (int beam = 0; beam < kSweepBeams; ++beam) {
      const uint64_t stream =
          random_bits(seed ^ 0x7377656570u, uint64_t(azimuth) * kSweepBeams + uint64_t(beam));
      add_return(cloud, cast(spans, slopes[beam], stream), direction.cos, direction.sin,
                 slopes[beam], stream);
    }
  }
  return cloud;
}

}  // namespace attest::core
