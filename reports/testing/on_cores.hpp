// Records that were measured on cores, which can be projected to boards.
#pragma once
#include <string>

#include "core/record/results.hpp"
#include "reports/testing/records.hpp"

namespace attest::testing {

/// A record of 1 ms, half of what `limit` allows.
inline core::Record on_cores(const std::string& impl, const std::string& limit = "f32 AVX3") {
  core::Record r = passed(impl, 1e6);
  r.device = "cpu";
  r.flops = 1e8;
  r.time->median_ns = 1e6;
  core::RooflineRecord roofline;
  roofline.share = 0.5;
  roofline.limit = limit;
  roofline.least_ns = 0.5e6;
  roofline.flops_per_byte = 1e3;
  r.roofline = roofline;
  return r;
}

}  // namespace attest::testing
