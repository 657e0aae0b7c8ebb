// What the fuzzers of the parsers demand: sound results, or an Error of one readable line;
// everything else ends the program.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "core/inputs/formats/points.hpp"
#include "core/inputs/voxels.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {

inline void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

/// Calls `body(bytes)`; an Error is fine where its message is one line of printable text of
/// reasonable length.
template <class Body>
int fuzz_with(const uint8_t* data, size_t size, Body body) {
  try {
    body(std::as_bytes(std::span(data, size)));
  } catch (const Error& error) {
    const std::string message = error.what();
    demand(!message.empty() && message.size() < 400, "the message is empty or too long");
    for (const char c : message)
      demand(c >= ' ' && c <= '~', "the message has unprintable characters");
  }
  return 0;
}

/// A parsed cloud is whole and finite, and becomes voxels or an Error.
inline void use_points(const PointCloud& cloud) {
  demand(cloud.size() > 0 && cloud.y.size() == cloud.size() && cloud.z.size() == cloud.size(),
         "the axes differ in length");
  demand(cloud.intensity.empty() || cloud.intensity.size() == cloud.size(),
         "intensities are missing");
  for (const auto* values : {&cloud.x, &cloud.y, &cloud.z, &cloud.intensity})
    for (const float value : *values) demand(std::isfinite(value), "a value is not finite");
  const Voxels voxels = voxelise(cloud, 0.05, 1);
  demand(
      voxels.size() <= cloud.size() && curve_order(voxels, Curve::kHilbert).size() == voxels.size(),
      "voxels are lost or invented");
}

}  // namespace attest::core
