// Modules and architectures know each other. measure/device_limits_test.cpp holds the architectures
// against the peaks that NVIDIA publishes, reports/projection/boards_test.cpp the modules.
#include <gtest/gtest.h>

#include "core/datasheets/board_modules.hpp"
#include "core/datasheets/gpu_architectures.hpp"

namespace attest::core {
namespace {

TEST(DataSheets, OfAllModulesTheArchitectureIsKnown) {
  for (const BoardModule& module : kBoardModules) {
    const GpuArchitecture* sm = find_gpu_architecture(module.architecture);
    ASSERT_TRUE(sm) << module.part;
    EXPECT_NE(sm->source, "") << sm->name;
    EXPECT_EQ(module_of_part(module.part), &module) << "a part has one module";
    EXPECT_EQ(find_module("nvidia,p3737-0000+" + std::string(module.part)), &module);
  }
  EXPECT_EQ(find_gpu_architecture("sm_87")->shared_bytes, 163 * 1024);
  EXPECT_EQ(find_gpu_architecture("sm_999"), nullptr);
  EXPECT_EQ(module_of_part("p3701-9999"), nullptr);
}

}  // namespace
}  // namespace attest::core
