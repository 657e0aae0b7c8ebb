// Which builds ran in which files: one side of a comparison is one build.
#pragma once
#include <string>
#include <vector>

#include "core/record/results.hpp"

namespace attest::reports {

/// Files of one build of the implementations in question.
struct BuildFiles {
  std::string hashes;              // of their libraries
  std::vector<std::string> paths;  // in the order in which they were given
};

/// An implementation of which `side` has more than one build; empty: of none.
std::string mixed_implementation(const std::vector<core::Results>& side);
/// Files by their builds of that implementation, in the order in which builds first occur. A file
/// that has no record of it is left out; one that has two builds is in a group of its own.
std::vector<BuildFiles> by_build(const std::vector<core::Results>& files, const std::string& impl);

/// Throws Error where one side has several builds of an implementation: which, in which files, and,
/// of two builds in all, the command that compares them.
void require_one_build(const std::vector<core::Results>& before,
                       const std::vector<core::Results>& after);

}  // namespace attest::reports
