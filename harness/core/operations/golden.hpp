// Goldens: the true values of an output in float64, and their sigmas. They come in chunks, so that
// memory does not grow with tokens^2.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/operations/arithmetic.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {

/// The expectation for some rows of one output tensor. The number of a row counts through the first
/// `leading` dims of the tensor, the last of them fastest (row_offset of tensor.hpp). A row has
/// `width` elements (1 if leading == rank).
struct Expected {
  int32_t role = 0;
  int leading = 0;
  int64_t width = 0;
  std::span<const int64_t> rows;
  bool shared = false;  // the arrays below are [width], for all rows; else [rows, width]
  // An exact chunk has value and sigma.
  const double* value = nullptr;  // the true result; may be NaN, or +-inf
  // The standard deviation of the error of the declared arithmetic. kUnsure (unsure.hpp): rounding
  // decides whether the element is a number, so anything is right there but what was never written.
  const double* sigma = nullptr;
  // A sweep has value == nullptr, and low and high.
  const double* low = nullptr;  // the least and the largest value that the element may have
  const double* high = nullptr;

  /// The length of each array.
  size_t element_count() const { return (shared ? 1 : rows.size()) * size_t(width); }
};

/// Receives one row of an output from an emulated kernel. Rows are numbered as in Expected.
using EmulationSink =
    std::function<void(int32_t role, int64_t row, std::span<const double> values)>;

/// Thrown if a device computed a golden that the host does not confirm, or failed while computing
/// it. The message gives the reason. No output may be judged by that golden.
class GoldenRefused : public Error {
 public:
  using Error::Error;
};

/// The golden of one problem with one set of inputs. It is computed once and used for every
/// implementation; sigma depends on the arithmetic that an implementation declares. The inputs must
/// not change while the golden exists.
class Golden {
 public:
  /// May be called from several threads at once.
  using Sink = std::function<void(const Expected&)>;

  virtual ~Golden() = default;
  /// Calls `sink` with exact chunks and sweeps, which together cover all rows of all outputs.
  /// Throws GoldenRefused if a device computes this golden and fails or errs.
  virtual void expect(const Arithmetic& arithmetic, const Sink& sink) const = 0;
  /// The rows of output `role` of which expect() passes values and not only bounds, in any order.
  /// Calls expect(). A golden that knows these rows before it computes sigmas returns them at once.
  virtual std::vector<int64_t> exact_rows(const Arithmetic& arithmetic, int32_t role) const;
  /// How many rows err independently. Equal queries on the same keys have equal rows, and equal
  /// errors; they count once.
  virtual int64_t distinct_rows() const { return std::numeric_limits<int64_t>::max(); }
  /// The number of independent errors of the declared arithmetic whose mean square is as steady as
  /// that of all of output `role`. The elements of one row count as one error at most.
  virtual int64_t independent_rows(const Arithmetic& /*arithmetic*/, int32_t /*role*/) const {
    return distinct_rows();
  }
  /// How the golden is computed, for the record: "closed form, all rows", "float64, all rows",
  /// "float64, 256 of 32,768 rows a head".
  virtual std::string method() const = 0;
  /// If a device computed this golden: recomputes row `row` of O and LSE on the host, and throws
  /// GoldenRefused if device and host differ. The judge calls it before an implementation fails
  /// because of that row.
  virtual void confirm(const Arithmetic& /*arithmetic*/, int64_t /*row*/) const {}
  /// The name of the device that computed this golden; "": the host did.
  virtual std::string device() const { return {}; }
};

}  // namespace attest::core
