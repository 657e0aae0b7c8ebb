// Trees of /proc, /sys and /etc as a Jetson board has them, from descriptions in `boards`.
//
//   FakeBoard board("nx16", 6);  // under JetPack 6
//   board.write("etc/nvpmodel.conf", "");
//   board.refuse("sys/class/thermal/thermal_zone2/temp");
//   EXPECT_EQ(board.state().mode.value, 0);
//
// A line of a description is a file: `path = text`. In the text, \0 is a NUL; a text without one
// gets a newline at its end. Lines with the same path are lines of one file. `{0-7}` in a path
// stands for each of these numbers. A file `path ! EAGAIN` answers that error when it is read. A
// line that begins with `[5]` or `[6 7]` counts under these versions of JetPack only. The line
// `include NAME` stands for all lines of the description NAME. A line that begins with `#` is a
// comment.
#pragma once
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/measure/machine/affinity.hpp"
#include "core/measure/machine/board/board.hpp"
#include "core/measure/testing/fake_root.hpp"

#ifndef ATTEST_SOURCE_DIR
#define ATTEST_SOURCE_DIR "."
#endif

namespace attest::core {

/// While it lives, this thread may open no files but those of everybody, also if it is root's.
class Unprivileged {
 public:
  Unprivileged() : user_(setfsuid(kNobody)) {}
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;
  ~Unprivileged() { setfsuid(uid_t(user_)); }

 private:
  static constexpr uid_t kNobody = 65534;
  int user_;
};

class FakeBoard : public FakeRoot {
 public:
  FakeBoard(const std::string& name, int jetpack) {
    std::filesystem::permissions(path(), std::filesystem::perms(0755));  // as the root of a system
    Texts texts;
    read(name, jetpack, texts);
    if (texts.empty()) throw std::runtime_error(name + ": describes nothing");
    for (const auto& [path, text] : texts) write(path, text);
  }
  FakeBoard(const FakeBoard&) = delete;
  FakeBoard& operator=(const FakeBoard&) = delete;
  ~FakeBoard() {
    for (const int descriptor : open_) close(descriptor);
  }

  BoardState state() const { return read_board(path()).value(); }
  static std::string text_of(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(in)), {});
  }
  void remove(const std::string& file) const { std::filesystem::remove_all(path() / file); }
  /// Reading it answers EAGAIN from now on, as a sensor does that is off.
  void refuse(const std::string& file) {
    const auto at = path() / file;
    remove(file);
    std::filesystem::create_directories(at.parent_path());
    if (mkfifo(at.c_str(), 0666) != 0) throw std::runtime_error(file + ": mkfifo");
    open_.push_back(open(at.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  }
  /// Only root may read it from now on; see Unprivileged.
  void forbid(const std::string& file) const {
    std::filesystem::permissions(path() / file, std::filesystem::perms::none);
  }
  /// All clocks as jetson_clocks leaves them: at their caps, where they stay.
  void lock_clocks() const {
    for (const auto& device : entries("sys/class/devfreq")) copy(device, "max_freq", "min_freq");
    for (const auto& cpu : cpus_on(path()))
      copy(cpu / "cpufreq", "scaling_max_freq", "scaling_min_freq");
    const std::string emc = "sys/kernel/debug/bpmp/debug/clk/emc/";
    const auto cap = path() / "sys/kernel/nvpmodel_clk_cap/emc";
    if (std::filesystem::exists(path() / emc)) {
      copy(path() / emc, "max_rate", "rate");
      if (std::filesystem::exists(cap) && text_of(cap) != "0\n") write(emc + "rate", text_of(cap));
      write(emc + "mrq_rate_locked", "1\n");
    } else {
      copy(path() / "sys/class/devfreq/bwmgr", "max_freq", "cur_freq");
    }
  }

 private:
  using Texts = std::map<std::string, std::string>;  // by path
  void read(const std::string& name, int jetpack, Texts& texts) {
    const std::string file =
        ATTEST_SOURCE_DIR "/harness/core/measure/testing/boards/" + name + ".txt";
    std::ifstream in(file);
    if (!in) throw std::runtime_error(file + ": cannot be read");
    size_t number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (line.empty() || line[0] == '#' || !applies(line, jetpack)) continue;
      if (line.starts_with(kInclude)) {
        read(line.substr(kInclude.size()), jetpack, texts);
        continue;
      }
      const std::smatch match = parts_of(line, file, number);
      for (const std::string& path : expand(match[1]))
        if (match[2] == "=")
          texts[path] += unescape(match[3]);
        else
          refuse(path);
    }
  }
  static bool applies(std::string& line, int jetpack) {
    std::smatch match;
    if (!std::regex_match(line, match, std::regex(R"(\[([0-9 ]+)\] (.*))"))) return true;
    const bool listed = match[1].str().find(std::to_string(jetpack)) != std::string::npos;
    line = match[2].str();
    return listed;
  }
  static std::smatch parts_of(const std::string& line, const std::string& file, size_t number) {
    static const std::regex kLine(R"((\S+) ([=!]) ?(.*))");
    std::smatch match;
    if (!std::regex_match(line, match, kLine))
      throw std::runtime_error(file + ": line " + std::to_string(number) + " is no file");
    return match;
  }
  static std::vector<std::string> expand(const std::string& path) {
    std::smatch match;
    if (!std::regex_match(path, match, std::regex(R"((.*)\{(\d+)-(\d+)\}(.*))"))) return {path};
    std::vector<std::string> paths;
    for (int i = std::stoi(match[2]); i <= std::stoi(match[3]); ++i)
      paths.push_back(match[1].str() + std::to_string(i) + match[4].str());
    return paths;
  }
  static std::string unescape(const std::string& text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
      const bool nul = text.compare(i, 2, "\\0") == 0;
      plain += nul ? '\0' : text[i];
      i += nul;
    }
    return plain.ends_with('\0') ? plain : plain + '\n';
  }
  std::vector<std::filesystem::path> entries(const std::string& folder) const {
    std::vector<std::filesystem::path> all;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path() / folder, error))
      all.push_back(entry.path());
    return all;
  }
  static void copy(const std::filesystem::path& folder, const char* from, const char* to) {
    if (std::filesystem::exists(folder / from))
      std::ofstream(folder / to, std::ios::binary) << text_of(folder / from);
  }

  static constexpr std::string_view kInclude = "include ";
  std::vector<int> open_;
};

}  // namespace attest::core
