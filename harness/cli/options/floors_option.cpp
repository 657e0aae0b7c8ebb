#include "cli/options/floors_option.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/tensor/error.hpp"
#include "core/tensor/input_file.hpp"

namespace attest::cli {

void FloorsOption::add_to(CLI::App& command) {
  command
      .add_option("--floor-from", path_,
                  "floors of this machine by case, which attest ab --self-check wrote; a case "
                  "counts with the larger of its own floor and the one that is given otherwise")
      ->type_name("FILE");
}

const reports::Floors* FloorsOption::read() {
  if (path_.empty()) return nullptr;
  std::ifstream file =
      core::open_input(path_, "; --floor-from takes what attest ab --self-check writes");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  try {
    floors_ = reports::floors_from_json(nlohmann::json::parse(text, nullptr, false));
  } catch (const core::Error& error) {
    throw core::Error(fmt::format("--floor-from {}: {}", path_, error.what()));
  }
  return &*floors_;
}

void FloorsOption::require_of(const std::vector<core::Results>& results,
                              const std::string& relative_to) const {
  if (!floors_) return;
  try {
    require_floors_of(*floors_, results, relative_to);
  } catch (const core::Error& error) {
    throw core::Error(fmt::format("--floor-from {}: {}", path_, error.what()));
  }
}

}  // namespace attest::cli
