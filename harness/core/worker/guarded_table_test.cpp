// The guarded table passes calls and answers on, counts them, and stops exceptions.
#include "core/worker/guarded_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace attest::core {
namespace {

/// A plugin's functions, and what they have seen.
struct Seen {
  static inline StatusPage* page = nullptr;
  static inline uint64_t pulse = 0, destroyed = 0;
  static inline void* plan = nullptr;

  static attest_status query(const attest_problem*, attest_support* support) {
    pulse = page->pulse;
    support->workspace_bytes = 40;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return ATTEST_UNSUPPORTED;
  }
  static attest_status create(const attest_problem*, void** made) {
    *made = page;
    return ATTEST_OK;
  }
  static attest_status run(void* given, void* const*, void*, void*) {
    pulse = page->pulse;
    plan = given;
    return ATTEST_OK;
  }
  static void destroy(void*) { ++destroyed; }
  static const char* last_error() { return "words of the plugin"; }
};

class GuardedTable : public ::testing::Test {
 protected:
  GuardedTable() {
    Seen::page = &page_;
    Seen::pulse = Seen::destroyed = 0;
    Seen::plan = nullptr;
    watch_.begin(0, 1);
    table_.query = Seen::query;
    table_.create = Seen::create;
    table_.run = Seen::run;
    table_.destroy = Seen::destroy;
    table_.last_error = Seen::last_error;
  }

  StatusPage page_{};
  Watch watch_;
  attest_impl table_{};
};

TEST_F(GuardedTable, PassesCallsOnAndCountsThem) {
  page_.runs = 7;  // of an earlier request
  const attest_impl outside = guarded(table_, page_, watch_);
  EXPECT_EQ(page_.runs, 0u);
  attest_support support{};
  EXPECT_EQ(outside.query(nullptr, &support), ATTEST_UNSUPPORTED);
  EXPECT_EQ(support.workspace_bytes, 40u);
  EXPECT_EQ(Seen::pulse, 1u) << "odd in the plugin";
  EXPECT_EQ(page_.pulse, 2u);
  EXPECT_GE(page_.plan_ns, 2e6);

  void* plan = nullptr;
  EXPECT_EQ(outside.create(nullptr, &plan), ATTEST_OK);
  const uint64_t plan_ns = page_.plan_ns;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outside.run(plan, nullptr, nullptr, nullptr), ATTEST_OK);
  EXPECT_EQ(Seen::plan, &page_);
  EXPECT_EQ(page_.runs, 3u);
  EXPECT_EQ(page_.plan_ns, plan_ns) << "runs are timed by their caller";
  EXPECT_EQ(Seen::pulse, 9u);
  EXPECT_STREQ(outside.last_error(), "words of the plugin");
  outside.destroy(plan);
  EXPECT_EQ(Seen::destroyed, 1u);
  EXPECT_EQ(page_.pulse, 14u);
  EXPECT_EQ(escaped_exception(), "");
}

TEST_F(GuardedTable, StopsExceptionsAndSaysWhichCallThrew) {
  table_.run = [](void*, void* const*, void*, void*) -> attest_status {
    throw std::runtime_error("bad size");
  };
  table_.query = [](const attest_problem*, attest_support*) -> attest_status { throw 3; };
  table_.destroy = [](void*) { throw std::runtime_error("twice"); };
  table_.last_error = []() -> const char* { throw std::runtime_error("no words"); };
  const attest_impl outside = guarded(table_, page_, watch_);
  void* plan = nullptr;
  ASSERT_EQ(outside.create(nullptr, &plan), ATTEST_OK);
  EXPECT_EQ(outside.run(plan, nullptr, nullptr, nullptr), ATTEST_RUNTIME_ERROR);
  EXPECT_EQ(escaped_exception(), "run threw: bad size");
  EXPECT_EQ(page_.pulse % 2, 0u) << "the call has ended";
  EXPECT_EQ(outside.query(nullptr, nullptr), ATTEST_RUNTIME_ERROR);
  EXPECT_EQ(escaped_exception(), "query threw something that is no std::exception");
  outside.destroy(plan);
  EXPECT_EQ(escaped_exception(), "destroy threw: twice");
  EXPECT_EQ(outside.last_error(), nullptr);
  EXPECT_EQ(escaped_exception(), "last_error threw: no words");
  guarded(table_, page_, watch_);
  EXPECT_EQ(escaped_exception(), "") << "of another table";
}

// What create leaves is the plugin's own; what runs change is found.
TEST_F(GuardedTable, LetsTheWatchSeeTheRunsAlone) {
  static constexpr auto kRound = [](int mode) { std::fesetround(mode); };
  table_.create = [](const attest_problem*, void**) -> attest_status {
    kRound(FE_UPWARD);
    return ATTEST_OK;
  };
  const attest_impl quiet = guarded(table_, page_, watch_);
  void* plan = nullptr;
  quiet.create(nullptr, &plan);
  quiet.run(plan, nullptr, nullptr, nullptr);
  quiet.destroy(plan);
  EXPECT_TRUE(watch_.findings().empty());
  kRound(FE_TONEAREST);

  Watch other;
  other.begin(0, 1);
  table_.create = Seen::create;
  table_.run = [](void*, void* const*, void*, void*) -> attest_status {
    kRound(FE_DOWNWARD);
    return ATTEST_OK;
  };
  const attest_impl loud = guarded(table_, page_, other);
  loud.create(nullptr, &plan);
  loud.run(plan, nullptr, nullptr, nullptr);
  loud.destroy(plan);
  ASSERT_EQ(other.findings().size(), 1u);
  EXPECT_THAT(other.findings()[0].reason,
              ::testing::HasSubstr("run changed the floating-point mode of its thread"));
  EXPECT_TRUE(other.notes().empty());
  EXPECT_EQ(std::fegetround(), FE_TONEAREST) << "modes are put back";
}

}  // namespace
}  // namespace attest::core
