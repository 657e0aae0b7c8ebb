// Finds which builds of an implementation ran in which results files. Each side of a comparison
// must have one build.
#pragma once
#include <string>
#include <vector>

#include "core/record/results.hpp"

namespace attest::reports {

/// The files in which one build ran.
struct BuildFiles {
  std::string hashes;              // of the plugins
  std::vector<std::string> paths;  // in the given order
};

/// An implementation with more than one build in `side`; empty: there is none.
std::string mixed_implementation(const std::vector<core::Results>& side);
/// Groups files by their build of `impl`, in the order in which the builds first occur. Files
/// without a record of `impl` are left out. A file with two builds forms its own group.
std::vector<BuildFiles> by_build(const std::vector<core::Results>& files, const std::string& impl);

/// Throws Error if one side has several builds of an implementation. The message names the builds
/// and files. If there are two builds in all, it gives the command that compares them.
void require_one_build(const std::vector<core::Results>& before,
                       const std::vector<core::Results>& after);

}  // namespace attest::reports
