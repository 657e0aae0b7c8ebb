#include "core/isolation/spinning.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace attest::core {
namespace {

TEST(Spinning, IsBoundOnceAndNotWhereAUserHasChosen) {
  unsetenv("OMP_WAIT_POLICY");
  unsetenv("GOMP_SPINCOUNT");
  EXPECT_TRUE(bound_spinning());
  EXPECT_STREQ(std::getenv("GOMP_SPINCOUNT"), "20000");
  EXPECT_FALSE(bound_spinning());
  unsetenv("GOMP_SPINCOUNT");
  setenv("OMP_WAIT_POLICY", "active", 1);
  EXPECT_FALSE(bound_spinning());
  EXPECT_EQ(std::getenv("GOMP_SPINCOUNT"), nullptr);
}

}  // namespace
}  // namespace attest::core
