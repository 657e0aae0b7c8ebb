// "Did you mean ...?": the known word nearest to one that is not known.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace attest::core {

/// Fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b);
/// ", did you mean 'head_dim'?" for 'head_dims'; "" where no known word is near. Only the first 64
/// characters count.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace attest::core
