#include "reports/words/titles.hpp"

#include <fmt/format.h>

#include "reports/words/escape.hpp"
#include "reports/words/sizes.hpp"

namespace attest::reports {

std::string case_title(const core::Record& r) {
  return printable(
      fmt::format("{}{}{} {}", r.suite, r.suite.empty() ? "" : "/", r.case_name, r.dtype));
}

std::string case_heading(const core::Record& r) {
  const std::string sizes = print_sizes(r.spec);
  return case_title(r) + (sizes.empty() ? "" : "  ") + sizes;
}

}  // namespace attest::reports
