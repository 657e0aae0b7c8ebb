#include "core/datasheets/board_modules.hpp"

#include <algorithm>

namespace attest::core {

const BoardModule* find_module(const std::string& compatible) {
  for (size_t begin = 0; begin < compatible.size();) {
    const size_t end = std::min(compatible.find('\0', begin), compatible.size());
    const std::string_view one = std::string_view(compatible).substr(begin, end - begin);
    for (const BoardModule& module :
         kBoardModules)  // "nvidia,p3737-0000+p3701-0005": carrier and module
      if (one.starts_with("nvidia,") && one.ends_with(module.part)) return &module;
    begin = end + 1;
  }
  return nullptr;
}

}  // namespace attest::core
