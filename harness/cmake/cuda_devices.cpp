// Prints the compute capabilities, times 10, of this machine's CUDA devices, as a CMake list
// without duplicates: "87", "75;90"; nothing where there are none. Built and run while the project
// is configured. It asks the driver, so that it needs no toolkit; ATTEST_CUDA_DRIVER names another,
// as for attest.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <set>

namespace {

constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR

template <class Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

int main() {
  const char* given = std::getenv("ATTEST_CUDA_DRIVER");
  void* driver = dlopen(given ? given : "libcuda.so.1", RTLD_NOW);
  if (!driver) return 0;
  const auto init = find<int(unsigned)>(driver, "cuInit");
  const auto count_devices = find<int(int*)>(driver, "cuDeviceGetCount");
  const auto get_device = find<int(int*, int)>(driver, "cuDeviceGet");
  const auto get_attribute = find<int(int*, int, int)>(driver, "cuDeviceGetAttribute");
  int count = 0;
  if (!init || !count_devices || !get_device || !get_attribute || init(0) != 0 ||
      count_devices(&count) != 0)
    return 0;
  std::set<int> capabilities;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int device = 0, major = 0, minor = 0;
    if (get_device(&device, ordinal) == 0 && get_attribute(&major, kMajor, device) == 0 &&
        get_attribute(&minor, kMinor, device) == 0)
      capabilities.insert(10 * major + minor);
  }
  const char* separator = "";
  for (const int capability : capabilities) {
    std::printf("%s%d", separator, capability);
    separator = ";";
  }
}
