// The two passes of the softmax golden as kernels, in float64: the normaliser of each row, then the
// sums that its output and its sigma follow from. The same numbers as key_passes.cpp makes on the
// host, but for their last bits, and the same in every run: each sum has one order.
//
// A block has up to 8 rows of one key head and walks through their keys 64 at a time. Its 128
// threads are, in turn, 64 keys by two halves of the rows (dot products), 32 lanes by four pairs of
// rows (what becomes of a score) and 64 channels by two halves of the rows (products with V).
#pragma once
#include <cmath>

#include "attest.hpp"
#include "core/operations/softmax/golden/device_row_job.hpp"

namespace attest::core::row_job {

constexpr int kDepth = 32;  // channels of K a step
constexpr int kWarps = kThreads / 32, kHalf = kRows / 2, kOwnRows = kRows / kWarps;

/// What a key weighs: p, a^2, e^2 of key_passes.cpp; p once more where it is lost, and where it
/// may be.
struct Weights {
  double p, a2, e2, lost, unsure;
};

struct Room {
  double q[kRows][kMostHeadDim];  // scaled
  double dot[kRows][kKeys];       // then the score, -inf where hidden
  double magnitude[kRows][kKeys];
  union {  // one after the other
    double k[kKeys][kDepth + 1];
    Weights weights[kRows][kKeys];
  };
};

__device__ inline double load(const Source& from, int64_t index) {
  switch (from.dtype) {
    case ATTEST_F32: return static_cast<double>(static_cast<const float*>(from.data)[index]);
    case ATTEST_F16:
      return static_cast<double>(
          attest::float_from_half(static_cast<const uint16_t*>(from.data)[index]));
    case ATTEST_BF16:
      return static_cast<double>(
          attest::float_from_bfloat16(static_cast<const uint16_t*>(from.data)[index]));
    case ATTEST_F64: return static_cast<const double*>(from.data)[index];
    default: return static_cast<double>(static_cast<const uint8_t*>(from.data)[index]);  // bool
  }
}

__device__ inline double larger(double x, double y) { return x < y ? y : x; }  // x where y is NaN
__device__ inline double sum_of_warp(double x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}
__device__ inline double largest_of_warp(double x) {
  for (int step = 16; step > 0; step /= 2) x = larger(x, __shfl_xor_sync(~0u, x, step));
  return x;
}

__device__ inline void load_queries(const Job& job, const Block& block, Room& room) {
  for (int n = static_cast<int>(threadIdx.x); n < kRows * job.in.head_dim; n += kThreads) {
    const int64_t r = n / job.in.head_dim, d = n % job.in.head_dim;
    room.q[r][d] =
        r < block.count
            ? load(job.in.q, job.rows[block.first + r].q + d * job.in.q.stride) * job.in.scale
            : 0;
  }
}

/// Products of all rows with keys first .. first + 63, and their magnitudes where they are asked
/// for. All threads have left room.weights when it is called, and see the products when it returns.
template <bool kWithMagnitudes>
__device__ void multiply_keys(const Job& job, const Block& block, int64_t first, Room& room) {
  const int thread = static_cast<int>(threadIdx.x), key = thread % kKeys,
            half = thread / kKeys * kHalf;
  double dot[kHalf] = {}, magnitude[kHalf] = {};
  for (int64_t begin = 0; begin < job.in.head_dim; begin += kDepth) {
    const int64_t depth = job.in.head_dim - begin < kDepth ? job.in.head_dim - begin : kDepth;
    __syncthreads();
    for (int n = thread; n < kKeys * kDepth; n += kThreads) {
      const int64_t place = first + n / kDepth, d = n % kDepth;
      const bool there = d < depth && place >= block.begin && place < block.end;
      room.k[n / kDepth][d] = there ? load(job.in.k, job.in.k_row[block.places + place] + block.k +
                                                         (begin + d) * job.in.k.stride)
                                    : 0;
    }
    __syncthreads();
    for (int64_t d = 0; d < depth; ++d) {
      const double k = room.k[key][d];
      for (int r = 0; r < kHalf; ++r) {
        const double q = room.q[half + r][begin + d];
        dot[r] += q * k;
        if (kWithMagnitudes)
          magnitude[r] += job.model.squares ? q * q * (k * k) : fabs(q) * fabs(k);
      }
    }
  }
  for (int r = 0; r < kHalf; ++r) {
    room.dot[half + r][key] = dot[r];
    if (kWithMagnitudes) room.magnitude[half + r][key] = magnitude[r];
  }
  __syncthreads();
}

/// A score on its way from a scaled dot product.
struct Stages {
  double capped,
      slope;     // after the softcap, and the softcap's slope there; the dot product and 1 without
  double score;  // -inf: hidden
};

__device__ inline Stages stages_of(const Job& job, const Row& row, double dot, int64_t place) {
  Stages made = {dot, 1, 0};
  if (job.in.softcap > 0) {
    const double t = 1 - 2 / (exp(dot * (2 / job.in.softcap)) + 1);
    made.capped = job.in.softcap * t;
    made.slope = 1 - t * t;
  }
  made.score = made.capped;
  const double hidden = -INFINITY;
  if (place < row.begin || place >= row.end) {
    made.score = hidden;
    return made;
  }
  if (row.slope != 0) made.score -= row.slope * fabs(static_cast<double>(row.diagonal - place));
  if (job.in.bias.data) {
    const double bias = load(job.in.bias, row.bias + place * job.in.bias.stride);
    made.score = bias == hidden ? hidden : made.score + bias;
  }
  if (job.in.mask.data && load(job.in.mask, row.mask + place * job.in.mask.stride) == 0)
    made.score = hidden;
  return made;
}

/// The first key of a block's steps: a multiple of kKeys, wherever the block begins, so that
/// partial sums are those of any block.
__device__ inline int64_t first_step(const Block& block) { return block.begin / kKeys * kKeys; }

/// First pass: what is needed to know a row's normaliser. A thread takes two keys a step of each of
/// its two rows.
__device__ inline void row_scores(const Job& job, Room& room) {
  const Block& block = job.blocks[blockIdx.x];
  const int lane = static_cast<int>(threadIdx.x) % 32,
            own = static_cast<int>(threadIdx.x) / 32 * kOwnRows;
  double least[kOwnRows], largest[kOwnRows], sum[kOwnRows] = {}, seen[kOwnRows] = {};
  for (int r = 0; r < kOwnRows; ++r) {
    least[r] = INFINITY;
    largest[r] = -INFINITY;
  }
  load_queries(job, block, room);
  for (int64_t first = first_step(block); first < block.end; first += kKeys) {
    multiply_keys<false>(job, block, first, room);
    for (int r = 0; r < kOwnRows && own + r < block.count; ++r)
      for (int key = lane; key < kKeys; key += 32) {
        const double s =
            stages_of(job, job.rows[block.first + own + r], room.dot[own + r][key], first + key)
                .score;
        if (s == -INFINITY) continue;
        seen[r] += 1;
        least[r] = s < least[r] ? s : least[r];
        if (s > largest[r]) {
          sum[r] *= exp(largest[r] - s);
          largest[r] = s;
        }
        sum[r] += exp(s - largest[r]);
      }
  }
  for (int r = 0; r < kOwnRows; ++r) {
    const double top = largest_of_warp(largest[r]), all = sum_of_warp(seen[r]),
                 bottom = -largest_of_warp(-least[r]);
    const double total = sum_of_warp(seen[r] > 0 ? sum[r] * exp(largest[r] - top) : 0);
    if (lane != 0 || own + r >= block.count) continue;
    double* out = job.out + (block.first + own + r - job.first_row) * kScores;
    out[kLeast] = bottom;
    out[kLargest] = top;
    out[kSum] = total;
    out[kSeen] = all;
  }
}

/// What becomes of one pair's score; adds to the row's sums.
__device__ inline Weights weigh(const Job& job, const Row& row, const Stages& stages, double dot,
                                double magnitude, double (&sums)[kSums]) {
  const double s = stages.score;
  if (s == -INFINITY) return Weights{0, 0, 0, 0, 0};
  double x =
      job.model.squares ? sqrt(magnitude * stages.slope * stages.slope) : magnitude * stages.slope;
  double square = s * s, lower = 0, sloped = s;
  if (job.in.staged) {
    sloped = dot * stages.slope;
    const bool added = s != stages.capped;
    const double kept = sloped * sloped + (job.in.softcap > 0 ? stages.capped * stages.capped : 0) +
                        (added ? s * s : 0);
    square = job.model.of_dot * sloped * sloped + job.model.of_kept * kept;
    if (added) lower = fabs(s) < fabs(stages.capped) ? fabs(s) : fabs(stages.capped);
  }
  const double p = exp(s - row.lse), p2 = p * p, a = job.model.u_p * p + row.eta_kappa, a2 = a * a;
  const double p2t = p2 * square, p2q = p2 * (row.q0 + x * (job.model.q1 + x * job.model.q2)),
               e2 = job.model.a_share * a2 + job.model.score2 * p2t + p2q;
  sums[kP2] += p2;
  sums[kA2] += a2;
  sums[kE2] += e2;
  sums[kP2t] += p2t;
  sums[kP2q] += p2q;
  sums[kPx2] += p * x * x;
  sums[kSmall] += p < row.small ? p : 0;
  sums[kCommon] += p * lower;
  sums[kMeanDot] += p * fabs(sloped);
  sums[kAtCap] += stages.slope <= job.model.slope_at_cap ? p : 0;
  return Weights{p, job.model.lone_weights ? a2 : 0, e2,
                 p < row.lost    ? p
                 : p < row.below ? row.cut
                                 : 0,
                 p >= row.lost && p < row.kept ? p : 0};
}

/// Sums of one channel over keys, of each of a thread's rows.
struct ChannelSums {
  double of[kVectors][kHalf] = {};
};

/// Adds keys first .. first + 63 to a channel's sums. An infinity or NaN of V is in sum p v alone,
/// of the rows that see it.
__device__ inline void add_values(const Job& job, const Block& block, int64_t first, int half,
                                  int64_t channel, const Room& room, ChannelSums& sums) {
  const int64_t begin = first < block.begin ? block.begin : first,
                end = first + kKeys < block.end ? first + kKeys : block.end;
  for (int64_t place = begin; place < end; ++place) {
    const int key = static_cast<int>(place - first);
    double v =
        load(job.in.v, job.in.v_row[block.places + place] + block.v + channel * job.in.v.stride);
    if (!(fabs(v) < INFINITY)) {
      for (int r = 0; r < kHalf; ++r)
        if (room.dot[half + r][key] != -INFINITY)
          sums.of[kPv][r] += room.weights[half + r][key].p * v;
      v = 0;
    }
    const double v2 = v * v;
    for (int r = 0; r < kHalf; ++r) {
      const Weights& w = room.weights[half + r][key];
      sums.of[kPv][r] += w.p * v;
      sums.of[kP2v2][r] += w.p * w.p * v2;
      sums.of[kA2v2][r] += w.a2 * v2;
      sums.of[kE2v][r] += w.e2 * v;
      sums.of[kE2v2][r] += w.e2 * v2;
      sums.of[kFlushed][r] += w.lost * v;
      sums.of[kUnsure][r] += w.unsure * v;
      sums.of[kUnsure2][r] += (w.unsure * w.unsure + job.model.apart * w.lost * w.lost) * v2;
    }
  }
  for (int r = 0; r < kHalf; ++r) {
    const double lost = sums.of[kFlushed][r];
    sums.of[kReach][r] = larger(sums.of[kReach][r], fabs(sums.of[kPv][r]));
    sums.of[kFlushedMost][r] = larger(sums.of[kFlushedMost][r], lost);
    sums.of[kFlushedLeast][r] = -larger(-sums.of[kFlushedLeast][r], -lost);
  }
}

/// Second pass. Every block of channels makes the weights anew; the first one writes their sums.
__device__ inline void row_sums(const Job& job, Room& room) {
  const int64_t chunks = channel_blocks(job.in.head_dim_v), chunk = blockIdx.x % chunks;
  const Block& block = job.blocks[blockIdx.x / chunks];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32,
            own = thread / 32 * kOwnRows, half = thread / kChannels * kHalf;
  const int64_t channel = chunk * kChannels + thread % kChannels;
  double scalars[kOwnRows][kSums] = {};
  ChannelSums sums;
  load_queries(job, block, room);
  for (int64_t first = first_step(block); first < block.end; first += kKeys) {
    multiply_keys<true>(job, block, first, room);
    for (int r = 0; r < kOwnRows; ++r)
      for (int key = lane; key < kKeys; key += 32) {
        double& cell = room.dot[own + r][key];
        Weights& weights = room.weights[own + r][key];
        if (own + r >= block.count) {
          weights = Weights{0, 0, 0, 0, 0};
          cell = -INFINITY;
          continue;
        }
        const Row& row = job.rows[block.first + own + r];
        const double dot = cell;
        const Stages stages = stages_of(job, row, dot, first + key);
        weights = weigh(job, row, stages, dot, room.magnitude[own + r][key], scalars[r]);
        cell = stages.score;
      }
    __syncthreads();
    if (channel < job.in.head_dim_v) add_values(job, block, first, half, channel, room, sums);
  }
  const int64_t width = sums_of_row(job.in.head_dim_v);
  for (int r = 0; r < kOwnRows; ++r)
    for (int n = 0; n < kSums; ++n) {
      const double sum = sum_of_warp(scalars[r][n]);
      if (chunk == 0 && lane == 0 && own + r < block.count)
        job.out[(block.first + own + r - job.first_row) * width + n] = sum;
    }
  for (int r = 0; r < kHalf && channel < job.in.head_dim_v; ++r)
    for (int n = 0; n < kVectors && half + r < block.count; ++n)
      job.out[(block.first + half + r - job.first_row) * width + kSums + n * job.in.head_dim_v +
              channel] = sums.of[n][r];
}

}  // namespace attest::core::row_job

extern "C" __global__ void __launch_bounds__(attest::core::row_job::kThreads)
    attest_softmax_row_scores(attest::core::row_job::Job job) {
  __shared__ attest::core::row_job::Room room;
  attest::core::row_job::row_scores(job, room);
}

extern "C" __global__ void __launch_bounds__(attest::core::row_job::kThreads)
    attest_softmax_row_sums(attest::core::row_job::Job job) {
  __shared__ attest::core::row_job::Room room;
  attest::core::row_job::row_sums(job, room);
}
