#include "cli/output/written_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/tensor/error.hpp"

namespace attest::cli {

void write_json_file(const std::string& option, const std::string& path,
                     const nlohmann::json& json) {
  write_text_file(option, path,
                  json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void write_text_file(const std::string& option, const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::ofstream out(path, std::ios::trunc | std::ios::binary);
  out << text << std::flush;
  if (!out)
    throw core::MachineError(
        fmt::format("{}{}{}: cannot be written", option, option.empty() ? "" : " ", path));
}

void refuse_inputs(const std::string& option, const std::string& path,
                   const std::vector<std::string>& inputs,
                   const std::vector<std::string>& more_inputs) {
  for (const std::vector<std::string>* files : {&inputs, &more_inputs})
    for (const std::string& input : *files) {
      std::error_code ignored;
      if (std::filesystem::equivalent(input, path, ignored))
        throw core::Error(fmt::format("{} {}: is one of the files that are read", option, path));
    }
}

}  // namespace attest::cli
