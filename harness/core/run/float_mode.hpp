// The floating-point modes of this thread: rounding, flush-to-zero, trapped exceptions.
#pragma once
#include <cfenv>
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace attest::core {

/// The control bits alone; sticky exception flags do not count.
inline uint64_t float_mode() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~uint32_t{0x3f};
#elif defined(__aarch64__)
  return __builtin_aarch64_get_fpcr();
#else
  return uint64_t(std::fegetround());
#endif
}

/// Restores the modes that were in force when it was made.
class FloatModeGuard {
 public:
  FloatModeGuard() { std::fegetenv(&environment_); }
  FloatModeGuard(const FloatModeGuard&) = delete;
  ~FloatModeGuard() { std::fesetenv(&environment_); }
  bool changed() const { return float_mode() != mode_; }

 private:
  std::fenv_t environment_;
  uint64_t mode_ = float_mode();
};

}  // namespace attest::core
