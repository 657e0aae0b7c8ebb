#include "core/isolation/spinning.hpp"

#include <cstdlib>

namespace attest::core {

bool bound_spinning() {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return false;
  return setenv("GOMP_SPINCOUNT", "20000", 0) == 0;
}

}  // namespace attest::core
