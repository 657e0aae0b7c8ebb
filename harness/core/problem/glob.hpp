// Chooses names by globs. All filters of cases, dtypes and implementations use this.
#pragma once
#include <string>
#include <vector>

namespace attest::core {

/// Whether `name` matches any of the globs (fnmatch). True if there are no globs.
bool matches(const std::string& name, const std::vector<std::string>& globs);
/// Throws Error if a glob matches none of `names`: "--impl flsh_*: matches none of: ...". `what`
/// begins the message. It leaves out a name that comes again right behind it, with its suite:
/// "a/self", "vit/a/self". A name that may be meant stands at its end.
void require_matches(const std::string& what, const std::vector<std::string>& globs,
                     const std::vector<std::string>& names);

}  // namespace attest::core
