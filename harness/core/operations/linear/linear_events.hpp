// Events of linear attention: situations in a kernel that walks over tiles of keys, sums a state
// and divides by a normaliser, in which a bug can show. They are counted from the bytes of the
// inputs, not from the fill, in a sample of the judged rows.
//
// Tiles have T = 16, 32, 64, 128 or 256 keys and count from the first key of a sequence.
//
// tile/T/first, /second, /middle, /last, /tail
//     An output would move by what no rounding explains if that tile of keys were left out. A full
//     tile at the end is "last", a short one "tail".
// normaliser/eps
//     An output would move by what its own rounding does not hide if eps were left out.
// normaliser/65504
//     The normaliser of a row is at least 65,504, more than f16 holds.
// phi/exp, phi/linear, phi/both
//     A twentieth of a row's normaliser comes from channels of keys below -1/2, where phi is exp,
//     or from channels above 1/2, where phi is x + 1, or from each of them in one row.
// phi/faint
//     Nine tenths of it come from channels of keys below -4.
// keys/few
//     Of at least 48 keys that a row counts, half have 99 % of its normaliser.
// cancels
//     The output of a row of at least eight keys, over all channels, is less than a third of the
//     root of the sum of (weight times value)^2.
// nan/q
//     A query that counts has a NaN, and another one of its head has none.
// nan/k
//     A key that counts has a NaN, and the keys of another head have none.
// nan/v/first, /middle, /last
//     In some channel of V exactly one key has a NaN, and some other channel has no NaN. It is the
//     first key that counts, a key in the middle, or the last key that counts.
// hidden/first, /last, /single
//     The mask hides the first key, the last key, or one key between two keys that count.
// hidden/T
//     A tile is wholly hidden, and its sequence has keys that count.
// hidden/query
//     A query is hidden, and another one of its sequence counts.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

/// Operation::events.
std::vector<NumericEvent> linear_events(const Problem& problem);
/// Operation::count_events.
std::set<std::string> count_linear_events(const Problem& problem, const Tensors& inputs,
                                          const std::vector<bool>& judged);

}  // namespace attest::core
