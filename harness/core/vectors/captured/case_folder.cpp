#include "core/vectors/captured/case_folder.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/tensor/error.hpp"

namespace attest::core {

namespace fs = std::filesystem;

namespace {

constexpr const char* kDescription = "case.json";

}  // namespace

void make_case_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / kDescription, error))
    throw Error(fmt::format("{}: holds a case already; remove it, or name another folder",
                            folder.string()));
  fs::create_directories(folder, error);
  if (error) throw Error(fmt::format("{}: cannot be made: {}", folder.string(), error.message()));
}

void write_description(const fs::path& folder, const nlohmann::json& description) {
  const fs::path path = folder / kDescription;
  std::ofstream out(path);
  out << description.dump(1) << "\n";
  out.close();
  if (!out) throw Error(fmt::format("{}: cannot be written", path.string()));
}

}  // namespace attest::core
