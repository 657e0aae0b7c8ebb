// "Did you mean ...?": finds the known word nearest to an unknown one.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace attest::core {

/// The fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b);
/// ", did you mean 'head_dim'?" for 'head_dims'; "" if no known word is near and none has `word`
/// as its first or last part ("softmax_scale" for "scale"). Only the first 64 characters are
/// compared.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace attest::core
