// The line that repeats a record: what every command puts into it.
#pragma once
#include <string>

namespace attest::cli {

struct Session;

/// A word for a shell, in quotes where it needs them.
std::string shell_word(const std::string& word);
/// The session's own options as words of a command line: " --plugin mine.so --threads 2". No folder
/// of this machine is in it.
std::string repro_options(const Session& session);

}  // namespace attest::cli
