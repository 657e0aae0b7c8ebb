// Sizes and times as people write them: "4k" tokens, "50ms", "1GiB". The command line, spec lines
// and suites read them here. Letters may be of either case, and one blank may precede a unit.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace attest::core {

/// What parse_count, parse_seconds and parse_bytes read, for messages and help texts: "must be" is
/// to precede them.
inline constexpr std::string_view kCountWords =
    "a whole number, or one with k (1,024) or m (1,048,576), such as 4096 or 4k";
inline constexpr std::string_view kSecondsWords =
    "a time such as 50ms, 2s or 5min (units: ns us ms s min h; without one: seconds)";
inline constexpr std::string_view kPeriodWords = "a rate such as 12Hz, or a time such as 50ms";
inline constexpr std::string_view kBytesWords =
    "a size such as 512MiB, 1GiB or 2GB (units: B, KiB to TiB, kB to TB; without one: GiB)";

/// A count: "4096", "4k", "1.5k", "1m". k is 1,024 and m is 1,048,576, because numbers of tokens
/// are powers of two: 4k is 4,096, and 256k is 262,144. Nothing if the text is not a count, not a
/// whole number ("0.3k"), or not in [low, high].
std::optional<int64_t> parse_count(std::string_view text, int64_t low, int64_t high);

/// A time in seconds: "50ms" is 0.05. Without a unit the number is in seconds. Nothing if the text
/// is not a time, negative, or infinite.
std::optional<double> parse_seconds(std::string_view text);
/// The time with a unit; parse_seconds gives the same double for it.
std::string print_seconds(double seconds);

/// The seconds from one frame to the next: "12Hz" is 1/12, "50ms" is 0.05. Nothing if the text is
/// neither a rate nor a time above 0.
std::optional<double> parse_period(std::string_view text);
/// "12Hz" if the rate is a whole number, else a time; parse_period gives the same double for it.
std::string print_period(double seconds);

/// A number of bytes: "1GiB" is 2^30, "1GB" is 10^9. Without a unit the number is in GiB. Fractions
/// of a byte are rounded. Nothing if the text is not a size, negative, or 2^60 bytes or more.
std::optional<uint64_t> parse_bytes(std::string_view text);
/// The size with the largest binary unit that gives a whole number: "1536MiB". parse_bytes gives
/// the same number for it.
std::string print_whole_bytes(uint64_t bytes);

}  // namespace attest::core
