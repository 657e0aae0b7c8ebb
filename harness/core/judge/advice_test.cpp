// Every reason code has advice that people can act on.
#include "core/judge/advice.hpp"

#include <gtest/gtest.h>

namespace attest::core {
namespace {

void expect_sentence(std::string_view text, std::string_view code) {
  EXPECT_FALSE(text.empty()) << code;
  EXPECT_TRUE(text.ends_with('.')) << code << ": " << text;
  EXPECT_EQ(text.find("  "), text.npos) << code << ": " << text;
}

TEST(Advice, IsThereForEveryCode) {
  EXPECT_TRUE(advice(ReasonCode::kPass).causes.empty());
  EXPECT_EQ(advice(ReasonCode::kPass).next, "");
  for (const Reason& reason : kReasons) {
    if (reason.code == ReasonCode::kPass) continue;
    const Advice found = advice(reason.code);
    EXPECT_FALSE(found.causes.empty()) << reason.name;
    for (const std::string_view cause : found.causes) expect_sentence(cause, reason.name);
    expect_sentence(found.next, reason.name);
  }
}

}  // namespace
}  // namespace attest::core
