// The least time that a run takes because of one limit of a device, or why it is not known.
#pragma once
#include <optional>
#include <string>
#include <utility>

namespace attest::reports {

struct Bound {
  double ns = 0;
  std::string limit;   // "f32 AVX3", "f16 tensor cores", "memory reads"
  bool reads = false;  // reading binds; else arithmetic
};

struct MaybeBound {
  std::optional<Bound> bound;
  std::string why;  // it is not known; "": it is

  static MaybeBound none(std::string why) { return {{}, std::move(why)}; }
};

}  // namespace attest::reports
