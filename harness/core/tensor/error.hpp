// Bad input or environment: the exceptions of the core, caught once in main.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace attest::core {

/// Ends the command. The message is one line that names the file and key and says what would be
/// right, e.g. `suites/x.json: unknown key 'head_dims', did you mean 'head_dim'?`. What an
/// implementation does is never an Error; it becomes a verdict.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

/// Ends the command because the machine or the output fails, not the user's arguments: exit code 4.
class MachineError : public Error {
 public:
  using Error::Error;
};

/// Text of a user or a file in quotes, for a message of one line: at most 60 characters, with '?'
/// for those that are not printable ASCII.
std::string in_quotes(std::string_view text);

}  // namespace attest::core
