#include "core/inputs/golden_store.hpp"

#include <gtest/gtest.h>

#include "core/problem/spec.hpp"

namespace attest::core {
namespace {

/// Says who made it, and counts how often it computes expectations.
class NamedGolden : public Golden {
 public:
  NamedGolden(std::string device, int& expected)
      : device_(std::move(device)), expected_(expected) {}
  void expect(const Arithmetic&, const Sink&) const override {
    ++expected_;
    if (device_ == "wrong") throw GoldenRefused("o[0] is 1, 2 on the host");
  }
  void confirm(const Arithmetic&, int64_t row) const override {
    if (device_ == "wrong in row 3" && row == 3) throw GoldenRefused("row 3");
  }
  std::string method() const override { return "float64"; }
  std::string device() const override { return device_; }

 private:
  std::string device_;
  int& expected_;
};

class NamedDevice : public GoldenDevice {
 public:
  explicit NamedDevice(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  double multiply_adds_per_s() const override { return 1e12; }
  double worthwhile_multiply_adds() const override { return 0; }
  std::unique_ptr<GoldenQueue> open() const override { throw Error("has no memory"); }

 private:
  std::string name_;
};

/// Counts what it makes, and the expectations that these goldens compute.
struct Maker {
  int made = 0, expected = 0;
  KeptGolden::Make make() {
    return [this](const GoldenDevice* device) {
      ++made;
      if (device && device->name() == "absent") throw GoldenRefused("it has gone");
      return std::make_unique<NamedGolden>(device ? device->name() : "", expected);
    };
  }
};

std::string device_of(KeptGolden& kept) {
  return kept.use([](const Golden& golden) {
    golden.expect({}, [](const Expected&) {});
    golden.confirm({}, 3);
    return golden.device();
  });
}

TEST(KeptGolden, IsMadeOnceAndByTheDevice) {
  Maker maker;
  const NamedDevice device("right");
  KeptGolden kept(maker.make(), &device);
  EXPECT_EQ(maker.made, 0);
  EXPECT_EQ(device_of(kept), "right");
  EXPECT_EQ(device_of(kept), "right");
  EXPECT_EQ(maker.made, 1);
  EXPECT_EQ(maker.expected, 1);
  EXPECT_EQ(kept.remark(), "");
  EXPECT_GT(kept.seconds(), 0);
}

// Wherever the device is found wrong: as it is made, as it is used, in a row that decides.
TEST(KeptGolden, IsReplacedByTheHostsForGood) {
  for (const char* name : {"absent", "wrong", "wrong in row 3"}) {
    Maker maker;
    const NamedDevice device(name);
    KeptGolden kept(maker.make(), &device);
    EXPECT_EQ(device_of(kept), "") << name;
    EXPECT_EQ(maker.made, 2) << name;
    EXPECT_EQ(kept.remark().find("the golden is the host's; that of " + std::string(name) +
                                 " was refused: "),
              0u)
        << kept.remark();
    EXPECT_EQ(device_of(kept), "") << name;
    EXPECT_EQ(maker.made, 2) << name;
  }
}

TEST(KeptGolden, OfTheHostIsNotReplaced) {
  Maker maker;
  KeptGolden kept(maker.make(), nullptr);
  EXPECT_THROW(kept.use([](const Golden&) { throw GoldenRefused("by a bug"); }), GoldenRefused);
  EXPECT_EQ(maker.made, 1);
}

TEST(GoldenStore, KeepsOneForEachInputs) {
  const Problem problem = parse_problem("softmax num_heads=1 seq_len_q=8 seq_len_kv=8 head_dim=8");
  const PreparedInputs first(problem, {"random", 1}, nullptr);
  const PreparedInputs second(problem, {"random", 2}, nullptr);
  GoldenStore store(nullptr);
  KeptGolden& kept = store.of(first);
  const auto address = [](const Golden& golden) { return &golden; };
  EXPECT_EQ(&store.of(first), &kept);
  EXPECT_EQ(store.of(first).use(address), kept.use(address));
  EXPECT_NE(store.of(second).use(address), kept.use(address));
}

// Of any inputs the device is asked first; here it fails, and the host makes the golden.
TEST(GoldenStore, AsksItsDevice) {
  const Problem problem =
      parse_problem("softmax num_heads=1 seq_len_q=64 seq_len_kv=64 head_dim=8");
  const PreparedInputs inputs(problem, {"random", 1}, nullptr);
  const NamedDevice device("without memory");
  GoldenStore store(&device);
  EXPECT_EQ(device_of(store.of(inputs)), "");
  EXPECT_NE(store.of(inputs).remark().find("has no memory"), std::string::npos)
      << store.of(inputs).remark();
}

}  // namespace
}  // namespace attest::core
