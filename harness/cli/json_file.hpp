// --json: what a command prints, as one JSON file.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace attest::cli {

/// Replaces the file. An empty path: nothing is written. Throws MachineError if writing fails.
void write_json_file(const std::string& path, const nlohmann::json& json);

}  // namespace attest::cli
