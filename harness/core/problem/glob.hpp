// Names chosen by globs: what every filter of cases, dtypes and implementations does.
#pragma once
#include <string>
#include <vector>

namespace attest::core {

/// Whether `name` matches any of the globs (fnmatch), or there are none.
bool matches(const std::string& name, const std::vector<std::string>& globs);
/// Throws Error where one of the globs matches none of `names`: "--impl flsh_*: matches none of:
/// ...". `what` begins the message.
void require_matches(const std::string& what, const std::vector<std::string>& globs,
                     const std::vector<std::string>& names);

}  // namespace attest::core
