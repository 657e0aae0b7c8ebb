#include "core/measure/machine/ecc.hpp"

#include <fmt/ranges.h>

#include <set>

namespace attest::core {
namespace {

namespace fs = std::filesystem;

/// Adds the modes of a controller's modules. Old drivers have rows of chips instead of modules.
void add_modes(const fs::path& controller, std::set<std::string>& modes) {
  for (const fs::path& module : entries_of(controller))
    for (const auto& [prefix, file] :
         {std::pair{"dimm", "dimm_edac_mode"}, {"rank", "dimm_edac_mode"}, {"csrow", "edac_mode"}})
      if (begins_with(module, prefix))
        if (const std::string mode = read_text(module / file); !mode.empty()) modes.insert(mode);
}

}  // namespace

Reading<MemoryEcc> read_ecc(const fs::path& root) {
  MemoryEcc ecc;
  std::set<std::string> modes;
  bool has_controller = false;
  for (const fs::path& controller : entries_of(root / "sys/devices/system/edac/mc")) {
    const std::string name = controller.filename().string();
    if (!name.starts_with("mc") || name == "mc") continue;
    has_controller = true;
    for (const auto& [file, count] :
         {std::pair{"ce_count", &ecc.corrected}, {"ue_count", &ecc.uncorrected}}) {
      const Reading<double> errors =
          within(read_value(controller / file), 1, 0, 0x1p53, "errors", file);
      if (!errors.value) return Reading<MemoryEcc>::none(name + "/" + errors.missing);
      *count += uint64_t(*errors.value);
    }
    add_modes(controller, modes);
  }
  if (!has_controller) return Reading<MemoryEcc>::none("no driver reports a memory controller");
  ecc.mode = modes.empty() ? "unknown" : fmt::format("{}", fmt::join(modes, ", "));
  return Reading<MemoryEcc>::of(ecc);
}

}  // namespace attest::core
