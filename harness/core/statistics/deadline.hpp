// Frames against a deadline: which percentiles a number of frames supports, and what becomes of
// frames that arrive by a clock.
//
// The rule is that of MLPerf Automotive: a percentile is claimed at a confidence only if the number
// of frames supports it ("early stopping" of its load generator). Latency counts from the scheduled
// arrival of a frame, so that a frame which waits for a slow one is late too.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace attest::core {

/// P(Binomial(n, p) <= k).
double binomial_at_most(int64_t n, double p, int64_t k);

/// How many frames must be seen, `late` of them late, for the claim that at least `share` of all
/// frames are in time. The claim is wrong with a probability of at most 1 - `confidence`. For 99.9
/// % of the frames, at 99 %: 4603 with none late, 6636 with one.
int64_t frames_needed(double share, int64_t late, double confidence);

/// A percentile of at least one sample.
struct Percentile {
  double share = 0;  // 0.999
  double value = 0;  // of the samples seen
  // The interval between two order statistics that contains the true percentile with the
  // probability `coverage`. Equal to the least and the largest sample if there are too few.
  double low = 0, high = 0, coverage = 0;
  // At least `share` of all frames are at most this, at the confidence asked for. Null: not
  // supported by so few samples.
  std::optional<double> claimed;
  int64_t needed = 0;  // samples that support a claim, at least
  // Whether `value` or `high` is only a lower bound, because it depends on samples that are.
  bool value_at_least = false, high_at_least = false;
};

/// `sorted`: ascending, at least one. Samples from `open_from` on may be lower bounds of what they
/// stand for: `low` holds nevertheless, and nothing that depends on them is claimed.
Percentile percentile(std::span<const double> sorted, double share, double confidence = 0.99,
                      double open_from = std::numeric_limits<double>::infinity());

/// What became of frames that arrive once a period, at 0, period, 2 period ...
struct PlayedFrames {
  std::vector<double> latency;  // of each frame that was worked on, from its scheduled arrival
  std::vector<double> age;      // of each such frame when work on it began
  int64_t dropped = 0;          // frames that were passed over for newer ones
  // Of each frame that never ran, because the series was cut before its turn: how long it had
  // waited by then. Its latency is at least that.
  std::vector<double> waited{};

  /// Frames that were dropped, that never ran, or whose latency is longer than `deadline`.
  int64_t missed(double deadline) const;
};

/// The work on one frame. It takes `time`. It could begin when the frame has arrived and the work
/// before it has ended; the caller or the machine begins it `delay` later.
struct FrameWork {
  double time = 0, delay = 0;
};

/// The work on frames that arrived once a period, by when the work on each started and ended.
std::vector<FrameWork> frame_works(std::span<const double> starts, std::span<const double> ends,
                                   double period);

/// Works on every frame, in order. Delays are part of latencies and ages.
PlayedFrames queue_all(std::span<const FrameWork> works, double period);
/// Always takes the newest frame that has arrived and drops the older ones. Ends when `works` is
/// used up.
PlayedFrames latest_only(std::span<const FrameWork> works, double period);

}  // namespace attest::core
