// Numbers in words, with units.
#pragma once
#include <string>

namespace attest::reports {

/// Three significant digits, without an exponent: "0.31", "12.3", "1234".
std::string three_digits(double value);
/// "34.4 GFLOP"; three significant digits.
std::string print_flops(double flops);
/// "1.23 ms", "45.6 us"; three significant digits.
std::string print_time(double ns);
/// "12.3 MiB", "0".
std::string print_bytes(double bytes);

}  // namespace attest::reports
