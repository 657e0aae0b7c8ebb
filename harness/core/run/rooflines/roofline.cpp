#include "core/run/rooflines/roofline.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "core/record/least_bytes.hpp"

namespace attest::core {
namespace {

std::set<std::string> words(const std::string& text, char separator) {
  std::set<std::string> all;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, separator);) all.insert(word);
  return all;
}

/// The dtypes in which the implementation may multiply. "qk=f32,pv=bf16": f32 and bf16.
std::set<std::string> dtypes_of(const Record& record) {
  std::set<std::string> all{"f32", record.dtype};
  for (const std::string& word : words(record.arithmetic, ','))
    if (const size_t at = word.find('='); at != word.npos) all.insert(word.substr(at + 1));
  return all;
}

/// The most that `threads` threads may reach together.
double most(const PeakRate& rate, int threads, const Probe& probe) {
  if (threads <= 1) return rate.one;
  const double all = std::max(rate.one, rate.all);
  return threads >= probe.threads ? all : std::min(all, threads * rate.one);
}

/// What a run takes at least because of one limit.
struct Bound {
  double ns = 0;
  std::string limit;
};

Bound arithmetic_bound(const Record& record, const Probe& probe) {
  // Kernels skip what a block mask hides, and how much that is the inputs decide.
  if (words(record.features, '+').contains("BLOCK_MASK")) return {};
  const std::set<std::string> dtypes = dtypes_of(record);
  const ArithmeticPeak* best = nullptr;
  const auto gflops = [&](const ArithmeticPeak& peak) {
    return most(peak.gflops, record.threads, probe);
  };
  for (const ArithmeticPeak& peak : probe.arithmetic)
    if (dtypes.contains(peak.dtype) && (!best || gflops(peak) > gflops(*best))) best = &peak;
  if (!best || gflops(*best) <= 0) return {};
  return {record.flops / gflops(*best), best->dtype + " " + best->unit};
}

Bound reading_bound(const Record& record, double bytes, const Probe& probe) {
  Bound longest;
  double nearer = 0;  // what the caches up to here can hold
  for (const MemoryLevel& level : probe.levels) {
    const double gbs = most(level.read_gbs, record.threads, probe);
    if (gbs > 0 && (bytes - nearer) / gbs > longest.ns)
      longest = {(bytes - nearer) / gbs, level.name + " reads"};
    nearer = std::max(nearer, std::min(double(level.own_bytes) * std::max(record.threads, 1),
                                       double(level.all_bytes)));
  }
  return longest;
}

}  // namespace

std::optional<RooflineRecord> roofline_of(const Record& record, const Probe& probe) {
  if (!record.time || record.time->median_ns <= 0) return {};
  const double bytes = least_bytes(record);
  const Bound arithmetic = arithmetic_bound(record, probe),
              reading = reading_bound(record, bytes, probe);
  const Bound& least = arithmetic.ns >= reading.ns ? arithmetic : reading;
  if (least.ns <= 0) return {};
  RooflineRecord roofline{.share = least.ns / record.time->median_ns,
                          .limit = least.limit,
                          .least_ns = least.ns,
                          .flops_per_byte = {}};
  if (bytes > 0) roofline.flops_per_byte = record.flops / bytes;
  return roofline;
}

}  // namespace attest::core
