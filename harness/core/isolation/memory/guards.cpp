#include "core/isolation/memory/guards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/tensor/runs.hpp"

namespace attest::core {
namespace {

constexpr int64_t kWholeGap = 4096;
// a NaN of every dtype, and not the poison of any output
constexpr uint64_t kWorkspacePoison = 0x7ff9;

// Writes the pattern `bits` of `width` bytes over [begin, begin + bytes).
void fill_pattern(char* begin, int64_t bytes, uint64_t bits, size_t width) {
  uint64_t pattern = bits;
  if (width == 1) pattern = (bits & 0xff) * 0x0101010101010101u;
  if (width == 2) pattern = (bits & 0xffff) * 0x0001000100010001u;
  if (width == 4) pattern = (bits & 0xffffffff) * 0x0000000100000001u;
  int64_t i = 0;
  for (; i + 8 <= bytes; i += 8) std::memcpy(begin + i, &pattern, 8);
  std::memcpy(begin + i, &pattern, size_t(bytes - i));
}

void fill_gap(const Surroundings& around, int64_t begin, int64_t end) {
  if (begin < end && (begin & 1)) {
    around.map[begin] = char(canary_byte(around.canary, begin));
    ++begin;
  }
  if (begin < end) fill_pattern(around.map + begin, end - begin, uint16_t(around.canary), 2);
}

bool broken(const Surroundings& around, int64_t at) {
  return static_cast<unsigned char>(around.map[at]) != canary_byte(around.canary, at);
}

// The first byte in [begin, end) that is no canary; `end` where all are.
int64_t first_broken(const Surroundings& around, int64_t begin, int64_t end) {
  while (begin < end && !broken(around, begin)) ++begin;
  return begin;
}
// How many bytes before `end` the damage nearest to it begins; 0: none.
int64_t broken_before(const Surroundings& around, int64_t end) {
  int64_t at = end;
  while (at > 0 && !broken(around, at - 1)) --at;
  if (at == 0) return 0;
  while (at > 0 && broken(around, at - 1)) --at;
  return end - at;
}

// Calls visit(begin, end), in bytes of the map, for the gaps between elements that hold canaries,
// until it returns false.
template <class Visit>
void for_each_gap(const Surroundings& around, const Visit& visit) {
  if (!around.spec || fills_extent(*around.spec)) return;
  const auto width = int64_t(dtype_bytes(around.spec->dtype));
  int64_t behind = around.data_offset;  // the end of the run before
  bool go_on = true;
  for_each_run(*around.spec, [&](int64_t first, int64_t count) {
    const int64_t begin = around.data_offset + first * width;
    if (go_on && begin > behind) {
      if (begin - behind <= kWholeGap)
        go_on = visit(behind, begin);
      else
        go_on = visit(behind, behind + kGapEdge) && visit(begin - kGapEdge, begin);
    }
    behind = begin + count * width;
  });
}

}  // namespace

void write_canaries(const Surroundings& around) {
  fill_gap(around, 0, around.data_offset);
  fill_gap(around, around.data_offset + around.data_bytes, around.map_bytes);
  for_each_gap(around, [&](int64_t begin, int64_t end) {
    fill_gap(around, begin, end);
    return true;
  });
}

std::string broken_canary(const Surroundings& around) {
  if (const int64_t distance = broken_before(around, around.data_offset); distance > 0)
    return fmt::format("was written {} bytes before its start", distance);
  const int64_t end = around.data_offset + around.data_bytes;
  if (const int64_t at = first_broken(around, end, around.map_bytes); at < around.map_bytes)
    return fmt::format("was written past its end, at byte {} behind it", at - end);
  std::string found;
  for_each_gap(around, [&](int64_t begin, int64_t gap_end) {
    const int64_t at = first_broken(around, begin, gap_end);
    if (at < gap_end)
      found = fmt::format("was written between its elements, at byte {}", at - around.data_offset);
    return at == gap_end;
  });
  return found;
}

void poison_tensor(const Tensor& tensor) {
  const auto width = int64_t(dtype_bytes(tensor.spec.dtype));
  const uint64_t bits = poison_bits(tensor.spec.dtype);
  for_each_run(tensor.spec, [&](int64_t first, int64_t count) {
    fill_pattern(static_cast<char*>(tensor.data) + first * width, count * width, bits,
                 size_t(width));
  });
}

bool is_poison(const Tensor& tensor) {
  const size_t width = dtype_bytes(tensor.spec.dtype);
  const uint64_t bits = poison_bits(tensor.spec.dtype);
  bool all = true;
  for_each_run(tensor.spec, [&](int64_t first, int64_t count) {
    const char* at = static_cast<const char*>(tensor.data) + first * int64_t(width);
    // The first element is poison, and each other one is as the one before it.
    all = all && std::memcmp(at, &bits, width) == 0 &&
          std::memcmp(at, at + width, size_t(count - 1) * width) == 0;
  });
  return all;
}

const char* name(Leftover leftover) {
  constexpr const char* kNames[] = {"NaN",   "numbers in (0, 1)", "large numbers", "1.0",
                                    "zeros", "the integer 1"};
  return kNames[int(leftover)];
}

void fill_workspace(void* workspace, int64_t bytes, Leftover leftover) {
  // Eight bytes over and over, which lie at a multiple of eight in the workspace.
  constexpr uint64_t kPatterns[] = {
      kWorkspacePoison * 0x0001000100010001u,
      0x3a003a003f003a00u,  // 0.5 and 0.0005 by turns in f32, mostly 0.75 in f16
      0x7149f2ca7149f2cau,  // 1e30 in f32, more than 1e4 in f16
      0x3f8000003f800000u,
      0,
      0x0000000100000001u};
  auto* begin = static_cast<char*>(workspace);
  const int64_t front = std::min(bytes, kPoisonedWorkspace),
                back = std::min(bytes - front, kPoisonedWorkspace) / 8 * 8;
  fill_pattern(begin, front, kPatterns[int(leftover)], 8);
  fill_pattern(begin + bytes - back, back, kPatterns[int(leftover)], 8);
}

}  // namespace attest::core
