#include "core/problem/case.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/problem/spec.hpp"

namespace attest::core {

bool Case::sized_by_tokens() const {
  return std::ranges::any_of(words, [](const Word& word) { return word.value == kTokensValue; });
}

Problem Case::problem(DType dtype, int64_t token_count) const {
  std::string line = fmt::format("{} dtype={}", operation, dtype_name(dtype));
  for (const Word& word : words) {
    line += fmt::format(" {}", word.key);
    if (word.value == kTokensValue)
      line += fmt::format("={}", token_count);
    else if (!word.value.empty())
      line += fmt::format("={}", word.value);
  }
  return parse_problem(line);
}

}  // namespace attest::core
