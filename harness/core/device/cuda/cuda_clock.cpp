#include "core/device/cuda/cuda_clock.hpp"

#include <algorithm>
#include <vector>

namespace attest::core {
namespace {

constexpr uint32_t kRoom = 512;  // multiprocessors by number; the largest devices have some 150
constexpr uint64_t kLeast_ns = 100'000;
constexpr double kHighest_mhz = 10'000;  // more is a counter that was set back

constexpr char kPtx[] =
#include "core/device/cuda/clock_stamps.ptx.inc"
    ;

}  // namespace

const char* clock_stamps_ptx() { return kPtx; }

double clock_mhz(std::span<const ClockStamp> first, std::span<const ClockStamp> second) {
  std::vector<double> mhz;
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    const ClockStamp &one = first[i], &other = second[i];
    if (one.ns == 0 || other.ns < one.ns + kLeast_ns || other.cycles <= one.cycles) continue;
    mhz.push_back(double(other.cycles - one.cycles) * 1e3 / double(other.ns - one.ns));
    if (mhz.back() > kHighest_mhz) mhz.pop_back();
  }
  if (mhz.empty()) return 0;
  std::nth_element(mhz.begin(), mhz.begin() + std::ptrdiff_t(mhz.size() / 2), mhz.end());
  return mhz[mhz.size() / 2];
}

CudaClock::CudaClock(Device& device, const CudaStream& stream, int multiprocessors)
    : device_(device),
      stream_(stream),
      multiprocessors_(multiprocessors),
      stamps_(device, 2 * kRoom * sizeof(ClockStamp)) {
  try {
    load();
  } catch (const DeviceError& error) {
    missing_ = error.what();
  }
}

CudaClock::~CudaClock() {
  if (module_) cuda_driver().module_unload(module_);
}

void CudaClock::load() {
  cuda_check(cuda_driver().module_load(&module_, kPtx), "cuModuleLoadData");
  cuda_check(cuda_driver().module_function(&kernel_, module_, "attest_clock_stamps"),
             "cuModuleGetFunction");
}

// Twice as many blocks as multiprocessors, so that each gets one.
void CudaClock::read(bool end) {
  if (!missing_.empty()) return;
  if (!end) device_.fill(stamps_.data(), 0, 2 * kRoom * sizeof(ClockStamp));
  auto address =
      reinterpret_cast<CudaAddress>(stamps_.data()) + (end ? kRoom * sizeof(ClockStamp) : 0);
  uint32_t room = kRoom;
  void* parameters[] = {&address, &room};
  cuda_check(cuda_driver().launch(kernel_, unsigned(2 * multiprocessors_), 1, 1, 1, 1, 1, 0,
                                  stream_.handle(), parameters, nullptr),
             "cuLaunchKernel");
}

double CudaClock::mhz() {
  if (!missing_.empty()) return 0;
  std::vector<ClockStamp> stamps(2 * kRoom);
  device_.copy_out(stamps.data(), stamps_.data(), stamps.size() * sizeof(ClockStamp));
  stream_.synchronize();
  const std::span<const ClockStamp> all(stamps);
  return clock_mhz(all.first(kRoom), all.last(kRoom));
}

}  // namespace attest::core
