// Bad input or environment: the one exception type of the core, caught once in main.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace attest::core {

/// Ends the work at hand. The message is one line and names the file, the key and what would be
/// right, e.g. `suites/x.json: unknown key 'head_dims', did you mean 'head_dim'?`. What an
/// implementation does is never an Error: it is a verdict.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

/// Foreign text in quotes, for a message of one line: at most 60 characters, others than printable
/// ASCII as '?'.
std::string in_quotes(std::string_view text);

}  // namespace attest::core
