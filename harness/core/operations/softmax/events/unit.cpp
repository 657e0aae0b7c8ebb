#include "core/operations/softmax/events/unit.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/operations/softmax/problem/dequantised.hpp"

namespace attest::core::events {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// Rows of `width` numbers as float32, 0 for -0; `at` gives the offset of each of their first
// elements.
template <class At>
std::vector<float> load_rows(const Tensor& tensor, int64_t count, const At& at) {
  const TensorSpec& spec = tensor.spec;
  const int64_t width = spec.dim[3];
  std::vector<float> rows(size_t(count * width));
#pragma omp parallel if (count * width > 65536)
  {
    std::vector<double> row(static_cast<size_t>(width));
#pragma omp for schedule(static)
    for (int64_t r = 0; r < count; ++r) {
      load_row(tensor.data, spec.dtype, at(r), width, spec.stride[3], row.data());
      for (int64_t c = 0; c < width; ++c)
        rows[size_t(r * width + c)] = float(row[size_t(c)]) + 0.0f;
    }
  }
  return rows;
}

int64_t offset(const Tensor& tensor, Cell cell, int64_t head) {
  const TensorSpec& spec = tensor.spec;
  return cell.outer * spec.stride[0] + head * spec.stride[1] + cell.row * spec.stride[2];
}

// The class of each row, numbered as they come; `rows` keeps one row of each.
std::vector<int32_t> classes_of(std::vector<float>& rows, int64_t width) {
  const int64_t count = int64_t(rows.size()) / width;
  std::vector<int32_t> classes(static_cast<size_t>(count));
  std::unordered_map<uint64_t, int32_t> known;
  for (int64_t r = 0; r < count; ++r) {
    const float* row = &rows[size_t(r * width)];
    const auto [at, is_new] =
        known.try_emplace(hash_bytes(row, size_t(width) * sizeof(float)), int32_t(known.size()));
    if (is_new && at->second != r)
      std::copy_n(row, width, &rows[size_t(at->second) * size_t(width)]);
    classes[size_t(r)] = at->second;
  }
  rows.resize(known.size() * size_t(width));
  return classes;
}

}  // namespace

bool is_wild(std::span<const float> row) {
  return std::ranges::any_of(row, [](float x) { return !std::isfinite(x); });
}

Unit::Unit(const Problem& problem, const Tensors& tensors, const Geometry& geometry, int64_t b,
           int64_t kv_head)
    : params_(problem.as<attest_softmax_params>()),
      geometry_(geometry),
      q_(tensors[ATTEST_Q]),
      b_(b),
      kv_head_(kv_head),
      output_dtype_(problem.tensor[ATTEST_O].dtype),
      in_f16_(is_in_f16(problem)) {
  const bool shifted = params_.shift_bias != 0 && (params_.shift_y != 0 || params_.shift_x != 0);
  auto by_row = [&](int32_t role) {
    return tensors[size_t(role)] && tensors[size_t(role)].spec.stride[2] != 0;
  };
  adds_by_row_ = shifted || by_row(ATTEST_MASK) || by_row(ATTEST_BIAS) ||
                 by_row(ATTEST_BLOCK_MASK) || params_.global_tokens > 0 ||
                 tensors[ATTEST_REL_BIAS] || tensors[ATTEST_ALIBI_SLOPES];
  const Tensor &k = tensors[ATTEST_K], &v = tensors[ATTEST_V];
  const int64_t length = geometry.length_kv(b);
  key_vectors_ =
      load_rows(k, length, [&](int64_t j) { return offset(k, geometry.key(b, j), kv_head); });
  key_class_ = classes_of(key_vectors_, params_.head_dim);
  std::vector<bool> wild(static_cast<size_t>(key_classes()));
  for (int32_t c = 0; c < key_classes(); ++c) wild[size_t(c)] = is_wild(vector(key_vectors_, c));
  for (int64_t j = 0; j < length; ++j)
    if (wild[size_t(key_class(j))]) wild_keys_.push_back(j);
  load_values(v);
}

void Unit::load_values(const Tensor& v) {
  values_ =
      load_rows(v, keys(), [&](int64_t j) { return offset(v, geometry_.key(b_, j), kv_head_); });
  for (int64_t j = 0; j < keys(); ++j)
    if (is_wild({value(j), size_t(params_.head_dim_v)})) wild_values_.push_back(j);
}

void Unit::load_head(int64_t h) {
  h_ = h;
  query_vectors_ = load_rows(q_, geometry_.length_q(b_),
                             [&](int64_t i) { return offset(q_, geometry_.query(b_, i), h); });
  query_class_ = classes_of(query_vectors_, params_.head_dim);
}

double Unit::cost(int64_t keys) const {
  constexpr double kKeyCost = 16;  // of the passes over its logit
  const double dots = few_keys() ? double(key_classes()) : double(keys);
  return dots * double(params_.head_dim) +
         double(keys) * (kKeyCost + (geometry_.pair_terms() ? 2 * kKeyCost : 0));
}

float Unit::dot(const float* query, const float* key) const {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < params_.head_dim; ++c) sum += query[c] * key[c];
  return sum;
}

float Unit::score(const float* query, const float* key) const {
  const float s = params_.softmax_scale * dot(query, key);
  return params_.softcap > 0 ? params_.softcap * std::tanh(s / params_.softcap) : s;
}

void Unit::class_scores(int32_t query_class, std::vector<float>& scores) const {
  scores.resize(size_t(key_classes()));
  const float* query = vector(query_vectors_, query_class).data();
  for (int32_t c = 0; c < key_classes(); ++c)
    scores[size_t(c)] = score(query, vector(key_vectors_, c).data());
}

Row Unit::row(const RowPlace& place, Buffer& buffer) const {
  const int64_t count = place.keys.size();
  std::vector<float>& logits = buffer.logits;
  logits.resize(size_t(count));
  const int32_t* classes = &key_class_[size_t(place.keys.begin)];
  if (few_keys()) {
    class_scores(place.query_class, buffer.scores);
    for (int64_t k = 0; k < count; ++k) logits[size_t(k)] = buffer.scores[size_t(classes[k])];
  } else {
    const float* query = vector(query_vectors_, place.query_class).data();
    for (int64_t k = 0; k < count; ++k)
      logits[size_t(k)] = score(query, vector(key_vectors_, classes[k]).data());
  }
  if (geometry_.pair_terms()) {
    buffer.terms.assign(logits.begin(), logits.end());
    geometry_.add_pair_terms(b_, place.h, place.i, place.keys, buffer.terms.data());
    std::copy(buffer.terms.begin(), buffer.terms.end(), logits.begin());
  }
  return {place.keys, place.origin, logits};
}

float Unit::logit(const RowPlace& place, int64_t j) const {
  const float s = score(vector(query_vectors_, place.query_class).data(), key(j).data());
  if (!geometry_.pair_terms()) return s;
  auto term = double(s);
  geometry_.add_pair_terms(b_, place.h, place.i, {j, j + 1}, &term);
  return float(term);
}

namespace {

void note_spoilt(const Row& row, RowSummary& summary) {
  Interval& spoilt = summary.spoilt;
  for (int64_t k = 0; k < int64_t(row.logits.size()); ++k) {
    const float logit = row.logits[size_t(k)];
    if (logit <= std::numeric_limits<float>::max()) continue;
    (std::isnan(logit) ? summary.nan_logit : summary.infinite_logit) = true;
    const int64_t j = row.keys.begin + k;
    spoilt = {spoilt.size() == 0 ? j : spoilt.begin, j + 1};
  }
}

}  // namespace

RowSummary Unit::summary(const RowPlace& place, const Row& row) const {
  RowSummary found;
  const float* logits = row.logits.data();
  const auto count = int64_t(row.logits.size());
  float top = kHidden;
  int bad = is_wild(vector(query_vectors_, place.query_class));
#pragma omp simd reduction(max : top) reduction(| : bad)
  for (int64_t k = 0; k < count; ++k) {
    top = std::max(top, logits[k]);
    bad |= !(logits[k] <= std::numeric_limits<float>::max());
  }
  found.top = top;
  found.wild = bad != 0;
  if (found.wild) note_spoilt(row, found);
  // An infinite key whose logit is -inf has no weight, and leaves the row as it is.
  for (auto j = std::lower_bound(wild_keys_.begin(), wild_keys_.end(), row.keys.begin);
       !found.wild && j != wild_keys_.end() && *j < row.keys.end; ++j)
    found.wild = geometry_.visible(b_, place.h, place.i, *j) && logit(place, *j) != kHidden;
  if (found.wild || top == kHidden) return found;
  float sum = 0, next = kHidden;
  double total = 0;
  int64_t hidden = 0, tops = 0;
  constexpr int64_t kChunk = 1024;  // so that float32 sums stay exact enough
  for (int64_t begin = 0; begin < count; begin += kChunk, total += double(sum), sum = 0) {
    const int64_t end = std::min(count, begin + kChunk);
#pragma omp simd reduction(+ : sum, hidden, tops) reduction(max : next)
    for (int64_t k = begin; k < end; ++k) {
      const float logit = logits[k];
      sum += rough_exp(logit - top);
      hidden += logit == kHidden;
      tops += logit >= top - 1;
      next = std::max(next, logit < top - 1 ? logit : kHidden);
    }
  }
  found.sum = total;
  found.next = next;
  found.tops = tops;
  found.visible = count - hidden;
  auto is_top = [&](float logit) { return logit >= top - 1; };
  found.first_top = row.keys.begin + (std::find_if(row.logits.begin(), row.logits.end(), is_top) -
                                      row.logits.begin());
  found.last_top =
      row.keys.end - 1 -
      (std::find_if(row.logits.rbegin(), row.logits.rend(), is_top) - row.logits.rbegin());
  const auto top_at = std::find(row.logits.begin(), row.logits.end(), top);
  found.top_at = row.keys.begin + (top_at - row.logits.begin());
  found.second = next;
  if (tops > 1)
    for (auto other = row.logits.begin(); other != row.logits.end(); ++other)
      if (other != top_at) found.second = std::max(found.second, *other);
  return found;
}

}  // namespace attest::core::events
