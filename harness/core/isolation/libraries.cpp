#include "core/isolation/libraries.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "core/tensor/tensor.hpp"

namespace attest::core {
namespace {

// Larger files, such as some GPU libraries, are known by their path, size and time of change alone.
constexpr off_t kMostHashed_bytes = 64 << 20;

// As long as it stays, the file has the same bytes.
struct FileState {
  off_t size_bytes = 0;
  std::string text;  // path, size and time of change; empty: there is no such file
};
FileState state_of(const std::string& path) {
  struct stat facts{};
  if (stat(path.c_str(), &facts) != 0) return {};
  return {facts.st_size, fmt::format("{} {} {}.{}", path, facts.st_size, facts.st_mtim.tv_sec,
                                     facts.st_mtim.tv_nsec)};
}

uint64_t hash_mapped(const std::string& path) {
  const FileState state = state_of(path);
  if (state.text.empty()) return hash_text(path);  // deleted, or no file at all
  return state.size_bytes > kMostHashed_bytes ? hash_text(state.text) : hash_file(path);
}

}  // namespace

uint64_t hash_file(const std::filesystem::path& path) {
  static std::map<std::string, uint64_t> known;
  const auto [at, is_new] = known.emplace(state_of(path).text, 0);
  if (is_new) {
    std::ostringstream bytes;  // an istreambuf_iterator takes 6 ms for a MiB
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    at->second = hash_text(bytes.str());
  }
  return at->second;
}

uint64_t hash_libraries(pid_t process) {
  // "BEGIN-END r-xp OFFSET DEVICE INODE    /PATH"; no other part has a slash in it.
  std::ifstream maps(fmt::format("/proc/{}/maps", process));
  std::set<std::string> paths;
  for (std::string line; std::getline(maps, line);) {
    const size_t rights = line.find(' ') + 1, path = line.find('/');
    if (path != std::string::npos && line[rights + 2] == 'x') paths.insert(line.substr(path));
  }
  std::multiset<uint64_t> hashes;
  for (const std::string& path : paths) hashes.insert(hash_mapped(path));
  uint64_t all = 0;
  for (const uint64_t hash : hashes) all = hash_bytes(&hash, sizeof(hash), all);
  return all;
}

}  // namespace attest::core
