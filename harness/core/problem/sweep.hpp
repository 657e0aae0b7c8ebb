// Sweeps: one problem at many sizes.
//
//   for (const Sweep& sweep : sweeps_of(scaling_of_spec("softmax num_heads=8 head_dim=64",
//                                                       {"seq_len_q=1k..256k"})))
//     for (int64_t value : sweep.values) run(sweep.at(ATTEST_F32, value));
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem/case.hpp"

namespace attest::core {

/// For messages and help texts: "must be" is to precede them.
inline constexpr std::string_view kRangeWords =
    "a range such as 1k..256k, one with its own step such as 1k..256k:2, or values such as "
    "1k,3k,8k";

/// The values of a range, in ascending order: "1k..256k" has a point at each factor of `step` and
/// its end, "1k..256k:2" one at each factor of 2, "1k,3k,8k" those. `n`, if above 0, is what the
/// letter n stands for: "1..n". Nothing if the text is not a range of 1 to kMostSweepValues values
/// from 1 to 2^31.
std::optional<std::vector<int64_t>> parse_range(std::string_view text, double step, int64_t n = 0);
inline constexpr size_t kMostSweepValues = 64;

/// A problem whose field `over` grows while all else stays.
struct Sweep {
  Scaling of;
  std::string over;
  std::vector<int64_t> values;

  /// The problem at one size. Throws Error if it is invalid there.
  Problem at(DType dtype, int64_t value) const;
  /// The same problem with the fewest tokens, whose time is mostly launch cost. Nothing if it would
  /// not be much smaller than the smallest size of the sweep.
  std::optional<Problem> smallest(DType dtype) const;
  /// The size in the middle between two others, on a logarithmic scale; nothing if there is none
  /// for which the problem is valid.
  std::optional<int64_t> between(int64_t low, int64_t high) const;
};

/// The sweeps of a section: one for each word of `over`. All of their problems are checked. Throws
/// Error that names the word and says what would be right.
std::vector<Sweep> sweeps_of(const Scaling& scaling);

/// A section from a spec line. The line need not have the fields that grow. Its name is the
/// operation with the problem's features: "softmax+window". `dtypes`: "f32", "f16" ...; empty: the
/// line's. Throws Error.
Scaling scaling_of_spec(std::string_view spec, const std::vector<std::string>& over,
                        const std::vector<std::string>& dtypes = {});

/// Gives the words that lack a field of `over` the first size of that field. Throws Error as
/// sweeps_of does.
void add_first_sizes(const Operation& operation, const std::vector<std::string>& over,
                     std::vector<Word>& words);

}  // namespace attest::core
