// The folder of a captured case, as capture.cpp and run_dump.cpp write it.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace attest::core {

/// Makes the folder, and those above it. Throws Error if it cannot be made, or has a case already.
void make_case_folder(const std::filesystem::path& folder);
/// Writes case.json; to be called last, so that an incomplete folder is no case. Throws Error if it
/// cannot be written.
void write_description(const std::filesystem::path& folder, const nlohmann::json& description);

}  // namespace attest::core
