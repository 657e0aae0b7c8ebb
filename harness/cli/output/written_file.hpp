// Files that commands write beside what they print.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace attest::cli {

/// Replaces the file. An empty path: nothing is written. Throws MachineError if writing fails; its
/// message names `option`, unless that is empty.
void write_json_file(const std::string& option, const std::string& path,
                     const nlohmann::json& json);

/// The same, for text.
void write_text_file(const std::string& option, const std::string& path, const std::string& text);

/// Throws Error if the file would be written over one of those that are read.
void refuse_inputs(const std::string& option, const std::string& path,
                   const std::vector<std::string>& inputs,
                   const std::vector<std::string>& more_inputs);

}  // namespace attest::cli
