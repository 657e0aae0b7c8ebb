// Inputs of linear attention.
#include <algorithm>
#include <limits>
#include <vector>

#include "core/operations/fill_rows.hpp"
#include "core/operations/linear/linear.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

constexpr std::string_view kTokens = "tokens";

// "faint": some kSpeaking keys of all have a small phi, the others one near e^-30: their sum stays
// so small that eps shows in it. Channels of keys come in turns of four levels. Every other query
// has all channels near -8, so that those of the first level outweigh the others. In the rest only
// the channels of one level speak, so that each level has rows that show nothing else. Levels below
// -16 would show nothing: elu(x) + 1, computed in float32 as it is written, is 0 there.
constexpr int64_t kSpeaking = 16;
constexpr float kDeviation = 0.5f;
constexpr double kSilent = -30, kFaint = -8, kKeyLevels[] = {kFaint, -11, -13, -15},
                 kQueryLevels[] = {0, -4, -6, -11, -13, -15};
constexpr auto kLevels = int64_t(std::size(kKeyLevels));

void fill_faint_keys(const Tensor& tensor, uint64_t seed) {
  const auto one_in = uint64_t(std::max<int64_t>(tensor.spec.dim[2] / kSpeaking, 1));
  fill_normal(tensor, seed, 0, kDeviation);
  edit_elements(tensor, [&](int64_t row, int64_t c, double x) {
    const bool speaks = random_below(seed + 1, uint64_t(row), one_in) == 0;
    return speaks ? x + kKeyLevels[c % kLevels] : kSilent;
  });
}

void fill_faint_queries(const Tensor& tensor, uint64_t seed) {
  const int64_t places = tensor.spec.dim[2], levels = std::min(kLevels, tensor.spec.dim[3]);
  fill_normal(tensor, seed, 0, kDeviation);
  edit_elements(tensor, [&](int64_t row, int64_t c, double x) {
    const int64_t place = row % places, turn = place / 2;
    if (place % 2 == 0) return x + kFaint;
    const bool speaks = c % kLevels == turn % levels;
    return speaks ? x + kQueryLevels[size_t(turn / levels) % std::size(kQueryLevels)] : kSilent;
  });
}

// "large": in one key of four, or 64 of a head, the even channels are some 50 times as large, and
// in every fourth query the odd ones. So exp(x) of some overflows float32, but sums stay in range:
// no product of a channel has two large factors.
constexpr float kLarge = 48, kLargeValue = 16;
constexpr int64_t kLargeKeys = 64, kLargeInterval = 4;

// Every `step`th channel from `first` on, in one row of `one_in`.
void enlarge(const Tensor& tensor, int64_t one_in, int64_t first, int64_t step, float factor) {
  const int64_t places = tensor.spec.dim[2];
  edit_elements(tensor, [&](int64_t row, int64_t c, double x) {
    const bool is_large = row % places % one_in == 0 && c % step == first;
    return is_large ? double(factor) * x : x;
  });
}

void fill_large(int32_t role, const Tensor& tensor, uint64_t seed) {
  fill_normal(tensor, seed);
  if (role == ATTEST_K)
    enlarge(tensor, std::max(tensor.spec.dim[2] / kLargeKeys, kLargeInterval), 0, 2, kLarge);
  else if (role == ATTEST_Q)
    enlarge(tensor, kLargeInterval, 1, 2, kLarge);
  else
    enlarge(tensor, 1, 3, 4, kLargeValue);
}

// Whether key or query `place` counts: seven in eight do.
void fill_mask(const Tensor& tensor, uint64_t seed, int64_t period) {
  const int64_t places = tensor.spec.dim[2] * tensor.spec.dim[3];
  for (int64_t i = 0; i < row_count(tensor.spec, 4); ++i) {
    const int64_t first = i - i % places, place = i % places % period;
    store(tensor.data, ATTEST_BOOL, row_offset(tensor.spec, 4, i),
          random_below(seed, uint64_t(first + place), 8) != 0);
  }
}

// A tile of 16 to 256 keys in the middle of a sequence is hidden, so that a kernel has tiles with
// no key that counts, and the first and the last key are.
void fill_mask_with_runs(const Tensor& mask) {
  const int64_t keys = mask.spec.dim[3];
  for (int64_t b = 0; b < mask.spec.dim[0]; ++b) {
    const auto write = [&](int64_t begin, int64_t end, bool counts) {
      for (int64_t j = begin; j < end; ++j)
        store(mask.data, ATTEST_BOOL, b * mask.spec.stride[0] + j * mask.spec.stride[3], counts);
    };
    write(0, keys, true);
    for (int64_t tile = 16; tile <= 256 && 2 * tile <= keys; tile *= 2) {
      const int64_t begin = keys / tile / 2 * tile;
      write(begin, begin + tile, false);
    }
    if (keys > 2) {
      write(0, 1, false);
      write(keys - 1, keys, false);
    }
  }
}

// --- "cancelling" ---
//
// Channels come in blocks of four, in which phi(q) = 1 + x + i y, i = 0..3, and S is a sum of (1,
// -2, 1, 0) and (0, 1, -2, 1): they are orthogonal, so the true output is 0, and what is left of a
// kernel's are the errors of phi(q), phi(k), S and the sums. It takes two keys, half a sequence
// apart, to make such an S: one has any x, the other one less a sum of these two, and their values
// are v and -v. All numbers are whole multiples of a step and have 8 bits, so that they are exact
// in every dtype; phi has more than 11 bits where the step is fine, and S is large where that of
// the keys is coarse.
constexpr int64_t kKeysABlock = 4;
constexpr float kFine = 0x1p-13f, kRough = 0x1p-7f;

int64_t step_between(uint64_t seed, uint64_t index, int64_t low, int64_t high) {
  return low + int64_t(random_below(seed, index, uint64_t(high - low)));
}

void fill_cancelling_queries(const Tensor& q, uint64_t seed) {
  fill_rows(q, [&](int64_t r, std::span<float> values) {
    for (size_t c = 0; c < values.size(); ++c) {
      const uint64_t block = uint64_t(r) * values.size() + c / kKeysABlock * kKeysABlock;
      const int64_t x = step_between(seed, block, 64, 112),
                    y = step_between(seed, block + 1, 1, 48);
      values[c] = float(x + int64_t(c % kKeysABlock) * y) * kFine;
    }
  });
}

void fill_cancelling_keys(const Tensor& k, uint64_t seed) {
  const int64_t places = k.spec.dim[2], half = places / 2;
  fill_rows(k, [&](int64_t r, std::span<float> values) {
    const int64_t j = r % places;
    const bool second = j >= half && j < 2 * half;
    const auto pair = uint64_t(second ? r - half : r);
    for (size_t c = 0; c < values.size(); ++c) {
      const size_t first = c / kKeysABlock * kKeysABlock;
      const uint64_t block = pair * values.size() + first;
      const int64_t a = step_between(seed + 1, block, -16, 17),
                    b = step_between(seed + 2, block, -16, 17);
      const int64_t away[kKeysABlock] = {a, b - 2 * a, a - 2 * b, b};
      const bool whole = first + kKeysABlock <= values.size();
      const int64_t x = step_between(seed, pair * values.size() + c, 96, 160) -
                        (second && whole ? away[c - first] : 0);
      values[c] = float(x) * (first / kKeysABlock % 2 == 0 ? kRough : kFine);
    }
  });
}

void fill_cancelling_values(const Tensor& v, uint64_t seed) {
  const int64_t places = v.spec.dim[2], half = places / 2;
  fill_rows(v, [&](int64_t r, std::span<float> values) {
    const int64_t j = r % places;
    const bool second = j >= half, alone = j >= 2 * half;
    for (size_t e = 0; e < values.size(); ++e) {
      const uint64_t at = uint64_t(second ? r - half : r) * values.size() + e;
      const auto value = float(step_between(seed, at, 128, 256)) / 16;
      values[e] = alone ? 0 : (random_bits(seed + 1, at) & 1) == (second ? 1 : 0) ? value : -value;
    }
  });
}

// --- "wild" ---
//
// A NaN of K makes every output of its key head NaN, so it stands in the first key head of the last
// sequence, if there are others. In the last key head of the first sequence, V has NaN in three
// channels, and one query is NaN. Infinities would be NaN to kernels that pad channels with phi 0.
constexpr uint64_t kWildStream = 70;  // so that no number is that of "random"

class LinearWild {
 public:
  LinearWild(const Problem& problem, const Tensors& tensors)
      : p_(problem.as<attest_linear_params>()), tensors_(tensors) {}

  void write() const {
    if (p_.batch * p_.num_kv_heads > 1)
      if (const std::vector<int64_t> keys = places(ATTEST_MASK, p_.batch - 1, 3, p_.seq_len_kv);
          !keys.empty())
        put(ATTEST_K, p_.batch - 1, 0, keys[keys.size() / 2], 0, kNan);
    write_values();
    const std::vector<int64_t> rows = places(ATTEST_QUERY_MASK, 0, 2, p_.seq_len_q);
    if (rows.size() > 1) put(ATTEST_Q, 0, p_.num_heads - 1, rows[rows.size() / 3], 0, kNan);
  }

 private:
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

  void write_values() const {
    const std::vector<int64_t> keys = places(ATTEST_MASK, 0, 3, p_.seq_len_kv);
    if (keys.empty()) return;
    const int64_t head = p_.num_kv_heads - 1;
    int64_t channel = 0;  // the last one stays as it is
    for (const int64_t key : {keys[keys.size() / 2], keys.back(), keys.front()})
      if (channel + 1 < p_.head_dim_v) put(ATTEST_V, 0, head, key, channel++, kNan);
  }

  // Positions that count.
  std::vector<int64_t> places(int32_t mask_role, int64_t b, int axis, int64_t count) const {
    std::vector<int64_t> found;
    const Tensor& mask = tensors_[size_t(mask_role)];
    for (int64_t i = 0; i < count; ++i)
      if (!mask ||
          load(mask.data, ATTEST_BOOL, b * mask.spec.stride[0] + i * mask.spec.stride[axis]) != 0)
        found.push_back(i);
    return found;
  }
  int64_t at(int32_t role, int64_t b, int64_t head, int64_t row, int64_t channel) const {
    const auto& stride = tensors_[size_t(role)].spec.stride;
    return b * stride[0] + head * stride[1] + row * stride[2] + channel * stride[3];
  }
  void put(int32_t role, int64_t b, int64_t head, int64_t row, int64_t channel,
           double value) const {
    const Tensor& tensor = tensors_[size_t(role)];
    store(tensor.data, tensor.spec.dtype, at(role, b, head, row, channel), value);
  }
  const attest_linear_params& p_;
  const Tensors& tensors_;
};

}  // namespace

void fill_linear(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own) {
  if (const std::string_view known[] = {"random", kTokens, "faint", "large", "cancelling", "wild"};
      std::find(std::begin(known), std::end(known), fill.name) == std::end(known))
    throw Error("fill '" + fill.name +
                "': linear attention has random, tokens, faint, large, cancelling and wild");
  const bool faint = fill.name == "faint", cancels = fill.name == "cancelling",
             wild = fill.name == "wild";
  for (const Role& role : problem.operation->roles()) {
    const Tensor& tensor = tensors[size_t(role.index)];
    const bool given = only_own && fill.name == kTokens && role.content != Role::Content::kOwn;
    if (!tensor || is_output(role) || given) continue;
    const uint64_t seed = random_bits(fill.seed, uint64_t(role.index) + (wild ? kWildStream : 0));
    if (faint && role.index == ATTEST_MASK)
      fill_mask_with_runs(tensor);
    else if (role.dtype == ATTEST_BOOL)
      fill_mask(tensor, seed,
                role.index == ATTEST_MASK && cancels ? std::max<int64_t>(tensor.spec.dim[3] / 2, 1)
                                                     : INT64_MAX);
    else if (cancels)
      (role.index == ATTEST_Q   ? fill_cancelling_queries
       : role.index == ATTEST_K ? fill_cancelling_keys
                                : fill_cancelling_values)(tensor, seed);
    else if (fill.name == "large")
      fill_large(role.index, tensor, seed);
    else if (faint && role.index == ATTEST_K)
      fill_faint_keys(tensor, seed);
    else if (faint && role.index == ATTEST_Q)
      fill_faint_queries(tensor, seed);
    else
      fill_normal(tensor, seed);
  }
  if (wild) LinearWild(problem, tensors).write();
}

}  // namespace attest::core
