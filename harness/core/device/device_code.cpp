#include "core/device/device_code.hpp"

#include <map>
#include <mutex>

#include "abi/attest.h"
#include "core/device/cuda/cuda_code.hpp"
#include "core/device/cuda/cuda_device.hpp"
#include "core/device/cuda/cuda_driver.hpp"

namespace attest::core {

std::string device_code_missing(const std::filesystem::path& plugin, int32_t device) {
  if (device != ATTEST_CUDA || !cuda_missing().empty()) return {};
  static std::mutex mutex;
  static std::map<std::filesystem::path, std::string> known;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(plugin);
  if (is_new) at->second = cuda_code_missing(plugin, read_cuda_facts().architecture);
  return at->second;
}

}  // namespace attest::core
