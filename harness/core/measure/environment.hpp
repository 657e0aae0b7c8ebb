// The machine and the build, as text for records and for people. No host or user name, serial number or absolute path.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace attest::core {

/// "cpu", "memory", "system", "build", "libraries" -> key -> text; what cannot be read is left out.
using Environment = std::map<std::string, std::map<std::string, std::string>>;
Environment read_environment();

/// What moves while a run goes on: load, clock frequencies, temperatures, stolen time.
std::map<std::string, std::string> read_machine_state();

/// Facts of /proc/cpuinfo: model, family, features that kernels dispatch on ("avx2 avx512f amx_bf16 ..."), virtualisation.
std::map<std::string, std::string> parse_cpuinfo(const std::string& text);

/// One line of `attest doctor`.
struct Finding {
  enum class Kind { kOk, kNote, kMissing };
  Kind kind;
  std::string what;     // "frequency governor"
  std::string found;    // "powersave"
  std::string advice;   // how to get or mend it; empty where nothing is to do
};
std::vector<Finding> diagnose();

}  // namespace attest::core
