// Lets tests drop or enlarge one term of sigma, to prove that it is needed and no larger than
// needed.
#pragma once
#include <array>
#include <cstddef>

namespace attest::core {

/// While an object exists, its term is multiplied by `factor`; 0 drops the term. `Term` is an
/// enumeration that ends with kCount. For tests only: one object at a time, while no other thread
/// uses a golden.
template <class Term>
class ScopedTermFactor {
 public:
  ScopedTermFactor(Term term, double factor) : term_(term) { factors[size_t(term)] = factor; }
  ~ScopedTermFactor() { factors[size_t(term_)] = 1; }
  ScopedTermFactor(const ScopedTermFactor&) = delete;
  ScopedTermFactor& operator=(const ScopedTermFactor&) = delete;
  static double of(Term term) { return factors[size_t(term)]; }

 private:
  using Factors = std::array<double, size_t(Term::kCount)>;
  static constexpr Factors ones() {
    Factors all{};
    for (double& x : all) x = 1;
    return all;
  }
  static inline Factors factors = ones();
  Term term_;
};

}  // namespace attest::core
