// Mistakes that kernels of softmax attention make.
#include "core/operations/mistake.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/problem/rescale_mistakes.hpp"
#include "core/operations/softmax/softmax.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

constexpr int kHeadAxis = 1, kKeyAxis = 2, kKeyAxisOfPairs = 3;
constexpr int kHeadDims[] = {16, 32, 64, 80, 96, 128, 256};  // for scales written as constants
constexpr int64_t kTiles[] = {16, 32, 64, 128};

// Adds the mistakes of one problem.
class Mistakes {
 public:
  Mistakes(const Problem& problem, const Tensors& inputs)
      : problem_(problem), inputs_(inputs), p_(problem.as<Params>()) {}

  std::vector<Mistake> find() {
    add_scales();
    add_left_out();
    if (has_band(p_)) add_bands();
    if (p_.global_tokens > 0) add_globals();
    if (p_.top_k > 0) add_top_k();
    if (has_f8(problem_)) add_f8();
    add_heads();
    if (is_plain()) add_lost_keys();
    if (is_plain()) add_rescale_mistakes(mistakes_, problem_, inputs_);
    return std::move(mistakes_);
  }

 private:
  // The keys of every sequence are those of K, in their order.
  bool is_plain() const {
    for (const int32_t role :
         {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV,
          ATTEST_PAGE_TABLE, ATTEST_ORDER, ATTEST_BLOCK_MASK, ATTEST_K_DESCALE, ATTEST_V_DESCALE})
      if (problem_.has(role)) return false;
    return p_.global_tokens == 0 && p_.patch_size == 0 && p_.grid_height == 0;
  }
  template <class Change>
  void add(std::string words, const Change& change) {
    add_mistake(mistakes_, std::move(words), problem_, inputs_, change);
  }
  template <class Change>
  void add_params(std::string words, const Change& change) {
    add(std::move(words), [&](Mistake& mistake) { change(mistake.problem.as<Params>()); });
  }

  // Leaves out what another mistake with a scale gives too.
  void add_scale(std::string words, double scale) {
    const auto is_near = [scale](double other) { return std::abs(other / scale - 1) < 1e-3; };
    if (std::ranges::any_of(scales_, is_near)) return;
    scales_.push_back(scale);
    add_params("softmax_scale were " + std::move(words),
               [&](Params& p) { p.softmax_scale = float(scale); });
  }
  void add_scales() {
    const double scale = double(p_.softmax_scale), dim = double(p_.head_dim);
    add_scale("1", 1);
    add_scale("1 / head_dim", 1 / dim);
    add_scale("1 / sqrt(head_dim)", 1 / std::sqrt(dim));
    add_scale("sqrt(head_dim)", std::sqrt(dim));
    add_scale("applied twice", scale * scale);
    add_scale("half as large", scale / 2);
    add_scale("twice as large", scale * 2);
    add_scale("multiplied by log2(e), or exp had the base e where it should have the base 2",
              scale * std::numbers::log2e);
    add_scale("divided by log2(e), or exp had the base 2 where it should have the base e",
              scale / std::numbers::log2e);
    for (const int other : kHeadDims)
      add_scale(fmt::format("1 / sqrt({})", other), 1 / std::sqrt(double(other)));
  }

  void add_left_out() {
    for (const int32_t role : {ATTEST_BIAS, ATTEST_MASK, ATTEST_REL_BIAS, ATTEST_ALIBI_SLOPES,
                               ATTEST_SINKS, ATTEST_Q_DESCALE, ATTEST_K_DESCALE, ATTEST_V_DESCALE})
      if (problem_.has(role))
        add(fmt::format("{} were left out", find_role(*problem_.operation, role)->name),
            [&](Mistake& mistake) { mistake.drop(role); });
    if (problem_.has(ATTEST_BLOCK_MASK))
      add("block_mask were left out", [](Mistake& mistake) {
        mistake.drop(ATTEST_BLOCK_MASK);
        mistake.problem.as<Params>().block_q = mistake.problem.as<Params>().block_kv = 0;
      });
    // Entries of a page table beyond seq_lens_kv name no page.
    if (problem_.has(ATTEST_SEQ_LENS_KV) && !problem_.has(ATTEST_PAGE_TABLE))
      add("seq_lens_kv were left out", [](Mistake& mistake) { mistake.drop(ATTEST_SEQ_LENS_KV); });
    add_params("softcap were left out", [](Params& p) { p.softcap = 0; });
    add_params("shift_bias were left out", [](Params& p) { p.shift_bias = 0; });
  }

  // Of a band with one end, a move of the end is one of the diagonal.
  void add_band_ends() {
    add_params("window_left were larger by 1", [](Params& p) { ++p.window_left; });
    add_params("window_right were larger by 1", [](Params& p) { ++p.window_right; });
    if (p_.window_left > 0)
      add_params("window_left were smaller by 1", [](Params& p) { --p.window_left; });
    if (p_.window_right > 0)
      add_params("window_right were smaller by 1", [](Params& p) { --p.window_right; });
  }
  void add_bands() {
    add_params("every key were seen: causal and window were left out",
               [](Params& p) { p.window_left = p.window_right = -1; });
    if (p_.window_left >= 0 && p_.window_right >= 0) {
      add_params("window_left were left out", [](Params& p) { p.window_left = -1; });
      add_params("window_right were left out", [](Params& p) { p.window_right = -1; });
    }
    const bool has_one_end = (p_.window_left < 0) != (p_.window_right < 0);
    const auto diagonal = [&](std::string_view side, bool sees_more) {
      return fmt::format("the diagonal were one key further to the {}{}", side,
                         !has_one_end ? ""
                         : sees_more  ? ", so that a row sees one key too many"
                                      : ", so that a row sees one key too few");
    };
    add_params(diagonal("right", p_.window_left < 0), [](Params& p) { ++p.diagonal_offset; });
    add_params(diagonal("left", p_.window_left >= 0), [](Params& p) { --p.diagonal_offset; });
    if (p_.window_left >= 0 && p_.window_right >= 0) add_band_ends();
    add_params("diagonal_offset were 0", [](Params& p) { p.diagonal_offset = 0; });
    add_params(fmt::format("the diagonal were anchored at the {}",
                           p_.diagonal == ATTEST_TOP_LEFT ? "bottom right" : "top left"),
               [](Params& p) {
                 p.diagonal = p.diagonal == ATTEST_TOP_LEFT ? ATTEST_BOTTOM_RIGHT : ATTEST_TOP_LEFT;
               });
  }

  void add_globals() {
    add_params("global_tokens were 0", [](Params& p) { p.global_tokens = 0; });
    add_params("global_tokens were larger by 1", [](Params& p) { ++p.global_tokens; });
    if (p_.global_tokens > 1)
      add_params("global_tokens were smaller by 1", [](Params& p) { --p.global_tokens; });
  }

  void add_top_k() {
    add_params("top_k were left out", [](Params& p) { p.top_k = p.top_k_ties = 0; });
    if (p_.top_k < p_.seq_len_kv)
      add_params("top_k were larger by 1", [](Params& p) { ++p.top_k; });
    if (p_.top_k > 1) add_params("top_k were smaller by 1", [](Params& p) { --p.top_k; });
    add_params(p_.top_k_ties == ATTEST_TOP_K_FIRST
                   ? "all keys that are equal at the edge of top_k counted"
                   : "of the keys that are equal at the edge of top_k the first ones counted",
               [](Params& p) {
                 p.top_k_ties = p.top_k_ties == ATTEST_TOP_K_FIRST ? ATTEST_TOP_K_ALL_TIES
                                                                   : ATTEST_TOP_K_FIRST;
               });
  }

  void add_f8() {
    const DType other = other_f8(problem_.tensor[ATTEST_Q].dtype);
    add(fmt::format("q, k and v were {}", dtype_name(other)), [&](Mistake& mistake) {
      for (const StoredRole& one : kStoredRoles)
        mistake.problem.tensor[size_t(one.role)].dtype =
            mistake.inputs[size_t(one.role)].spec.dtype = other;
    });
    for (const auto& [one, two] : {std::pair(ATTEST_K_DESCALE, ATTEST_V_DESCALE),
                                   std::pair(ATTEST_Q_DESCALE, ATTEST_K_DESCALE)})
      if (problem_.has(one) && problem_.has(two))
        add(fmt::format("{} and {} were exchanged", find_role(*problem_.operation, one)->name,
                        find_role(*problem_.operation, two)->name),
            [&, first = size_t(one), second = size_t(two)](Mistake& mistake) {
              std::swap(mistake.problem.tensor[first], mistake.problem.tensor[second]);
              std::swap(mistake.inputs[first], mistake.inputs[second]);
            });
  }

  // Query head h reads head k[h] of K and head v[h] of V.
  void read_heads(std::string words, const std::vector<int64_t>& k, const std::vector<int64_t>& v) {
    add(std::move(words), [&](Mistake& mistake) {
      mistake.problem.as<Params>().num_kv_heads = p_.num_heads;
      mistake.gather(ATTEST_K, kHeadAxis, k);
      mistake.gather(ATTEST_V, kHeadAxis, v);
      for (const auto& [role, heads] : {std::pair(ATTEST_K_DESCALE, &k), {ATTEST_V_DESCALE, &v}})
        if (problem_.has(role) && problem_.tensor[size_t(role)].dim[kHeadAxis] > 1)
          mistake.gather(role, kHeadAxis, *heads);
    });
  }
  // Of K, of V, or of both.
  void read_heads(const std::string& reader, const std::string& head,
                  const std::vector<int64_t>& wrong) {
    std::vector<int64_t> right;
    for (int64_t h = 0; h < p_.num_heads; ++h)
      right.push_back(h / (p_.num_heads / p_.num_kv_heads));
    read_heads(reader + " read key head " + head, wrong, wrong);
    read_heads(reader + " read V of key head " + head, right, wrong);
    read_heads(reader + " read K of key head " + head, wrong, right);
  }
  void add_heads() {
    std::vector<int64_t> modulo, first(size_t(p_.num_heads), 0);
    for (int64_t h = 0; h < p_.num_heads; ++h) modulo.push_back(h % p_.num_kv_heads);
    if (p_.num_kv_heads > 1 && p_.num_kv_heads < p_.num_heads)
      read_heads("query head h", "h % num_kv_heads", modulo);
    if (p_.num_kv_heads > 1) read_heads("every query head", "0", first);
  }

  // The tile sizes that leave `last` keys for a short last tile.
  std::vector<int64_t> tiles_that_leave(int64_t last) const {
    std::vector<int64_t> tiles;
    for (const int64_t tile : kTiles)
      if (p_.seq_len_kv > tile && p_.seq_len_kv % tile == last) tiles.push_back(tile);
    return tiles;
  }
  // `first` keys at the begin and `last` keys at the end do not count. The diagonal stays where it
  // is: it is counted from the first key, or from the last one.
  void lose(int64_t first, int64_t last) {
    const int64_t lost = first + last, end = p_.seq_len_kv - last;
    std::string words =
        lost == 1 ? fmt::format("the {} key were missing", first > 0 ? "first" : "last")
                  : fmt::format("the {} {} keys were missing", first > 0 ? "first" : "last", lost);
    if (const std::vector<int64_t> tiles = tiles_that_leave(last); first == 0 && !tiles.empty())
      words += fmt::format(" ({} keys are tiles of {} and {} more)", p_.seq_len_kv,
                           fmt::join(tiles, " or "), last);
    add(words, [&](Mistake& mistake) {
      auto& p = mistake.problem.as<Params>();
      p.seq_len_kv -= lost;
      p.diagonal_offset += p.diagonal == ATTEST_BOTTOM_RIGHT ? last : -first;
      for (const int32_t role : {ATTEST_K, ATTEST_V}) mistake.cut(role, kKeyAxis, first, end);
      for (const int32_t role : {ATTEST_MASK, ATTEST_BIAS})
        mistake.cut(role, kKeyAxisOfPairs, first, end);
    });
  }
  void add_lost_keys() {
    const int64_t keys = p_.seq_len_kv;
    lose(0, 1);
    lose(1, 0);
    for (const int64_t tile : kTiles) {
      if (keys <= tile) continue;
      if (const int64_t tail = keys % tile; tail > 1) lose(0, tail);
      lose(0, tile);
      lose(tile, 0);
    }
  }

  const Problem& problem_;
  const Tensors& inputs_;
  const Params& p_;
  std::vector<double> scales_;  // of the mistakes so far
  std::vector<Mistake> mistakes_;
};

}  // namespace

std::vector<Mistake> SoftmaxOperation::mistakes(const Problem& problem,
                                                const Tensors& inputs) const {
  return Mistakes(problem, inputs).find();
}

}  // namespace attest::core
