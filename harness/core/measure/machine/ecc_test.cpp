// Error correction of memory from trees of EDAC's files.
#include "core/measure/machine/ecc.hpp"

#include <gtest/gtest.h>

#include "core/measure/machine/environment.hpp"
#include "core/measure/testing/fake_root.hpp"

namespace attest::core {
namespace {

constexpr const char* kControllers = "sys/devices/system/edac/mc/";

void write_controller(const FakeRoot& root, const std::string& name, const char* corrected,
                      const char* uncorrected) {
  root.write(kControllers + name + "/ce_count", corrected);
  root.write(kControllers + name + "/ue_count", uncorrected);
}

TEST(Ecc, IsThatOfAllControllers) {
  const FakeRoot root;
  write_controller(root, "mc0", "3\n", "0\n");
  write_controller(root, "mc1", "4\n", "1\n");
  root.write(std::string(kControllers) + "mc0/dimm0/dimm_edac_mode", "S4ECD4ED\n");
  root.write(std::string(kControllers) + "mc0/dimm1/dimm_edac_mode", "S4ECD4ED\n");
  root.write(std::string(kControllers) + "mc1/rank0/dimm_edac_mode", "None\n");
  root.write(std::string(kControllers) + "power/control", "auto\n");  // no controller
  const Reading<MemoryEcc> ecc = read_ecc(root.path());
  ASSERT_TRUE(ecc.value) << ecc.missing;
  EXPECT_EQ(ecc.value->mode, "None, S4ECD4ED");
  EXPECT_EQ(ecc.value->corrected, 7u);
  EXPECT_EQ(ecc.value->uncorrected, 1u);
}

TEST(Ecc, OfOldDriversIsThatOfRows) {
  const FakeRoot root;
  write_controller(root, "mc0", "0\n", "0\n");
  EXPECT_EQ(read_ecc(root.path()).value->mode, "unknown");
  root.write(std::string(kControllers) + "mc0/csrow0/edac_mode", "SECDED\n");
  EXPECT_EQ(read_ecc(root.path()).value->mode, "SECDED");
}

TEST(Ecc, IsNotKnownWithoutControllersOrCounts) {
  EXPECT_EQ(read_ecc(FakeRoot().path()).missing, "no driver reports a memory controller");
  const FakeRoot root;
  write_controller(root, "mc0", "0\n", "many\n");
  const Reading<MemoryEcc> ecc = read_ecc(root.path());
  EXPECT_FALSE(ecc.value);
  EXPECT_NE(ecc.missing.find("mc0/ue_count"), std::string::npos) << ecc.missing;
}

TEST(Ecc, IsInTheEnvironment) {
  const FakeRoot root;
  EXPECT_EQ(read_environment(root.path()).at("memory").at("ecc"),
            "not known: no driver reports a memory controller");
  write_controller(root, "mc0", "5\n", "0\n");
  root.write(std::string(kControllers) + "mc0/dimm0/dimm_edac_mode", "SECDED\n");
  const Facts memory = read_environment(root.path()).at("memory");
  EXPECT_EQ(memory.at("ecc"), "SECDED");
  EXPECT_EQ(memory.at("ecc_corrected"), "5");
  EXPECT_EQ(memory.at("ecc_uncorrected"), "0");
}

}  // namespace
}  // namespace attest::core
