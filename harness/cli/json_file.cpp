#include "cli/json_file.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/machine_error.hpp"

namespace attest::cli {

void write_json_file(const std::string& path, const nlohmann::json& json) {
  if (path.empty()) return;
  std::ofstream out(path, std::ios::trunc);
  out << json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n" << std::flush;
  if (!out) throw MachineError(fmt::format("--json {}: cannot be written", path));
}

}  // namespace attest::cli
