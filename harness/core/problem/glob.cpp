#include "core/problem/glob.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "core/tensor/error.hpp"

namespace attest::core {

bool matches(const std::string& name, const std::vector<std::string>& globs) {
  return globs.empty() || std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
           return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
         });
}

void require_matches(const std::string& what, const std::vector<std::string>& globs,
                     const std::vector<std::string>& names) {
  constexpr size_t kShown = 20;
  for (const std::string& glob : globs)
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& name) { return matches(name, {glob}); })) {
      const size_t shown = std::min(names.size(), kShown);
      throw Error(fmt::format(
          "{} {}: matches none of: {}{}", what, glob,
          fmt::join(names.begin(), names.begin() + std::ptrdiff_t(shown), ", "),
          names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : ""));
    }
}

}  // namespace attest::core
