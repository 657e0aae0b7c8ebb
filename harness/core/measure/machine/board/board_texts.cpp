#include "core/measure/machine/board/board_texts.hpp"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <sstream>

#include "core/measure/machine/files.hpp"

namespace attest::core {
namespace {

constexpr int kPairs = 8;  // of multiprocessors, on the largest Orin

// A whole number that `text` is, in base 10, or 16 after 0x.
std::optional<int64_t> whole_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

bool is_tegra(const std::string& compatible) {
  return compatible.find("nvidia,tegra") != compatible.npos;
}

Reading<std::string> parse_l4t(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  int major = 0;
  const size_t at = line.find("# R"), revision = line.find("REVISION: ");
  if (at == 0) std::from_chars(line.data() + 3, line.data() + line.size(), major);
  if (major <= 0 || revision == line.npos)
    return Reading<std::string>::none("nv_tegra_release: it names no release");
  const size_t begin = revision + 10;
  const std::string minor =
      line.substr(begin, line.find_first_not_of("0123456789.", begin) - begin);
  return Reading<std::string>::of(fmt::format("R{}.{}", major, minor));
}

Reading<int64_t> parse_jetpack(const std::string& l4t) {
  if (l4t.starts_with("R35.")) return Reading<int64_t>::of(5);
  if (l4t.starts_with("R36.")) return Reading<int64_t>::of(6);
  if (l4t.starts_with("R38.") || l4t.starts_with("R39.")) return Reading<int64_t>::of(7);
  return Reading<int64_t>::none(fmt::format("attest does not know the JetPack of {}", l4t));
}

Reading<int64_t> parse_mode_id(const std::string& status) {
  const std::string text = value_of(status, "pmode", ':');
  const std::optional<int64_t> id = whole_number(text);
  if (!id || *id > 9999) return Reading<int64_t>::none("status: it has no number after pmode:");
  return Reading<int64_t>::of(*id);
}

Reading<std::string> parse_mode_name(const std::string& conf, int64_t id) {
  std::istringstream lines(conf);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() < 4 || words[0] != "<" || words[1] != "POWER_MODEL" ||
        words[2] != fmt::format("ID={}", id) || !words[3].starts_with("NAME="))
      continue;
    const std::string name = words[3].substr(5);
    if (!name.empty()) return Reading<std::string>::of(name);
  }
  return Reading<std::string>::none(fmt::format("nvpmodel.conf: it has no mode {}", id));
}

Reading<int64_t> parse_mask(const std::string& text, int most) {
  if (most > 2 * kPairs)
    return Reading<int64_t>::none("tpc_pg_mask: what it means on this module is not known");
  const std::optional<int64_t> mask = whole_number(text);
  if (!mask || *mask >= (1 << kPairs) - 1)  // a GPU without any would not answer
    return Reading<int64_t>::none("tpc_pg_mask: it is no mask of 8 pairs that leaves one");
  return Reading<int64_t>::of(
      std::min<int64_t>(most, 2 * (kPairs - std::popcount(uint64_t(*mask)))));
}

}  // namespace attest::core
