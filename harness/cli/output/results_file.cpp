#include "cli/output/results_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/tensor/error.hpp"
#include "reports/compare/launches.hpp"

namespace attest::cli {

namespace {

bool holds_something(const std::string& path) {
  struct stat facts{};
  return !path.empty() && stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
         facts.st_size > 0;
}

// Nothing: it is no results file.
std::optional<size_t> count_records(const std::string& path) {
  try {
    return core::read_results(path).records.size();
  } catch (const core::Error&) {
    return std::nullopt;
  }
}

void require_rooflines(const std::vector<core::Results>& before,
                       const std::vector<core::Results>& after) {
  for (const std::vector<core::Results>* side : {&before, &after})
    for (const core::Results& results : *side)
      for (const core::Record& record : results.records)
        if (record.roofline) return;
  throw core::Error(
      "--relative-to roofline: no record has it; times have it where the machine's limits are "
      "known");
}

}  // namespace

core::Results read_one(const std::string& path) {
  core::Results results = core::read_results(path);
  if (!results.begun) throw core::Error(fmt::format("{}: holds no results", path));
  return results;
}

std::vector<core::Results> read_launches(const std::vector<std::string>& paths) {
  std::vector<core::Results> all;
  for (const std::string& path : paths)
    for (core::Results& launch : reports::launches_in(read_one(path)))
      all.push_back(std::move(launch));
  return all;
}

void require_peer(const std::vector<core::Results>& before, const std::vector<core::Results>& after,
                  const std::string& peer) {
  if (peer.empty()) return;
  if (peer == reports::kRooflinePeer) return require_rooflines(before, after);
  bool known = false, others = false;
  for (const std::vector<core::Results>* side : {&before, &after})
    for (const core::Results& results : *side)
      for (const core::Record& record : results.records)
        (record.impl == peer ? known : others) = true;
  if (!known)
    throw core::Error(
        fmt::format("--relative-to {}: no file has records of it", core::in_quotes(peer)));
  if (!others)
    throw core::Error(
        fmt::format("--relative-to {}: no file has records of another", core::in_quotes(peer)));
}

void refuse_to_replace(const std::string& path) {
  if (!holds_something(path)) return;
  const std::optional<size_t> records = count_records(path);
  if (!records)
    throw core::Error(fmt::format(
        "-o {}: holds something that is no results; name another file, or replace it with "
        "--overwrite",
        path));
  throw core::Error(
      fmt::format("-o {}: holds {} results; --overwrite replaces the file, --resume "
                  "{} goes on with a run that was cut short",
                  path, *records, path));
}

void refuse_to_replace_table(const std::string& path) {
  if (holds_something(path))
    throw core::Error(fmt::format(
        "--table {}: the file exists; name another, or replace it with --overwrite", path));
}

ResultsFile::ResultsFile(const std::string& path, off_t kept_bytes) : path_(path) {
  if (path.empty()) return;
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0)
    throw core::MachineError(
        fmt::format("-o {}: cannot be written: {}", path, std::strerror(errno)));
  struct stat facts{};
  if (fstat(fd_, &facts) != 0 || !S_ISREG(facts.st_mode))
    return;  // a pipe or a device has nothing to keep
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    close(std::exchange(fd_, -1));
    throw core::MachineError(fmt::format("-o {}: another attest writes to it", path));
  }
  if (ftruncate(fd_, kept_bytes) != 0 || lseek(fd_, kept_bytes, SEEK_SET) < 0) {
    close(std::exchange(fd_, -1));
    throw core::MachineError(fmt::format("-o {}: cannot be cut to {} bytes: {}", path, kept_bytes,
                                         std::strerror(errno)));
  }
}

ResultsFile::ResultsFile(ResultsFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

ResultsFile::~ResultsFile() {
  if (fd_ >= 0) close(fd_);
}

void ResultsFile::write(const nlohmann::json& line) {
  if (fd_ < 0) return;
  // Text of plugins need not be UTF-8.
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const off_t start = lseek(fd_, 0, SEEK_CUR);
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      if (start >= 0 && ftruncate(fd_, start) == 0) lseek(fd_, start, SEEK_SET);
      throw core::MachineError(
          fmt::format("-o {}: {}; the lines before are kept", path_, std::strerror(error)));
    }
    done += size_t(n);
  }
}

}  // namespace attest::cli
