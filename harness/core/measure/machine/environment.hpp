// Describes the machine and the build, as text for records and people, without host name, user
// name, serial number or absolute path.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "core/measure/machine/files.hpp"

namespace attest::core {

/// Key -> text. Facts that cannot be read are left out, but for error correction of memory, which
/// says why it is not known.
using Facts = std::map<std::string, std::string>;

/// Group -> facts. The groups are "cpu", "memory", "system", "state" (machine_state.hpp), "build",
/// "libraries", and the name of each kind of device that is present ("cuda"); of a Jetson also
/// "board", and "board_missing": why the rest of it is not known. Reads the files of proc, sys and
/// etc under `root`.
using Environment = std::map<std::string, Facts>;
Environment read_environment(const std::filesystem::path& root = machine_root());

/// The groups "cpu" and "system" alone.
Facts read_cpu(const std::filesystem::path& root = machine_root());
Facts read_system(const std::filesystem::path& root = machine_root());

/// The facts in the text of /proc/cpuinfo: vendor, model, family, model_number, stepping, microcode
/// (x86), implementer, part (Arm), features that kernels dispatch on ("avx2 avx512f amx_bf16 ..."),
/// virtual: yes or no (x86 only).
Facts parse_cpuinfo(const std::string& text);

}  // namespace attest::core
