// The machine and the build, as text for records and for people. No host or user name, serial
// number or absolute path.
#pragma once
#include <filesystem>
#include <map>
#include <string>

namespace attest::core {

/// Key -> text, numbers too; what cannot be read is left out.
using Facts = std::map<std::string, std::string>;

/// "cpu", "memory", "system", "state" (see machine_state.hpp), "build", "libraries", and each kind
/// of device that is there by its name ("cuda") -> facts. The machine as the files of proc, sys and
/// etc under `root` describe it.
using Environment = std::map<std::string, Facts>;
Environment read_environment(const std::filesystem::path& root = "/");

/// The groups "cpu" and "system" alone.
Facts read_cpu(const std::filesystem::path& root = "/");
Facts read_system(const std::filesystem::path& root = "/");

/// Facts of /proc/cpuinfo's text: vendor, model, family, model_number, stepping, microcode (x86),
/// implementer, part (Arm), features that kernels dispatch on ("avx2 avx512f amx_bf16 ..."),
/// virtual: yes or no (x86 only; Arm's does not say).
Facts parse_cpuinfo(const std::string& text);

}  // namespace attest::core
