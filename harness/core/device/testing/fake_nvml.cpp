// A management library of one device, at the address of the fake driver's. Its energy counter rises
// by 5 J at each reading.
//
// ATTEST_FAKE_NVML says how it differs: "hot": clocks are held down; "poor": it knows clocks alone;
// "refuses": it starts and then answers nothing, as that of a Jetson; "warms": the device draws
// 100 W, and 100 W more each second, which its counter counts; the power that it shows is less by
// 1.6 times, as on some cards.
#include <chrono>
#include <cstdlib>
#include <string>

#define FAKE extern "C"

namespace {

constexpr int kOk = 0, kInvalid = 2, kNotSupported = 3;

bool wants(const char* word) {
  const char* given = std::getenv("ATTEST_FAKE_NVML");
  return given && std::string(given) == word;
}

bool knows_no_more_than_clocks() { return wants("poor") || wants("refuses"); }

// Since the first question.
double seconds() {
  using Clock = std::chrono::steady_clock;
  static const Clock::time_point start = Clock::now();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class Number>
int tell(Number* where, Number value) {
  if (knows_no_more_than_clocks()) return kNotSupported;
  *where = value;
  return kOk;
}

}  // namespace

FAKE int nvmlInit_v2() { return kOk; }
FAKE int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  static int one;
  *device = &one;
  return std::string(bus_id) == "0000:17:00.0" ? kOk : kInvalid;
}
FAKE int nvmlDeviceGetClockInfo(void*, int type, unsigned* mhz) {
  if (wants("refuses")) return kNotSupported;
  *mhz = type == 1 ? 1980 : 3201;
  return type == 1 || type == 2 ? kOk : kInvalid;
}
FAKE int nvmlDeviceGetTemperature(void*, int sensor, unsigned* celsius) {
  return sensor == 0 ? tell(celsius, 41u) : kInvalid;
}
FAKE int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  if (wants("warms")) return tell(milliwatts, unsigned(1e3 * (100 + 100 * seconds()) / 1.6));
  return tell(milliwatts, 120500u);
}
FAKE int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* millijoules) {
  if (wants("warms")) {
    const double s = seconds();
    return tell(millijoules, static_cast<unsigned long long>(1e3 * (100 * s + 50 * s * s)));
  }
  static unsigned long long total = 1000;
  return tell(millijoules, total += 5000);
}
FAKE int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* bits) {
  return tell(bits, wants("hot") ? 0x25ull : 0x01ull);  // idle, power cap, heat
}
FAKE int nvmlDeviceGetEccMode(void*, unsigned* now, unsigned* after_reset) {
  if (knows_no_more_than_clocks()) return kNotSupported;
  *now = 1;
  *after_reset = 0;
  return kOk;
}
