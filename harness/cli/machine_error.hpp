// A failure of the machine or of the output, not of what the user asked for: exit code 4.
#pragma once
#include "core/tensor/error.hpp"

namespace attest::cli {

class MachineError : public core::Error {
 public:
  using core::Error::Error;
};

}  // namespace attest::cli
