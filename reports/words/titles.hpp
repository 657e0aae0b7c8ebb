// What stands above the records of a case.
#pragma once
#include <string>

#include "core/record/results.hpp"

namespace attest::reports {

/// "vit/vit_b_16_224/self f16": above the rows of a case.
std::string case_title(const core::Record& record);

/// "vit/vit_b_16_224/self f16  1x12x197x64": the same with the sizes of the problem.
std::string case_heading(const core::Record& record);

}  // namespace attest::reports
