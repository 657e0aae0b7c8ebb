// The sizes of a problem, from its spec line.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace attest::reports {

/// The words of a spec line behind the operation, by name: "head_dim" -> "64". A word without a
/// value has "given".
using SpecWords = std::map<std::string, std::string, std::less<>>;
SpecWords spec_words(const std::string& spec);

/// The sizes of a problem from its spec line, "1x12x197x64": batch, heads, tokens, channels. Where
/// keys or values have others than queries, both: "1x8/2x16/4096x64". Empty without such sizes.
std::string print_sizes(const std::string& spec);
/// The tokens of a sequence from its spec line: of queries or of keys, whichever are more. 0
/// without such sizes.
int64_t tokens_of(const std::string& spec);
/// The tokens of all sequences of a problem: tokens_of times its batch.
int64_t all_tokens_of(const std::string& spec);
/// The spec line without the sizes that tokens_of returns: problems that agree in it differ in
/// tokens alone. 1,024 queries over many keys are another problem than as many queries as keys.
std::string without_tokens(const std::string& spec);
/// The spec line with these sizes set to `tokens`.
std::string with_tokens(const std::string& spec, int64_t tokens);

}  // namespace attest::reports
