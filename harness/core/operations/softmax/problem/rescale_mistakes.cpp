#include "core/operations/softmax/problem/rescale_mistakes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/softmax.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

constexpr int64_t kUsualTiles[] = {16, 32, 64, 128, 256};
// Of a bias for each pair: half a MB, of which up to 70 mistakes have one each. Their goldens take
// some 10 ms each.
constexpr int64_t kMostElements = 1 << 17;

/// The tiles that forget to rescale: each ends at one of these keys, where the next one begins.
using Ends = std::vector<std::pair<int64_t, int64_t>>;

/// Which keys each candidate's tiles have, and the sizes of tiles for which that is so.
std::map<Ends, std::vector<int64_t>> candidates(int64_t keys) {
  std::map<Ends, std::vector<int64_t>> made;
  for (const int64_t tile : kUsualTiles) {
    if (keys <= tile) continue;
    const auto of = [&](int64_t n) { return std::pair(n * tile, std::min((n + 1) * tile, keys)); };
    const int64_t whole = keys / tile, all = (keys + tile - 1) / tile;
    for (const int64_t n : {int64_t{1}, whole / 2, whole - 1, all - 1}) {
      if (n < 1) continue;
      std::vector<int64_t>& sizes = made[{of(n)}];
      if (sizes.empty() || sizes.back() != tile) sizes.push_back(tile);
    }
    Ends every;
    for (int64_t n = 1; n < all; ++n) every.push_back(of(n));
    if (every.size() > 1) made[every].push_back(tile);
  }
  return made;
}

std::string words_of(const Ends& ends, const std::vector<int64_t>& tiles) {
  const std::string sizes = fmt::format("tiles of {}", fmt::join(tiles, " or "));
  if (ends.size() > 1) return fmt::format("where the maximum rises ({})", sizes);
  return fmt::format("where the maximum rises at keys {} to {} ({})", ends[0].first,
                     ends[0].second - 1, sizes);
}

/// Weights of one row's keys, and what a forgotten rescale multiplies them by.
class RescaledRows {
 public:
  RescaledRows(const Problem& problem, const Tensors& inputs)
      : p_(problem.as<Params>()), inputs_(inputs), geometry_(problem, inputs) {}

  /// The logits of a row; kHidden: not seen.
  std::vector<double> logits(int64_t b, int64_t h, int64_t i) const {
    std::vector<double> row(size_t(p_.seq_len_kv), kHidden), terms(row.size());
    const Interval keys = geometry_.keys(b, i);
    if (geometry_.pair_terms() && keys.size() > 0)
      geometry_.add_pair_terms(b, h, i, keys, terms.data() + keys.begin);
    const int64_t kv_head = h / (p_.num_heads / p_.num_kv_heads);
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      if (terms[size_t(j)] == kHidden) continue;
      double score = 0;
      for (int64_t d = 0; d < p_.head_dim; ++d)
        score += inputs_[ATTEST_Q].at({b, h, i, d}) * inputs_[ATTEST_K].at({b, kv_head, j, d});
      score *= double(p_.softmax_scale);
      if (p_.softcap > 0) score = double(p_.softcap) * std::tanh(score / double(p_.softcap));
      row[size_t(j)] = score + terms[size_t(j)];
    }
    return row;
  }

  /// Writes the logarithm of what each key's weight is multiplied by, and returns the sum of all
  /// weights as a share of what it should be.
  static double forget(const std::vector<double>& logits, const Ends& tiles, float* bias) {
    std::fill_n(bias, logits.size(), 0.0F);
    double top = kHidden;
    size_t seen = 0;
    const auto see_until = [&](size_t end) {
      for (; seen < end; ++seen) top = std::max(top, logits[seen]);
    };
    for (const auto& [begin, end] : tiles) {
      see_until(size_t(begin));
      const double before = top;
      see_until(size_t(end));
      if (before != kHidden) bias[begin - 1] = float(top - before);
    }
    see_until(logits.size());
    for (size_t j = logits.size() - 1; j > 0; --j) bias[j - 1] += bias[j];
    double wrong = 0, right = 0;
    for (size_t j = 0; j < logits.size(); ++j) {
      if (logits[j] == kHidden) continue;
      right += std::exp(logits[j] - top);
      wrong += std::exp(logits[j] - top + double(bias[j]));
    }
    return right > 0 ? wrong / right : 1;
  }

 private:
  const Params& p_;
  const Tensors& inputs_;
  const Geometry geometry_;
};

/// The logits of all rows, [batch, num_heads, seq_len_q] of [seq_len_kv].
std::vector<std::vector<double>> all_logits(const Problem& problem, const Tensors& inputs) {
  const auto& p = problem.as<Params>();
  const RescaledRows rows(problem, inputs);
  std::vector<std::vector<double>> logits;
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.num_heads; ++h)
      for (int64_t i = 0; i < p.seq_len_q; ++i) logits.push_back(rows.logits(b, h, i));
  return logits;
}

}  // namespace

// A key whose weight is multiplied has the logarithm as a bias. Where the normaliser or the sum
// alone has these weights, the row has a factor, too.
void add_rescale_mistakes(std::vector<Mistake>& mistakes, const Problem& problem,
                          const Tensors& inputs) {
  const auto& p = problem.as<Params>();
  const int64_t rows = p.batch * p.num_heads * p.seq_len_q;
  if (problem.operation != &softmax_operation() || problem.has(ATTEST_BIAS) ||
      problem.has(ATTEST_SINKS) || has_f8(problem) || p.top_k > 0 ||
      rows * p.seq_len_kv > kMostElements || p.seq_len_kv <= kUsualTiles[0])
    return;
  const TensorSpec spec =
      dense_tensor(ATTEST_F32, ATTEST_READ,
                   std::vector<int64_t>{p.batch, p.num_heads, p.seq_len_q, p.seq_len_kv});
  const std::vector<std::vector<double>> logits = all_logits(problem, inputs);
  for (const auto& [tiles, sizes] : candidates(p.seq_len_kv)) {
    std::vector<std::byte> bias(size_t(extent_bytes(spec)));
    std::vector<double> grown, shrunk;
    for (size_t n = 0; n < logits.size(); ++n) {
      grown.push_back(RescaledRows::forget(
          logits[n], tiles, reinterpret_cast<float*>(bias.data()) + n * size_t(p.seq_len_kv)));
      shrunk.push_back(1 / grown.back());
    }
    if (std::ranges::all_of(grown, [](double one) { return one == 1; })) continue;
    const std::string where = words_of(tiles, sizes);
    const auto add = [&](const char* what, bool biased, const std::vector<double>& factors) {
      add_mistake(mistakes, fmt::format("{} were not rescaled {}", what, where), problem, inputs,
                  [&](Mistake& mistake) {
                    mistake.row_factors = factors;
                    if (!biased) return;
                    mistake.storage.push_back(bias);
                    mistake.inputs[ATTEST_BIAS] = {spec, mistake.storage.back().data()};
                    mistake.problem.tensor[ATTEST_BIAS] = spec;
                  });
    };
    add("the sum of p v", true, grown);
    add("the normaliser", false, shrunk);
    add("the sums", true, {});
  }
}

}  // namespace attest::core
