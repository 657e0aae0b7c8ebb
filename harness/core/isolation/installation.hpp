// Where attest's own files are: beside the program, or the shared library, that this code was
// linked into.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace attest::core {

/// The file that this code runs from: the program, or a shared library that somebody else's program
/// has loaded.
std::filesystem::path own_binary();
/// The folder that has bin, lib, libexec, share (or, of a build tree, bin and plugins) in it.
std::filesystem::path own_prefix();
/// The suites of the installation, of the source tree, or of the build tree, by name.
std::map<std::string, std::filesystem::path> find_suites();
/// A file as given, or the suite of that name in the installation or the source tree. Throws Error
/// that lists the known suites.
std::filesystem::path find_suite(const std::string& name);

/// The plugins beside this program: ../plugins of a build tree, ../lib/attest/plugins of an
/// installation; then the files and folders of $ATTEST_PLUGIN_PATH (separated by colons). Sorted by
/// name, each file once.
std::vector<std::filesystem::path> find_plugins();

}  // namespace attest::core
