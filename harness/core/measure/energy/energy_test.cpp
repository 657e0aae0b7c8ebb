// Sensors of several machines from recorded files, counters that wrap, sensors that refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/measure/energy/energy_meter.hpp"
#include "core/measure/testing/fake_root.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::vector<std::string> names_of(const std::vector<EnergySensor>& sensors) {
  std::vector<std::string> names;
  for (const EnergySensor& sensor : sensors) names.push_back(sensor.name);
  return names;
}

const EnergySensor& named(const std::vector<EnergySensor>& sensors, const std::string& name) {
  return *std::ranges::find(sensors, name, &EnergySensor::name);
}

TEST(EnergySensors, OfAnX86Server) {
  const FakeRoot root;
  const std::string powercap = "sys/class/powercap/";
  root.write(powercap + "intel-rapl/enabled", "1\n");  // no zone
  root.write(powercap + "intel-rapl:0/name", "package-0\n");
  root.write(powercap + "intel-rapl:0/energy_uj", "65532610987\n");
  root.write(powercap + "intel-rapl:0/max_energy_range_uj", "262143328850\n");
  root.write(powercap + "intel-rapl:0:0/name", "dram\n");
  root.write(powercap + "intel-rapl:0:0/energy_uj", "1500000\n");
  const std::vector<EnergySensor> sensors = find_energy_sensors(root.path(), false);
  EXPECT_THAT(names_of(sensors), ElementsAre("rapl package-0", "rapl dram 0:0"));
  const EnergySensor& package = named(sensors, "rapl package-0");
  EXPECT_EQ(package.covers, "CPU package 0");
  EXPECT_DOUBLE_EQ(package.wraps_joules, 262143.328850);
  EXPECT_DOUBLE_EQ(*package.read().joules, 65532.610987);
  EXPECT_FALSE(package.read().watts);
  EXPECT_EQ(named(sensors, "rapl dram 0:0").covers, "dram of CPU package 0");
}

TEST(EnergySensors, ThatMayNotBeReadHaveAReason) {
  const FakeRoot root;
  root.write("sys/class/powercap/intel-rapl:0/name", "package-0\n");
  std::vector<EnergySensor> sensors = find_energy_sensors(root.path(), false);
  ASSERT_EQ(sensors.size(), 1u);
  EnergyReading reading = sensors[0].read();
  EXPECT_FALSE(reading.joules || reading.watts);
  EXPECT_THAT(reading.refusal, HasSubstr("energy_uj: No such file"));
  root.write("sys/class/powercap/intel-rapl:0/energy_uj", "");
  EXPECT_THAT(sensors[0].read().refusal, HasSubstr("energy_uj: it is empty"));
  root.write("sys/class/powercap/intel-rapl:0/energy_uj", "12 J");
  EXPECT_THAT(sensors[0].read().refusal, HasSubstr("'12 J' is no number"));
  if (geteuid() == 0) return;  // root may read everything
  const auto file = root.path() / "sys/class/powercap/intel-rapl:0/energy_uj";
  std::filesystem::permissions(file, std::filesystem::perms::none);
  EXPECT_THAT(sensors[0].read().refusal, HasSubstr("Permission denied"));
}

void write_channel(const FakeRoot& root, int channel, const std::string& label,
                   const std::string& millivolts, const std::string& milliamperes) {
  const std::string at = "sys/class/hwmon/hwmon3/", number = std::to_string(channel);
  root.write(at + "name", "ina3221\n");
  root.write(at + "in" + number + "_label", label + "\n");
  root.write(at + "in" + number + "_input", millivolts + "\n");
  root.write(at + "curr" + number + "_input", milliamperes + "\n");
}

TEST(EnergySensors, OfAnOrinNano) {
  const FakeRoot root;
  write_channel(root, 1, "VDD_IN", "5000", "1200");
  write_channel(root, 2, "VDD_CPU_GPU_CV", "4992", "250");
  write_channel(root, 3, "NC", "0", "0");
  const std::vector<EnergySensor> sensors = find_energy_sensors(root.path(), false);
  EXPECT_THAT(names_of(sensors), ElementsAre("ina3221 VDD_IN", "ina3221 VDD_CPU_GPU_CV"));
  EXPECT_EQ(sensors[0].covers, "the whole board");
  EXPECT_DOUBLE_EQ(*sensors[0].read().watts, 6);
  EXPECT_FALSE(sensors[0].read().joules);
}

TEST(EnergySensors, AnAgxOrinIsTheSumOfThreeRails) {
  const FakeRoot root;
  write_channel(root, 1, "VDD_GPU_SOC", "10000", "300");
  write_channel(root, 2, "VDD_CPU_CV", "10000", "100");
  write_channel(root, 3, "VIN_SYS_5V0", "5000", "400");
  const std::vector<EnergySensor> sensors = find_energy_sensors(root.path(), false);
  ASSERT_EQ(sensors.size(), 4u);
  EXPECT_EQ(sensors[3].name, "ina3221 total");
  EXPECT_DOUBLE_EQ(*sensors[3].read().watts, 3 + 1 + 2);
  write_channel(root, 2, "VDD_CPU_CV", "10000", "");  // EAGAIN while the rail is off
  EXPECT_FALSE(sensors[3].read().watts) << "a part of a sum is no sum";
  EXPECT_THAT(sensors[3].read().refusal, HasSubstr("curr2_input"));
}

TEST(EnergySensors, ThorsTotalIsInMicrowatts) {
  const FakeRoot root;
  root.write("sys/class/hwmon/hwmon0/name", "ucsi_source_psy\n");  // a USB negotiation, no rail
  root.write("sys/class/hwmon/hwmon0/power1_input", "15000000\n");
  root.write("sys/class/hwmon/hwmon4/name", "ina238\n");
  root.write("sys/class/hwmon/hwmon4/power1_input", "31250000\n");
  const std::vector<EnergySensor> sensors = find_energy_sensors(root.path(), false);
  EXPECT_THAT(names_of(sensors), ElementsAre("ina238"));
  EXPECT_DOUBLE_EQ(*sensors[0].read().watts, 31.25);
}

TEST(EnergySensors, GarbageOfARailIsNoPower) {
  const FakeRoot root;
  write_channel(root, 1, "VDD_IN", "5000", "4294967295");  // -1 without its sign
  const std::vector<EnergySensor> sensors = find_energy_sensors(root.path(), false);
  EXPECT_FALSE(sensors[0].read().watts);
  EXPECT_THAT(sensors[0].read().refusal, HasSubstr("cannot be the current of a rail"));
  write_channel(root, 1, "VDD_IN", "5000000", "1200");  // microvolts
  EXPECT_THAT(sensors[0].read().refusal, HasSubstr("cannot be the voltage of a rail"));
  write_channel(root, 1, "VDD_IN", "5", "1200");  // volts
  EXPECT_THAT(sensors[0].read().refusal, HasSubstr("cannot be the voltage of a rail"));
  write_channel(root, 1, "VDD_IN", "20000", "50000");  // microamperes
  EXPECT_THAT(sensors[0].read().refusal, HasSubstr("1000 W cannot be the power of a rail"));
}

TEST(CountedJoules, AreInterpolated) {
  const std::vector<EnergyPoint> points = {{0, 100}, {1, 110}, {2, 130}};
  EXPECT_DOUBLE_EQ(*counted_joules(points, 0, 2, 0), 30);
  EXPECT_DOUBLE_EQ(*counted_joules(points, 0.5, 1.5, 0), 15);
  EXPECT_DOUBLE_EQ(*counted_joules(points, 1, 1, 0), 0);
  EXPECT_FALSE(counted_joules(points, -0.1, 1, 0)) << "nothing is extrapolated";
  EXPECT_FALSE(counted_joules(points, 1, 2.1, 0));
  EXPECT_FALSE(counted_joules({}, 0, 0, 0));
}

TEST(CountedJoules, WrapAround) {
  const std::vector<EnergyPoint> points = {{0, 90}, {1, 98}, {2, 6}, {3, 99}, {4, 1}};
  EXPECT_DOUBLE_EQ(*counted_joules(points, 0, 4, 100), 8 + 8 + 93 + 2);
  EXPECT_FALSE(counted_joules(points, 0, 4, 0)) << "a counter that fell says nothing";
}

TEST(IntegratedJoules, AreTheAreaBelowThePower) {
  const std::vector<EnergyPoint> points = {{0, 10}, {2, 20}, {4, 20}};
  EXPECT_DOUBLE_EQ(*integrated_joules(points, 0, 4), 30 + 40);
  EXPECT_DOUBLE_EQ(*integrated_joules(points, 1, 3), 17.5 + 20);
  EXPECT_FALSE(integrated_joules(points, 3, 5));
}

// A sensor of 50 W in whole joules and in power, from the clock.
EnergySensor steady(double counter_watts, double power_watts) {
  const auto start = Clock::now();
  return {.name = "steady", .covers = "a test", .wraps_joules = 0, .read = [=]() -> EnergyReading {
            return {counter_watts * seconds_since(start), power_watts, {}};
          }};
}

TEST(EnergyMeter, MeasuresBothWays) {
  EnergyMeter meter({steady(50, 80)}, 0.002);
  const auto begin = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto end = Clock::now();
  const double seconds = std::chrono::duration<double>(end - begin).count();
  const std::vector<EnergyUse> uses = meter.between(begin, end);
  ASSERT_EQ(uses.size(), 1u);
  // A busy machine may stop the thread between a reading and its time.
  EXPECT_NEAR(*uses[0].counted_joules, 50 * seconds, 0.25 * 50 * seconds);
  EXPECT_NEAR(*uses[0].polled_joules, 80 * seconds, 1e-6);
  EXPECT_EQ(uses[0].joules(), uses[0].counted_joules);
  EXPECT_EQ(uses[0].refusal, "");
}

// Twice in the time that is measured.
TEST(EnergyMeter, CountsOnWhereACounterWraps) {
  EnergySensor wrapping = steady(50, 0);
  wrapping.wraps_joules = 6;
  wrapping.read = [count = wrapping.read] {
    return EnergyReading{std::fmod(*count().joules, 6), {}, {}};
  };
  EnergyMeter meter({wrapping}, 0.002);
  const auto begin = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto end = Clock::now();
  const double seconds = std::chrono::duration<double>(end - begin).count();
  EXPECT_NEAR(meter.between(begin, end)[0].counted_joules.value_or(0), 50 * seconds,
              0.25 * 50 * seconds);
}

// A rail that is off answers EAGAIN. What it drew between two answers is not the line from the one
// to the other.
TEST(EnergyMeter, PowerThatWasRefusedIsNotInterpolated) {
  std::atomic<bool> off = false;
  EnergyMeter meter({{.name = "rail",
                      .covers = "a test",
                      .wraps_joules = 0,
                      .read = [&]() -> EnergyReading {
                        if (off) return {{}, {}, "curr1_input: EAGAIN"};
                        return {{}, 5.0, {}};
                      }}},
                    0.002);
  const auto begin = Clock::now();
  off = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  off = false;
  const EnergyUse use = meter.between(begin, Clock::now())[0];
  EXPECT_FALSE(use.joules());
  EXPECT_THAT(use.refusal,
              MatchesRegex("it refused [0-9]+ of [0-9]+ readings: curr1_input: EAGAIN"));
}

TEST(EnergyMeter, OneRefusalAmongManyReadingsIsBridged) {
  std::atomic<int> readings = 0;
  EnergyMeter meter({{.name = "rail",
                      .covers = "a test",
                      .wraps_joules = 0,
                      .read = [&]() -> EnergyReading {
                        if (readings++ == 5) return {{}, {}, "EAGAIN"};
                        return {{}, 5.0, {}};
                      }}},
                    0.002);
  const auto begin = Clock::now();
  while (readings < 30) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto end = Clock::now();
  EXPECT_NEAR(meter.between(begin, end)[0].joules().value_or(0),
              5 * std::chrono::duration<double>(end - begin).count(), 1e-6);
}

TEST(EnergyMeter, ARefusalIsAReasonAndNeverZero) {
  EnergyMeter meter({{.name = "mute",
                      .covers = "a test",
                      .wraps_joules = 0,
                      .read = [] { return EnergyReading{{}, {}, "not supported"}; }},
                     {.name = "falling", .covers = "a test", .wraps_joules = 0, .read = [] {
                        static std::atomic<double> joules = 100;
                        return EnergyReading{joules = joules - 1, {}, {}};
                      }}});
  const auto begin = Clock::now();
  const std::vector<EnergyUse> uses = meter.between(begin, Clock::now());
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_FALSE(uses[0].joules());
  EXPECT_EQ(uses[0].refusal, "not supported");
  EXPECT_FALSE(uses[1].joules());
  EXPECT_EQ(uses[1].refusal, "its counter went back");
}

TEST(EnergyMeter, WithoutSensorsSaysNothing) {
  EnergyMeter meter({});
  EXPECT_TRUE(meter.between(Clock::now(), Clock::now()).empty());
}

}  // namespace
}  // namespace attest::core
