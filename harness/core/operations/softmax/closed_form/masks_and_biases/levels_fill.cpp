// BIAS, MASK, BLOCK_MASK and REL_BIAS of the codebook fills.
#include <algorithm>
#include <cstring>
#include <limits>

#include "core/operations/fill_rows.hpp"
#include "core/operations/softmax/closed_form/codebook.hpp"
#include "core/operations/softmax/closed_form/masks_and_biases/block_masks.hpp"
#include "core/operations/softmax/closed_form/masks_and_biases/levels.hpp"
#include "core/operations/softmax/closed_form/masks_and_biases/patterns.hpp"
#include "core/operations/softmax/closed_form/rising/marks.hpp"

namespace attest::core {
namespace {

constexpr int64_t kPatterns = HiddenPatterns::kCount;

bool of_pairs(const Tensor& tensor) { return tensor && tensor.spec.dim[2] > 1; }

// How far the rows of a problem see.
struct Sight {
  int64_t seen = 1;     // the most keys that one row sees
  bool bands = false;   // rows of a sequence see different keys
  int64_t longest = 0;  // the sequence with the most queries

  explicit Sight(const Geometry& geometry) {
    for (int64_t b = 0; b < geometry.batch(); ++b) {
      if (geometry.length_q(b) > geometry.length_q(longest)) longest = b;
      for (int64_t i = 0; i < geometry.length_q(b); ++i) {
        const int64_t size = geometry.keys(b, i).size();
        seen = std::max(seen, size);
        bands |= size < geometry.length_kv(b);
      }
    }
  }
};

// How the terms of a problem are laid out over its keys.
struct Layout {
  const Geometry& geometry;
  const Sight sight;
  int64_t window;  // keys of a grid window; 0: no grid
  bool repeats;    // Codebook::repeats
  int64_t run;     // keys that are hidden together and have one number: those of a block that
                   // cancels, else 1

  Layout(const attest_softmax_params& p, const Geometry& of, Codebook::Kind kind)
      : geometry(of),
        sight(of),
        window(p.window_height * p.window_width),
        repeats(Codebook::repeats(p)),
        run(kind == Codebook::Kind::kCancelling ? Codebook::kBlock : 1) {}
  int64_t runs(int64_t keys) const { return (keys + run - 1) / run; }
  /// The most runs that a row sees.
  int64_t seen() const { return runs(sight.seen); }
  bool has_bands() const { return sight.bands && window == 0; }
  /// The number of the run of key position j.
  int64_t run_of(int64_t j) const {
    return window > 0 ? j / window * runs(window) + j % window / run : j / run;
  }
};

// The numbers of one tensor, MASK or BIAS, row by row.
class Term {
 public:
  Term(const Tensors& tensors, int32_t role, const Layout& layout, uint64_t seed, double unit,
       int64_t variant)
      : role_(role),
        spec_(tensors[size_t(role)].spec),
        layout_(layout),
        seed_(random_bits(seed, uint64_t(role))),
        unit_(unit),
        variant_(variant),
        is_mask_(role == ATTEST_MASK),
        masked_(!is_mask_ && tensors[ATTEST_MASK]),
        follows_(masked_ && of_pairs(tensors[ATTEST_MASK])) {}

  /// Of all rows, where it is of keys.
  std::vector<float> of_keys(int64_t b, int64_t h) const {
    const int64_t head = b * spec_.dim[1] + h;
    if (spec_.dim[3] == 1) {
      const bool hides = row_count(spec_, 2) > 1 && random_below(seed_, uint64_t(head), 8) == 0;
      return numbers({hides}, stream(head, 2));
    }
    std::vector<uint8_t> all;
    for (int64_t window = 0; window < windows(); ++window) {
      std::vector<uint8_t> hidden(size_t(runs(b)), 0);
      if (masked_)
        hide_some(hidden, random_bits(stream(head, 0), uint64_t(window)));
      else
        hidden = hidden_keys(random_bits(stream(head, 1), uint64_t(window)), runs(b),
                             layout_.seen(), layout_.has_bands(), variant_ + head + window);
      if (variant_ == int64_t(Codebook::Kind::kRising)) show_marks(hidden);
      all.insert(all.end(), hidden.begin(), hidden.end());
    }
    return numbers(all, stream(head, 2));
  }

  /// Of pattern `n` of a head.
  std::vector<float> of_pattern(int64_t b, int64_t h, int64_t n) const {
    const int64_t head = b * spec_.dim[1] + h;
    // Beside a mask of pairs BIAS has another pattern in each row, but always the same two meet.
    const auto shift =
        follows_ ? 1 + int64_t(random_below(seed_, uint64_t(head), kPatterns - 1)) : 0;
    const int64_t pattern = (n + shift) % kPatterns;
    const uint64_t numbers_of = stream(head, 10 + kPatterns + pattern);
    if (spec_.dim[3] == 1)
      return numbers({pattern % (is_mask_ ? 4 : 8) == HiddenPatterns::kBlind}, numbers_of);
    const bool rising = variant_ == int64_t(Codebook::Kind::kRising);  // a mark might be there
    const Interval never =
        masked_ || rising ? Interval{} : never_seen(seed_, most_runs(), layout_.seen());
    std::vector<uint8_t> all;
    for (int64_t window = 0; window < windows(); ++window) {
      std::vector<uint8_t> hidden(size_t(runs(b)), 0);
      if (follows_ && pattern % 4 != 3)
        hide_some(hidden, random_bits(stream(head, 10 + pattern), uint64_t(window)));
      else
        hidden = HiddenPatterns(random_bits(stream(head, 3), uint64_t(window)), runs(b),
                                layout_.seen(), never)
                     .hidden(pattern);
      all.insert(all.end(), hidden.begin(), hidden.end());
    }
    return numbers(all, numbers_of);
  }

  int32_t role() const { return role_; }
  const TensorSpec& spec() const { return spec_; }
  /// Sets visible[j] = 0 where pattern `n` of a sequence and head hides key j.
  void hide(int64_t b, int64_t h, int64_t n, std::vector<uint8_t>& visible) const {
    const int64_t outer = spec_.dim[0] > 1 ? b : 0, head = spec_.dim[1] > 1 ? h : 0;
    if (spec_.dim[3] == 1) return;  // what hides whole rows may
    const std::vector<float> row =
        spec_.dim[2] > 1 ? of_pattern(outer, head, n) : of_keys(outer, head);
    for (size_t j = 0; j < visible.size(); ++j)
      visible[j] &= row[size_t(token(int64_t(j)))] != (is_mask_ ? 0 : float(kHidden));
  }

 private:
  uint64_t stream(int64_t head, int64_t n) const {
    return random_bits(random_bits(seed_, uint64_t(1 + head)), uint64_t(n));
  }
  int64_t token(int64_t j) const { return spec_.dim[3] == 1 ? 0 : layout_.geometry.token(j); }
  // Windows of a grid, each of which hides keys of its own; else 1.
  int64_t windows() const { return layout_.window > 0 ? spec_.dim[3] / layout_.window : 1; }
  // Runs of a window, or of a sequence. What lies behind the end of a shorter sequence is visible:
  // nobody may read it.
  int64_t runs(int64_t b) const {
    const bool own = spec_.dim[0] > 1 && layout_.window == 0;
    return own ? std::min(layout_.runs(layout_.geometry.length_kv(b)), most_runs()) : most_runs();
  }
  int64_t most_runs() const {
    return layout_.runs(layout_.window > 0 ? layout_.window : spec_.dim[3]);
  }

  // What "rising" needs: all marks, and before the first one the keys that marks rise above.
  void show_marks(std::vector<uint8_t>& hidden) const {
    const auto keys = int64_t(hidden.size()),
               period = layout_.repeats ? std::min(layout_.sight.seen, keys) : keys;
    if (period == 0) return;
    const Marks marks(period, Marks::kMost);
    for (int64_t j = 0; j < keys; ++j)
      if (j % period < Marks::kFirstTile || marks.index_of(j % period) >= 0) hidden[size_t(j)] = 0;
  }
  static void hide_some(std::vector<uint8_t>& hidden, uint64_t seed) {
    for (size_t j = 0; j < hidden.size(); ++j) hidden[j] = random_below(seed, j, 64) == 0;
  }
  // `hidden`: the runs, window by window.
  std::vector<float> numbers(const std::vector<uint8_t>& hidden, uint64_t seed) const {
    std::vector<float> numbers(size_t(spec_.dim[3]));
    for (int64_t j = 0; j < spec_.dim[3]; ++j) {
      const int64_t run = layout_.run_of(j);
      const bool hides = run < int64_t(hidden.size()) && hidden[size_t(run)] != 0;
      const auto index = uint64_t(layout_.run > 1 ? run : j);
      numbers[size_t(token(j))] = is_mask_ ? float(!hides)
                                  : hides  ? float(kHidden)
                                           : float(unit_ * ScoreLevels::any_value(seed, index));
    }
    return numbers;
  }

  int32_t role_;
  TensorSpec spec_;
  const Layout& layout_;
  uint64_t seed_;
  double unit_;
  int64_t variant_;
  bool is_mask_, masked_, follows_;
};

void copy_mask_row(const Tensor& tensor, int64_t row, const char* from) {
  const TensorSpec& spec = tensor.spec;
  const auto element = int64_t(dtype_bytes(spec.dtype));
  char* to = static_cast<char*>(tensor.data) + row_offset(spec, 3, row) * element;
  if (spec.dim[3] == 1 || spec.stride[3] == 1) {
    std::memcpy(to, from, size_t(spec.dim[3] * element));
    return;
  }
  for (int64_t j = 0; j < spec.dim[3]; ++j)
    std::memcpy(to + j * spec.stride[3] * element, from + j * element, size_t(element));
}

// Which pattern each row of the tensors of pairs has: by head and sequence, unless one of them is
// shared.
class RowPatterns {
 public:
  RowPatterns(const Layout& layout, const std::vector<Term>& terms, uint64_t seed, int64_t variant,
              int64_t keys)
      : layout_(layout), terms_(terms), keys_(keys) {
    const Geometry& geometry = layout.geometry;
    int64_t rows = 0;
    for (const Term& term : terms)
      if (const TensorSpec& spec = term.spec(); spec.dim[2] > 1) {
        outers_ = std::min(outers_, spec.dim[0]);
        heads_ = std::min(heads_, spec.dim[1]);
        rows = spec.dim[2];
      }
    dealt_.resize(size_t(outers_ * heads_));
#pragma omp parallel for schedule(dynamic)
    for (size_t n = 0; n < dealt_.size(); ++n) {
      const int64_t b = outers_ > 1 ? int64_t(n) / heads_ : layout.sight.longest,
                    h = int64_t(n) % heads_;
      const std::vector<std::vector<int32_t>> seen = count_seen(b, h);
      dealt_[n] =
          deal_patterns({.seed = random_bits(seed, n),
                         .rows = rows,
                         .variant = variant + 2 * int64_t(n),
                         .longest_aligned = {HiddenPatterns::longest_aligned(layout.seen(), false),
                                             HiddenPatterns::longest_aligned(layout.seen(), true)},
                         .sees = [&](int64_t i, int64_t pattern) {
                           if (i >= geometry.length_q(b)) return true;  // nobody's row
                           const Interval at = geometry.keys(b, i);
                           const std::vector<int32_t>& before = seen[size_t(pattern)];
                           return before[size_t(at.end)] > before[size_t(at.begin)];
                         }});
    }
  }

  void write(const Term& term, const Tensor& tensor) const {
    const TensorSpec& spec = tensor.spec;
    const size_t row_bytes = size_t(spec.dim[3]) * dtype_bytes(spec.dtype);
    for (int64_t b = 0; b < spec.dim[0]; ++b)
      for (int64_t h = 0; h < spec.dim[1]; ++h) {
        std::vector<char> memory(size_t(kPatterns) * row_bytes);
#pragma omp parallel for schedule(static)
        for (int64_t n = 0; n < kPatterns; ++n)
          store_row(&memory[size_t(n) * row_bytes], spec.dtype, 0, spec.dim[3], 1,
                    term.of_pattern(b, h, n).data());
        const std::vector<uint8_t>& dealt =
            dealt_[size_t((outers_ > 1 ? b * heads_ : 0) + (heads_ > 1 ? h : 0))];
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < spec.dim[2]; ++i)
          copy_mask_row(tensor, (b * spec.dim[1] + h) * spec.dim[2] + layout_.geometry.token(i),
                        &memory[size_t(dealt[size_t(i)]) * row_bytes]);
      }
  }

 private:
  // Of each pattern, how many keys before each place no tensor hides.
  std::vector<std::vector<int32_t>> count_seen(int64_t b, int64_t h) const {
    std::vector<std::vector<int32_t>> seen;
    for (int64_t n = 0; n < kPatterns; ++n) {
      std::vector<uint8_t> visible(size_t(keys_), 1);
      for (const Term& term : terms_) term.hide(b, h, n, visible);
      std::vector<int32_t>& before = seen.emplace_back(visible.size() + 1, 0);
      for (size_t j = 0; j < visible.size(); ++j) before[j + 1] = before[j] + visible[j];
    }
    return seen;
  }

  const Layout& layout_;
  const std::vector<Term>& terms_;
  int64_t keys_, outers_ = std::numeric_limits<int64_t>::max(), heads_ = outers_;
  std::vector<std::vector<uint8_t>> dealt_;
};

void fill_term_of_keys(const Term& term, const Tensor& tensor) {
  const int64_t heads = tensor.spec.dim[1];
  fill_rows(tensor, [&](int64_t row, std::span<float> values) {
    const std::vector<float> numbers = term.of_keys(row / heads, row % heads);
    std::copy(numbers.begin(), numbers.end(), values.begin());
  });
}

}  // namespace

void ScoreLevels::fill(const Problem& problem, uint64_t seed, const Tensors& tensors, double unit,
                       int64_t variant) {
  if (const Tensor& rel_bias = tensors[ATTEST_REL_BIAS])
    fill_rows(rel_bias,
              [&, from = random_bits(seed, ATTEST_REL_BIAS)](int64_t row, std::span<float> values) {
                for (size_t n = 0; n < values.size(); ++n)
                  values[n] = float(unit * any_value(from, uint64_t(row) * values.size() + n));
              });
  const uint64_t own = random_bits(seed, uint64_t(variant));
  if (tensors[ATTEST_BLOCK_MASK])
    fill_block_mask(tensors[ATTEST_BLOCK_MASK], random_bits(own, ATTEST_BLOCK_MASK),
                    BlockDensity::kDense);
  const auto& p = problem.as<attest_softmax_params>();
  const Geometry geometry(problem, tensors);
  const Layout layout(p, geometry, Codebook::Kind(variant));
  std::vector<Term> terms;
  for (const int32_t role : {ATTEST_MASK, ATTEST_BIAS})
    if (tensors[size_t(role)]) terms.emplace_back(tensors, role, layout, own, unit, variant);
  for (const Term& term : terms)
    if (!of_pairs(tensors[size_t(term.role())]))
      fill_term_of_keys(term, tensors[size_t(term.role())]);
  if (!of_pairs(tensors[ATTEST_MASK]) && !of_pairs(tensors[ATTEST_BIAS])) return;
  const RowPatterns patterns(layout, terms, own, variant, p.seq_len_kv);
  for (const Term& term : terms)
    if (of_pairs(tensors[size_t(term.role())])) patterns.write(term, tensors[size_t(term.role())]);
}

}  // namespace attest::core
