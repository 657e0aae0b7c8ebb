#include "core/operations/softmax/closed_form/value_sizes.hpp"

#include <cmath>

namespace attest::core {
namespace {

constexpr float kOthers = 64;           // at most
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
  float factor = kOthers;
  while (factor > 1 && double(factor) * double(book.period()) > kLargestSum) factor /= 2;
  return factor;
}

}  // namespace attest::core
