#include "cli/results_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/machine_error.hpp"

namespace attest::cli {

ResultsFile::ResultsFile(const std::string& path) : path_(path) {
  if (path.empty()) return;
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) throw MachineError(fmt::format("-o {}: cannot be written: {}", path, std::strerror(errno)));
}

ResultsFile::~ResultsFile() {
  if (fd_ >= 0) close(fd_);
}

void ResultsFile::write(const nlohmann::json& line) {
  if (fd_ < 0) return;
  // Text of plugins need not be UTF-8.
  const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const off_t start = lseek(fd_, 0, SEEK_CUR);
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      if (start >= 0 && ftruncate(fd_, start) == 0) lseek(fd_, start, SEEK_SET);
      throw MachineError(fmt::format("-o {}: {}; the lines before are kept", path_, std::strerror(error)));
    }
    done += size_t(n);
  }
}

}  // namespace attest::cli
