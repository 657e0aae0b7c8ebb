// What a float64 golden says of an output: values and sigmas, chunk by chunk, in memory that does
// not grow with tokens^2.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>

#include "core/operations/arithmetic.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {

/// What is expected of some rows of one output tensor. A row is addressed by one number that counts
/// through the first `leading` dims of the tensor, the last of them fastest (row_offset of
/// tensor.hpp); it has `width` elements (1 when leading == rank).
struct Expected {
  int32_t role = 0;
  int leading = 0;
  int64_t width = 0;
  std::span<const int64_t> rows;
  bool shared = false;            // one [width] expectation for all rows, else [rows, width]
  const double* value = nullptr;  // exact: the true result; may be NaN, or +-inf
  // Exact: standard deviation of the error that the declared arithmetic may make
  const double* sigma = nullptr;
  const double* low = nullptr;  // sweep (value == nullptr): the least and the largest value that
                                // the element may have
  const double* high = nullptr;
};

/// Takes one row of an output, addressed as in Expected, from an emulated kernel.
using EmulationSink =
    std::function<void(int32_t role, int64_t row, std::span<const double> values)>;

/// The host does not believe what a device has said: why. Nothing may be judged by that golden.
class GoldenRefused : public Error {
 public:
  using Error::Error;
};

/// The reference of one problem with one set of inputs. Computed once, used for every
/// implementation: sigma is asked for with the arithmetic that each declares. The inputs must stay
/// as they are while it lives.
class Golden {
 public:
  /// May be called from several threads at once.
  using Sink = std::function<void(const Expected&)>;

  virtual ~Golden() = default;
  /// Calls `sink` with every exact chunk and with sweeps that together cover all rows of all
  /// outputs. Throws GoldenRefused where a device makes it and is wrong or fails.
  virtual void expect(const Arithmetic& arithmetic, const Sink& sink) const = 0;
  /// Rows that err independently: fewer than there are where rows repeat one another (equal queries
  /// on the same keys), since then their errors do too.
  virtual int64_t distinct_rows() const { return std::numeric_limits<int64_t>::max(); }
  /// How, for the record: "closed form, all rows", "float64, all rows", "float64, 256 of 32,768
  /// rows a head".
  virtual std::string method() const = 0;
  /// Looks at a row of O or LSE by which something is to be failed. Throws GoldenRefused where the
  /// host says something else of it than the device that made this.
  virtual void confirm(const Arithmetic& /*arithmetic*/, int64_t /*row*/) const {}
  /// The device that made it; "": the host.
  virtual std::string device() const { return {}; }
};

}  // namespace attest::core
