#include "core/operations/softmax/closed_form/value_sizes.hpp"

#include <cmath>

namespace attest::core {
namespace {

constexpr float kOthers = 64;  // at most, if there are many keys
// So few keys of weight e^-20 show in f16 only by large values. Four times this is the largest
// number of e4m3.
constexpr float kOthersIfFew = 112;
constexpr double kLargestSum = 0x1p15;  // of a row's values: half of what f16 holds
constexpr int kMarkSizes = 10;

}  // namespace

double largest_value_of(const Codebook& book, int64_t key_code) {
  if (book.kind() != Codebook::Kind::kRising) return book.largest_value();
  if (key_code >= book.edge_codes()) return double(others_factor(book)) * kLargestRandom;
  return std::ldexp(kLargestRandom, mark_exponent(key_code));
}

int mark_exponent(int64_t code) { return int((code + kMarkSizes - 1) % kMarkSizes); }

float others_factor(const Codebook& book) {
  const auto fits = [&](float factor) {
    return double(factor) * double(book.period()) <= kLargestSum;
  };
  if (fits(kOthersIfFew)) return kOthersIfFew;
  float factor = kOthers;
  while (factor > 1 && !fits(factor)) factor /= 2;
  return factor;
}

}  // namespace attest::core
