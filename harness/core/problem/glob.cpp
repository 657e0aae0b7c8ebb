#include "core/problem/glob.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {

namespace {

bool matches_one(const std::string& name, const std::string& glob) {
  return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
}

}  // namespace

bool matches(const std::string& name, const std::vector<std::string>& globs) {
  return globs.empty() || std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
           return matches_one(name, glob);
         });
}

namespace {

// The names as a message lists them, each once.
std::vector<std::string> listed(const std::vector<std::string>& names) {
  std::vector<std::string> once;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool comes_again = i + 1 < names.size() && names[i + 1].ends_with("/" + names[i]);
    if (!comes_again && std::ranges::find(once, names[i]) == once.end()) once.push_back(names[i]);
  }
  return once;
}

// ", did you mean 'vit_ti/self'?" for 'vit_ti' and for 'vit_t*x'. Of several names that begin so,
// the shortest is meant; else a name that is near, or that has the word in it.
std::string hint(std::string_view glob, const std::vector<std::string>& names) {
  std::string word(glob);
  std::erase(word, '*');
  if (word.empty()) return "";
  const auto shortest = [&](const auto& fits) {
    const std::string* least = nullptr;
    for (const std::string& name : names)
      if (fits(name) && (!least || name.size() < least->size())) least = &name;
    return least ? fmt::format(", did you mean '{}'?", *least) : "";
  };
  std::string text = shortest([&](const std::string& name) { return name.starts_with(word); });
  if (text.empty()) text = did_you_mean(word, names);
  if (text.empty())
    text = shortest([&](const std::string& name) { return name.find(word) != std::string::npos; });
  return text;
}

}  // namespace

void require_matches(const std::string& what, const std::vector<std::string>& globs,
                     const std::vector<std::string>& names) {
  constexpr size_t kShown = 20;
  for (const std::string& glob : globs)
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& name) { return matches_one(name, glob); })) {
      const std::vector<std::string> known = listed(names);
      const size_t shown = std::min(known.size(), kShown);
      throw Error(
          fmt::format("{} {}: matches none of: {}{}{}", what, glob,
                      fmt::join(known.begin(), known.begin() + std::ptrdiff_t(shown), ", "),
                      known.size() > shown ? fmt::format(" and {} more", known.size() - shown) : "",
                      hint(glob, names)));
    }
}

}  // namespace attest::core
