// Reads small files of /proc and /sys as text. An absent or unreadable file is empty, not an error.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace attest::core {

/// The folder in which a machine's proc, sys and etc lie: "/", or what the variable
/// ATTEST_MACHINE_ROOT names. Tests let it name a made-up machine.
std::filesystem::path machine_root();
/// Whether it is not this machine's.
bool machine_is_made_up();

/// The whole file without its final newlines, blanks and NULs (device-tree strings end in NUL).
std::string read_text(const std::filesystem::path& path);
/// The first number of the file.
std::optional<double> read_number(const std::filesystem::path& path);
/// The value of the first line "key<separator>value" of `text`, without surrounding blanks and
/// quotes.
std::string value_of(const std::string& text, const std::string& key, char separator);
/// Blank-separated words.
std::vector<std::string> words_of(const std::string& text);
/// "always [madvise] never" -> "madvise".
std::string chosen_of(const std::string& text);
/// Whether the name of a file or folder, without its path, begins so.
bool begins_with(const std::filesystem::path& path, const std::string& prefix);
/// Entries of a folder, sorted by name.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

}  // namespace attest::core
