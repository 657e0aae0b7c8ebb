// Thrown if the machine or the output fails, rather than the user's arguments: exit code 4.
#pragma once
#include "core/tensor/error.hpp"

namespace attest::cli {

class MachineError : public core::Error {
 public:
  using core::Error::Error;
};

}  // namespace attest::cli
