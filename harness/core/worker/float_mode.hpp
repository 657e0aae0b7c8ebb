// The floating-point modes of this thread: rounding, flush-to-zero, trapped exceptions.
#pragma once
#include <cfenv>
#include <cstdint>
#include <string>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace attest::core {

/// The control bits alone; sticky exception flags do not count.
struct FloatMode {
  uint64_t bits = 0;    // MXCSR or FPCR
  uint32_t legacy = 0;  // the x87 control word: long double

  bool operator==(const FloatMode&) const = default;
};

inline FloatMode float_mode() {
#if defined(__x86_64__)
  unsigned short legacy = 0;
  __asm__ __volatile__("fnstcw %0" : "=m"(legacy));
  return {_mm_getcsr() & ~uint32_t{0x3f}, legacy};
#elif defined(__aarch64__)
  return {__builtin_aarch64_get_fpcr(), 0};
#else
  return {uint64_t(std::fegetround()), 0};
#endif
}

/// Names of what differs: "rounding, flush-to-zero"; "" where nothing does.
inline std::string difference(const FloatMode& before, const FloatMode& after) {
#if defined(__x86_64__)
  constexpr uint64_t kRounding = 0x6000, kFlush = 0x8040, kTraps = 0x1f80;  // MXCSR
  constexpr uint32_t kLegacyRounding = 0x0c00, kLegacyTraps = 0x003f;
#else
  constexpr uint64_t kRounding = 3u << 22, kFlush = 1u << 24 | 1u << 19 | 1u,
                     kTraps = 0x9f00;  // FPCR
  constexpr uint32_t kLegacyRounding = 0, kLegacyTraps = 0;
#endif
  const uint64_t bits = before.bits ^ after.bits;
  const uint32_t legacy = before.legacy ^ after.legacy;
  std::string names;
  auto add = [&](bool differs, const char* name) {
    names += differs ? (names.empty() ? "" : ", ") + std::string(name) : "";
  };
  add((bits & kRounding) || (legacy & kLegacyRounding), "rounding");
  add(bits & kFlush, "flush-to-zero");
  add((bits & kTraps) || (legacy & kLegacyTraps), "trapped exceptions");
  add((bits & ~(kRounding | kFlush | kTraps)) || (legacy & ~(kLegacyRounding | kLegacyTraps)),
      "precision");
  return names;
}

/// Restores the modes that were in force when it was made.
class FloatModeGuard {
 public:
  FloatModeGuard() { std::fegetenv(&environment_); }
  FloatModeGuard(const FloatModeGuard&) = delete;
  ~FloatModeGuard() { std::fesetenv(&environment_); }
  /// What has changed since, by name; "": nothing.
  std::string changes() const { return difference(mode_, float_mode()); }

 private:
  std::fenv_t environment_;
  FloatMode mode_ = float_mode();
};

}  // namespace attest::core
