#include "core/isolation/installation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>
#include <vector>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;

struct Wanted {
  uintptr_t address;
  std::string name;
};

// The object whose segments hold the address; the program itself has no name there.
int look_at(dl_phdr_info* object, size_t, void* data) {
  auto& wanted = *static_cast<Wanted*>(data);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || wanted.address < begin ||
        wanted.address >= begin + segment.p_memsz)
      continue;
    wanted.name = object->dlpi_name ? object->dlpi_name : "";
    return 1;
  }
  return 0;
}

void add_folder(const fs::path& folder, std::vector<fs::path>& found) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".so") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  found.insert(found.end(), files.begin(), files.end());
}

}  // namespace

fs::path own_binary() {
  Wanted wanted{reinterpret_cast<uintptr_t>(&own_binary), ""};
  dl_iterate_phdr(look_at, &wanted);
  std::error_code error;
  return fs::weakly_canonical(wanted.name.empty() ? "/proc/self/exe" : wanted.name, error);
}

fs::path own_prefix() {
  const fs::path binary = own_binary(), folder = binary.parent_path();
  // Programs lie in one folder of the prefix, libraries in lib or deeper: lib/x86_64-linux-gnu.
  const fs::path library_folder = ATTEST_LIBDIR;
  if (binary.filename().string().find(".so") == std::string::npos) return folder.parent_path();
  fs::path prefix = folder;
  for (size_t depth = size_t(std::distance(library_folder.begin(), library_folder.end()));
       depth > 0; --depth)
    prefix = prefix.parent_path();
  return prefix;
}

std::vector<fs::path> find_plugins() {
  std::vector<fs::path> found;
  add_folder(own_prefix() / "plugins", found);
  add_folder(own_prefix() / ATTEST_LIBDIR "/attest/plugins", found);
  if (const char* given = std::getenv("ATTEST_PLUGIN_PATH")) {
    std::istringstream parts(given);
    for (std::string part; std::getline(parts, part, ':');) {
      if (part.empty()) continue;
      if (fs::is_directory(part))
        add_folder(part, found);
      else
        found.push_back(part);
    }
  }
  std::set<fs::path> seen;
  std::erase_if(
      found, [&](const fs::path& path) { return !seen.insert(fs::weakly_canonical(path)).second; });
  return found;
}

std::map<std::string, fs::path> find_suites() {
  std::map<std::string, fs::path> suites;
  std::error_code error;
  for (const fs::path& folder : {own_prefix() / ATTEST_DATADIR / "attest/suites",
                                 fs::path(ATTEST_SUITES_SOURCE), own_prefix() / "suites"})
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".json" && entry.path().stem().extension() != ".schema")
        suites.emplace(entry.path().stem(), entry.path());  // the first one stays
  return suites;
}

fs::path find_suite(const std::string& name) {
  if (fs::is_regular_file(name)) return name;
  const std::map<std::string, fs::path> suites = find_suites();
  if (const auto at = suites.find(name); at != suites.end()) return at->second;
  std::vector<std::string> known;
  for (const auto& [each, path] : suites) known.push_back(each);
  throw Error(fmt::format("{}: no such suite file; suites that come with attest: {}", name,
                          fmt::join(known, " ")));
}

}  // namespace attest::core
