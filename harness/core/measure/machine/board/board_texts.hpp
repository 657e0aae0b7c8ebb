// What the texts of a Jetson's board support package say.
//
// Source: the Jetson Linux developer guide (nvpmodel, nv_tegra_release). attest has never run on a
// board (harness/guide/orin.md).
#pragma once
#include <cstdint>
#include <string>

#include "core/measure/machine/reading.hpp"

namespace attest::core {

/// Whether `compatible` is that of a Tegra chip.
bool is_tegra(const std::string& compatible);

/// "R36.4.3" of the first line of /etc/nv_tegra_release.
Reading<std::string> parse_l4t(const std::string& text);
/// The major version of JetPack that has this release of Jetson Linux: "R36.4.3" -> 6.
Reading<int64_t> parse_jetpack(const std::string& l4t);

/// The id of the power mode, of /var/lib/nvpmodel/status: "pmode:0002" -> 2.
Reading<int64_t> parse_mode_id(const std::string& status);
/// The name of a power mode in /etc/nvpmodel.conf: "< POWER_MODEL ID=2 NAME=15W >" -> "15W".
Reading<std::string> parse_mode_name(const std::string& conf, int64_t id);

/// The multiprocessors that tpc_pg_mask leaves: it is a number of 8 bits, one for each pair of them
/// that is off. A module has some of its pairs off for ever, and the mask need not say so: the
/// result is at most `most`.
Reading<int64_t> parse_mask(const std::string& text, int most);

}  // namespace attest::core
