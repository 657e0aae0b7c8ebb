// Random inputs of softmax attention: the same bytes for the same problem and seed, on every
// machine and any number of threads.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/operations/fill_rows.hpp"
#include "core/operations/softmax/closed_form/masks_and_biases/block_masks.hpp"
#include "core/operations/softmax/fills/f8.hpp"
#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

constexpr float kDecoyScore = 4;

uint64_t role_seed(uint64_t seed, int32_t role) { return random_bits(seed, uint64_t(role)); }

void store_integers(const Tensor& tensor, std::span<const int64_t> values) {
  for (size_t k = 0; k < values.size(); ++k)
    store(tensor.data, ATTEST_I32, int64_t(k) * tensor.spec.stride[0], double(values[k]));
}

void store_lengths(const Tensor& cu_seqlens, const Tensor& seq_lens,
                   std::span<const int64_t> lengths) {
  if (seq_lens) store_integers(seq_lens, lengths);
  if (!cu_seqlens) return;
  std::vector<int64_t> sums(lengths.size() + 1, 0);
  std::partial_sum(lengths.begin(), lengths.end(), sums.begin() + 1);
  store_integers(cu_seqlens, sums);
}

std::vector<int64_t> permutation(uint64_t seed, int64_t size) {
  std::vector<int64_t> items(size_t(std::max<int64_t>(size, 0)));
  std::iota(items.begin(), items.end(), 0);
  for (size_t k = items.size(); k > 1; --k)
    std::swap(items[k - 1], items[size_t(random_below(seed, k, k))]);
  return items;
}

// Places of one sequence are permuted among themselves; those that do not count stay behind those
// that do.
void fill_order(const Problem& problem, std::span<const int64_t> lengths, uint64_t seed,
                const Tensor& order) {
  const bool packed = problem.has(ATTEST_CU_SEQLENS_Q);
  const int64_t outers = order.spec.dim[0], rows = order.spec.dim[1];
  int64_t first = 0;
  auto place_rows = [&](int64_t outer, int64_t begin, int64_t count, uint64_t stream) {
    const std::vector<int64_t> rows_of = permutation(random_bits(seed, stream), count);
    for (int64_t k = 0; k < count; ++k)
      store(order.data, ATTEST_I32,
            outer * order.spec.stride[0] + (begin + k) * order.spec.stride[1],
            double(begin + rows_of[size_t(k)]));
  };
  for (size_t b = 0; b < lengths.size(); ++b) {
    if (packed) {
      place_rows(0, first, lengths[b], 2 * b);
      first += lengths[b];
    } else if (int64_t(b) < outers) {
      // One order for a whole batch (outers 1) mixes all rows: its sequences may differ in length.
      const int64_t counted = outers == 1 && lengths.size() > 1 ? rows : lengths[b];
      place_rows(int64_t(b), 0, counted, 2 * b);
      place_rows(int64_t(b), counted, rows - counted, 2 * b + 1);
    }
  }
}

void fill_pages(const Problem& problem, std::span<const int64_t> lengths, uint64_t seed,
                const Tensor& table) {
  const Params& p = problem.as<Params>();
  const std::vector<int64_t> pages = permutation(seed, problem.tensor[ATTEST_K].dim[0]);
  size_t next = 0;
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t entry = 0; entry < table.spec.dim[1]; ++entry) {
      const bool read = entry * p.page_size < lengths[size_t(b)];
      // A pool smaller than what is read has pages that several sequences share.
      const int64_t page = read ? pages[next++ % pages.size()] : -1;
      store(table.data, ATTEST_I32, b * table.spec.stride[0] + entry * table.spec.stride[1],
            double(page));
    }
}

// Which cells of K and V, by dim 0 and dim 2, some sequence reads.
std::vector<bool> read_cells(const Problem& problem, const Tensors& tensors) {
  const Geometry geometry(problem, tensors);
  const TensorSpec& k = problem.tensor[ATTEST_K];
  std::vector<bool> read(size_t(k.dim[0] * k.dim[2]), false);
  for (int64_t b = 0; b < geometry.batch(); ++b)
    for (int64_t j = 0; j < geometry.length_kv(b); ++j) {
      const Cell cell = geometry.key(b, j);
      read[size_t(cell.outer * k.dim[2] + cell.row)] = true;
    }
  return read;
}

void fill_keys(const Tensor& tensor, uint64_t seed, const std::vector<bool>& read,
               float decoy_factor, float decoy_offset) {
  const int64_t heads = tensor.spec.dim[1], cells = tensor.spec.dim[2];
  fill_rows(tensor, [&](int64_t r, std::span<float> values) {
    const bool decoy = !read[size_t(r / cells / heads * cells + r % cells)];
    for (size_t d = 0; d < values.size(); ++d) {
      const float value = random_normal(seed, uint64_t(r) * values.size() + d);
      values[d] = decoy ? decoy_factor * value + decoy_offset : value;
    }
  });
}

}  // namespace

void fill_tables(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own) {
  const std::vector<int64_t> of_keys = sequence_lengths(problem, true, fill.other_lengths);
  store_lengths(tensors[ATTEST_CU_SEQLENS_Q], tensors[ATTEST_SEQ_LENS_Q],
                sequence_lengths(problem, false, fill.other_lengths));
  store_lengths(tensors[ATTEST_CU_SEQLENS_KV], tensors[ATTEST_SEQ_LENS_KV], of_keys);
  if (tensors[ATTEST_PAGE_TABLE])
    fill_pages(problem, of_keys, role_seed(fill.seed, ATTEST_PAGE_TABLE),
               tensors[ATTEST_PAGE_TABLE]);
  if (tensors[ATTEST_ORDER] && !only_own)
    fill_order(problem, of_keys, role_seed(fill.seed, ATTEST_ORDER), tensors[ATTEST_ORDER]);
}

void fill_slopes(const Problem& problem, uint64_t seed, const Tensor& slopes) {
  const auto length = uint64_t(problem.as<Params>().seq_len_kv);
  const int64_t heads = slopes.spec.dim[1], octaves = std::bit_width(length);
  fill_rows(slopes, [&](int64_t b, std::span<float> values) {
    for (int64_t h = 0; h < heads; ++h)
      values[size_t(h)] = std::ldexp(1 + random_uniform(seed, uint64_t(b * heads + h)),
                                     int(-1 - octaves * (h + 1) / heads));
  });
}

void fill_sinks(const Problem& problem, uint64_t seed, const Tensor& sinks, double lift) {
  const Params& p = problem.as<Params>();
  const double seen = visible_pairs(p, p.seq_len_q, p.seq_len_kv) / double(p.seq_len_q);
  const auto octaves = double(std::bit_width(uint64_t(std::max(seen, 1.0))) - 1);
  for (int64_t h = 0; h < sinks.spec.dim[0]; ++h)
    store(sinks.data, ATTEST_F32, h * sinks.spec.stride[0],
          random_normal(seed, uint64_t(h)) + 0.6875 * octaves + lift);  // ln 2, nearly
}

// Trained sinks are of both signs. So low a sink shows where it is taken for 0, unless a row sees
// thousands of keys.
void lower_sinks(uint64_t seed, const Tensor& sinks) {
  constexpr int64_t kPeriod = 4;
  for (int64_t h = 1; h < sinks.spec.dim[0]; h += kPeriod)
    store(sinks.data, ATTEST_F32, h * sinks.spec.stride[0], random_normal(seed, uint64_t(h)) - 2);
}

void lift_sinks(const Tensor& sinks, double lift, int64_t step) {
  for (int64_t h = 0; h < sinks.spec.dim[0]; h += step) {
    const int64_t at = h * sinks.spec.stride[0];
    store(sinks.data, ATTEST_F32, at, load(sinks.data, ATTEST_F32, at) + lift);
  }
}

void fill_terms(const Problem& problem, uint64_t seed, const Tensors& tensors) {
  if (const Tensor& bias = tensors[ATTEST_BIAS]) {
    const uint64_t bias_seed = role_seed(seed, ATTEST_BIAS),
                   hidden_seed = random_bits(bias_seed, 1);
    fill_rows(bias, [&](int64_t r, std::span<float> values) {
      for (size_t j = 0; j < values.size(); ++j) {
        const uint64_t index = uint64_t(r) * values.size() + j;
        values[j] = random_below(hidden_seed, index, 64) == 0
                        ? -std::numeric_limits<float>::infinity()
                        : random_normal(bias_seed, index);
      }
    });
  }
  if (const Tensor& mask = tensors[ATTEST_MASK]) {
    const uint64_t mask_seed = role_seed(seed, ATTEST_MASK), row_seed = random_bits(mask_seed, 1);
    const bool of_rows = mask.spec.dim[2] > 1;  // a mask of keys alone never hides all of them
    fill_rows(mask, [&](int64_t r, std::span<float> values) {
      const bool blind = of_rows && random_below(row_seed, uint64_t(r), 16) == 0;
      for (size_t j = 0; j < values.size(); ++j)
        values[j] = !blind && random_below(mask_seed, uint64_t(r) * values.size() + j, 5) != 0
                        ? 1.0f
                        : 0.0f;
    });
  }
  if (tensors[ATTEST_ALIBI_SLOPES])
    fill_slopes(problem, role_seed(seed, ATTEST_ALIBI_SLOPES), tensors[ATTEST_ALIBI_SLOPES]);
  if (tensors[ATTEST_SINKS]) {
    fill_sinks(problem, role_seed(seed, ATTEST_SINKS), tensors[ATTEST_SINKS], 0);
    lower_sinks(role_seed(seed, ATTEST_SINKS), tensors[ATTEST_SINKS]);
  }
  fill_factors(seed, tensors);
  if (tensors[ATTEST_REL_BIAS])
    fill_normal(tensors[ATTEST_REL_BIAS], role_seed(seed, ATTEST_REL_BIAS));
}

void fill_random(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own) {
  const Params& p = problem.as<Params>();
  fill_tables(problem, fill, tensors, only_own);
  fill_terms(problem, fill.seed, tensors);
  const bool is_wild = wild_round_of(fill.name) >= 0;
  if (tensors[ATTEST_BLOCK_MASK])
    fill_block_mask(tensors[ATTEST_BLOCK_MASK], role_seed(fill.seed, ATTEST_BLOCK_MASK),
                    is_wild ? BlockDensity::kDense : BlockDensity::kSparse);
  if (only_own && fill.name == "tokens") return;
  // q.k of standard normal rows has standard deviation sqrt(head_dim); what softmax_scale does not
  // undo, Q does.
  const float q_factor =
      float(1 / (std::fabs(double(p.softmax_scale)) * std::sqrt(double(p.head_dim))));
  fill_normal(tensors[ATTEST_Q], role_seed(fill.seed, ATTEST_Q), 0,
              std::fabs(q_factor - 1) < 1e-6f ? 1.0f : q_factor);
  const std::vector<bool> read = read_cells(problem, tensors);
  fill_keys(tensors[ATTEST_K], role_seed(fill.seed, ATTEST_K), read, kDecoyScore, 0);
  fill_keys(tensors[ATTEST_V], role_seed(fill.seed, ATTEST_V), read, 0, kDecoyValue);
}

}  // namespace attest::core
