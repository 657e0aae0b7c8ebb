// How far one element of an output is from what the golden expects of it.
#pragma once
#include "core/tensor/tensor.hpp"

namespace attest::core {

/// |got - expected| / sigma, where that quotient says something; otherwise (NaN, infinities, a
/// sigma of 0, overflow of the output's dtype) 0 if `got` is right, and infinity if it is not. 0 if
/// sigma is kUnsure.
double error_in_sigmas(double expected, double got, double sigma, DType dtype);

/// Whether the element at `offset` (in elements) still holds the poison that outputs are filled
/// with.
bool is_poison(const Tensor& tensor, int64_t offset);

/// Whether an element of a sweep is what it may be. A bound that is NaN stands for a NaN among the
/// averaged values: then it may be anything but poison.
bool in_sweep(const Tensor& tensor, int64_t offset, double got, double low, double high);

}  // namespace attest::core
