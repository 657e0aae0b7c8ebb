// Options whose values are times or sizes with units: --timeout 50ms, --memory 1GiB.
#pragma once
#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace attest::cli {

/// Adds an option that reads a time (core::parse_seconds) from `least` to `most` seconds. The help
/// text shows the value of `seconds` as the default, if it is above 0.
CLI::Option* add_seconds(CLI::App& command, const std::string& name, double& seconds,
                         const std::string& help, double least, double most);

/// Adds an option that reads the time from one frame to the next, as a rate or a time
/// (core::parse_period), from `least` to `most` seconds.
CLI::Option* add_period(CLI::App& command, const std::string& name, double& seconds,
                        const std::string& help, double least, double most);

/// Adds an option that reads a size (core::parse_bytes) of at least `least` bytes.
CLI::Option* add_bytes(CLI::App& command, const std::string& name, uint64_t& bytes,
                       const std::string& help, uint64_t least);

/// Makes the option refuse a number without a unit, with the units as examples: readers take 20 for
/// a rate as well as for a time.
CLI::Option* require_unit(CLI::Option* option, const std::vector<std::string>& units);

/// Adds an option that reads a number from `least` to `most` and passes it to `take`. Not a number
/// (nan) is refused.
CLI::Option* add_number(CLI::App& command, const std::string& name,
                        std::function<void(double)> take, const std::string& help, double least,
                        double most);

/// The lines of a help text that say how times, sizes and counts are written.
std::string quantity_help();

}  // namespace attest::cli
