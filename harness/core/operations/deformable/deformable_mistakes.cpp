// Mistakes that kernels of deformable attention make.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/operations/deformable/deformable.hpp"
#include "core/operations/deformable/sampling.hpp"
#include "core/operations/mistake.hpp"

namespace attest::core {
namespace {

using deformable::Level, deformable::Params;

constexpr int kTokenAxis = 2, kLevelAxis = 3, kPointAxis = 4, kXYAxis = 5;
constexpr double kNowhere = std::numeric_limits<double>::quiet_NaN();

// Adds the mistakes of one problem.
class Mistakes {
 public:
  Mistakes(const Problem& problem, const Tensors& inputs)
      : problem_(problem),
        inputs_(inputs),
        p_(problem.as<Params>()),
        levels_(deformable::levels_of(p_)) {}

  std::vector<Mistake> find() {
    add_coordinates();
    add_borders();
    add_orders();
    add_levels();
    add_left_out();
    return std::move(mistakes_);
  }

 private:
  /// Pixel coordinates of a point.
  struct Place {
    double x, y;
  };

  template <class Change>
  void add(std::string words, const Change& change) {
    add_mistake(mistakes_, std::move(words), problem_, inputs_, change);
  }

  void add_coordinates() {
    add(p_.align_corners ? "align_corners were 0" : "align_corners were 1", [](Mistake& mistake) {
      auto& p = mistake.problem.as<Params>();
      p.align_corners = 1 - p.align_corners;
    });
    add("x and y of the locations were swapped",
        [](Mistake& mistake) { mistake.gather(ATTEST_LOCATIONS, kXYAxis, {1, 0}); });
    if (!p_.align_corners)
      move("x were location * width and y location * height, half a pixel too far",
           [](const Level&, Place at) { return Place{at.x + 0.5, at.y + 0.5}; });
    move("a location were from -1 to 1, as grid_sample takes it",
         [&](const Level& level, Place at) {
           // The coordinate c of location t becomes that of (t + 1) / 2.
           const auto turned = [&](double c, int64_t size) {
             return (c + deformable::coordinate(p_, 1, size)) / 2;
           };
           return Place{turned(at.x, level.width), turned(at.y, level.height)};
         });
    move("a point read its nearest pixel alone", [](const Level&, Place at) {
      return Place{std::floor(at.x + 0.5), std::floor(at.y + 0.5)};
    });
  }

  void add_borders() {
    move("a point with a pixel outside of its level added nothing",
         [](const Level& level, Place at) {
           const bool all = at.x >= 0 && at.x <= double(level.width - 1) && at.y >= 0 &&
                            at.y <= double(level.height - 1);
           return all ? at : Place{kNowhere, kNowhere};
         });
    add("a pixel outside of a level were the nearest one inside",
        [this](Mistake& mistake) { enlarge_levels(mistake); });
  }

  void add_orders() {
    const int64_t levels = p_.num_levels, points = p_.num_points;
    if (points > 1) {
      std::vector<int64_t> next(static_cast<size_t>(points));
      for (int64_t n = 0; n < points; ++n) next[size_t(n)] = (n + 1) % points;
      add("a point had the weight of the next one",
          [&](Mistake& mistake) { mistake.gather(ATTEST_WEIGHTS, kPointAxis, next); });
    }
    if (levels > 1 && points > 1) {
      add("weights were [batch, num_heads, seq_len_q, num_points, num_levels]",
          [this](Mistake& mistake) { turn(mistake, ATTEST_WEIGHTS); });
      add("locations were [batch, num_heads, seq_len_q, num_points, num_levels, 2]",
          [this](Mistake& mistake) { turn(mistake, ATTEST_LOCATIONS); });
    }
    add("softmax were applied to the weights", [this](Mistake& mistake) { normalise(mistake); });
  }

  void add_levels() {
    add("level_height and level_width were swapped", [](Mistake& mistake) {
      auto& p = mistake.problem.as<Params>();
      for (int level = 0; level < p.num_levels; ++level)
        std::swap(p.level_height[level], p.level_width[level]);
    });
    if (p_.num_levels == 1) return;
    const auto begin_at = [&](const auto& first_of) {
      std::vector<int64_t> from;
      for (size_t l = 0; l < levels_.size(); ++l)
        for (int64_t n = 0; n < levels_[l].height * levels_[l].width; ++n)
          from.push_back(first_of(l) + n);
      return [from](Mistake& mistake) { mistake.gather(ATTEST_V, kTokenAxis, from); };
    };
    add("every level began at the first token of v", begin_at([](size_t) { return int64_t{0}; }));
    if (p_.num_levels > 2)
      add("a level began where the one before it does",
          begin_at([&](size_t l) { return l == 0 ? 0 : levels_[l - 1].first; }));
  }

  void add_left_out() {
    const int64_t levels = p_.num_levels, points = p_.num_points;
    if (levels > 1) {
      cut_levels("the last level were missing", 0, levels - 1);
      cut_levels("the first level were missing", 1, levels);
    }
    if (points > 1)
      add("the last point of each level were missing", [&](Mistake& mistake) {
        mistake.problem.as<Params>().num_points = points - 1;
        for (const int32_t role : {int32_t(ATTEST_LOCATIONS), int32_t(ATTEST_WEIGHTS)})
          mistake.cut(role, kPointAxis, 0, points - 1);
      });
  }

  // Levels begin .. end - 1 are left.
  void cut_levels(std::string words, int64_t begin, int64_t end) {
    add(std::move(words), [&](Mistake& mistake) {
      auto& p = mistake.problem.as<Params>();
      p.num_levels = int32_t(end - begin);
      for (int64_t l = 0; l < deformable::kMostLevels; ++l) {
        const bool is_left = l < end - begin;
        p.level_height[l] = is_left ? p_.level_height[begin + l] : 0;
        p.level_width[l] = is_left ? p_.level_width[begin + l] : 0;
      }
      const Level& last = levels_[size_t(end - 1)];
      mistake.cut(ATTEST_V, kTokenAxis, levels_[size_t(begin)].first,
                  last.first + last.height * last.width);
      for (const int32_t role : {int32_t(ATTEST_LOCATIONS), int32_t(ATTEST_WEIGHTS)})
        mistake.cut(role, kLevelAxis, begin, end);
    });
  }

  /// A dense float64 tensor in place of that of a role.
  double* replace(Mistake& mistake, int32_t role) const {
    const TensorSpec spec =
        dense_tensor(ATTEST_F64, ATTEST_READ, problem_.operation->dims(mistake.problem, role));
    void* data = mistake.storage.emplace_back(size_t(extent_bytes(spec))).data();
    mistake.problem.tensor[size_t(role)] = spec;
    mistake.inputs[size_t(role)] = {spec, data};
    return static_cast<double*>(data);
  }
  /// Calls step(b, h, i, level, point, number of the point in a dense tensor).
  template <class Step>
  void for_points(const Step& step) const {
    int64_t n = 0;
    for (int64_t b = 0; b < p_.batch; ++b)
      for (int64_t h = 0; h < p_.num_heads; ++h)
        for (int64_t i = 0; i < p_.seq_len_q; ++i)
          for (int64_t level = 0; level < p_.num_levels; ++level)
            for (int64_t point = 0; point < p_.num_points; ++point)
              step(b, h, i, level, point, n++);
  }

  double location_of(double at, int64_t size) const {
    if (!p_.align_corners) return (at + 0.5) / double(size);
    return size == 1 ? at * 0 : at / double(size - 1);
  }
  template <class Change>
  void move_locations(Mistake& mistake, const Change& change) const {
    double* const moved = replace(mistake, ATTEST_LOCATIONS);
    const std::vector<Level> levels = deformable::levels_of(mistake.problem.as<Params>());
    for_points([&](int64_t b, int64_t h, int64_t i, int64_t l, int64_t point, int64_t n) {
      const auto at = [&](int64_t axis, int64_t size) {
        return deformable::coordinate(p_, inputs_[ATTEST_LOCATIONS].at({b, h, i, l, point, axis}),
                                      size);
      };
      const Level& old = levels_[size_t(l)];
      const Place place = change(old, Place{at(0, old.width), at(1, old.height)});
      moved[2 * n] = location_of(place.x, levels[size_t(l)].width);
      moved[2 * n + 1] = location_of(place.y, levels[size_t(l)].height);
    });
  }
  template <class Change>
  void move(std::string words, const Change& change) {
    add(std::move(words), [&](Mistake& mistake) { move_locations(mistake, change); });
  }

  // Levels get a frame of copies of their outer pixels. Points that lie outside of the old levels
  // stay outside.
  void enlarge_levels(Mistake& mistake) const {
    std::vector<int64_t> from;
    auto& p = mistake.problem.as<Params>();
    for (size_t l = 0; l < levels_.size(); ++l) {
      const Level& level = levels_[l];
      p.level_height[l] += 2;
      p.level_width[l] += 2;
      for (int64_t y = -1; y <= level.height; ++y)
        for (int64_t x = -1; x <= level.width; ++x)
          from.push_back(level.first + std::clamp<int64_t>(y, 0, level.height - 1) * level.width +
                         std::clamp<int64_t>(x, 0, level.width - 1));
    }
    mistake.gather(ATTEST_V, kTokenAxis, from);
    move_locations(mistake, [](const Level& old, Place at) {
      const bool inside =
          deformable::is_inside(at.x, old.width) && deformable::is_inside(at.y, old.height);
      return inside ? Place{at.x + 1, at.y + 1} : Place{kNowhere, kNowhere};
    });
  }

  // Reads levels and points of a query in the other order.
  void turn(Mistake& mistake, int32_t role) const {
    double* const turned = replace(mistake, role);
    const int64_t levels = p_.num_levels, points = p_.num_points;
    for_points([&](int64_t b, int64_t h, int64_t i, int64_t l, int64_t point, int64_t n) {
      const int64_t at = point * levels + l;
      if (role == ATTEST_WEIGHTS) {
        turned[n] = inputs_[ATTEST_WEIGHTS].at({b, h, i, at / points, at % points});
        return;
      }
      for (int64_t axis = 0; axis < 2; ++axis)
        turned[2 * n + axis] =
            inputs_[ATTEST_LOCATIONS].at({b, h, i, at / points, at % points, axis});
    });
  }

  void normalise(Mistake& mistake) const {
    double* const weights = replace(mistake, ATTEST_WEIGHTS);
    const int64_t count = p_.num_levels * p_.num_points;
    for_points([&](int64_t b, int64_t h, int64_t i, int64_t l, int64_t point, int64_t n) {
      weights[n] = std::exp(inputs_[ATTEST_WEIGHTS].at({b, h, i, l, point}));
      if ((n + 1) % count != 0) return;
      double sum = 0;
      for (int64_t k = n + 1 - count; k <= n; ++k) sum += weights[k];
      for (int64_t k = n + 1 - count; k <= n; ++k) weights[k] /= sum;
    });
  }

  const Problem& problem_;
  const Tensors& inputs_;
  const Params& p_;
  const std::vector<Level> levels_;
  std::vector<Mistake> mistakes_;
};

}  // namespace

std::vector<Mistake> deformable_mistakes(const Problem& problem, const Tensors& inputs) {
  return Mistakes(problem, inputs).find();
}

}  // namespace attest::core
