// Files of boards in which something is wrong: what that costs, and that it costs no more.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string_view>

#include "core/measure/machine/board/board.hpp"
#include "core/measure/testing/fake_board.hpp"

namespace attest::core {
namespace {

/// What may be done to a file.
struct Mutation {
  const char* name;
  std::function<void(FakeBoard&, const std::string& file, const std::string& text)> apply;
};

const Mutation kMutations[] = {
    {"missing", [](FakeBoard& board, const std::string& file, auto&) { board.remove(file); }},
    {"empty", [](FakeBoard& board, const std::string& file, auto&) { board.write(file, ""); }},
    {"refused", [](FakeBoard& board, const std::string& file, auto&) { board.refuse(file); }},
    {"forbidden", [](FakeBoard& board, const std::string& file, auto&) { board.forbid(file); }},
    {"garbage", [](FakeBoard& board, const std::string& file,
                   auto&) { board.write(file, "\x7f\x01 garbage\n"); }},
    {"in another unit",  // a million times as much, or as little
     [](FakeBoard& board, const std::string& file, const std::string& text) {
       board.write(file, text.size() > 7 ? text.substr(0, text.size() - 7) + "\n"
                                         : text.substr(0, text.size() - 1) + "000000\n");
     }},
    {"in thousandths of its unit",
     [](FakeBoard& board, const std::string& file, const std::string& text) {
       board.write(file, text.substr(0, text.size() - 1) + "000\n");
     }},
    {"in thousands of its unit",
     [](FakeBoard& board, const std::string& file, const std::string& text) {
       board.write(file, text.substr(0, text.size() - 4) + "\n");
     }},
};

/// The files of a board that hold one number and nothing else.
std::vector<std::string> number_files(const FakeBoard& board) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(board.path()))
    if (entry.is_regular_file() && read_value(entry.path()).value)
      files.push_back(std::filesystem::relative(entry.path(), board.path()).string());
  return files;
}

// Clocks of other devices, voltages of other parts, what only lowers the cap of the memory, that a
// CPU is on, and what a CPU that is off says.
bool costs_nothing(const FakeBoard& board, const std::string& file) {
  for (const char* part :
       {".vic", "gpu-nvd", "pwm", "ucsi", "nvpmodel_clk_cap", "nvpmodel_emc_cap", "/online"})
    if (file.find(part) != file.npos) return true;
  const auto cpu = (board.path() / file).parent_path().parent_path();
  return FakeBoard::text_of(cpu / "online") == "0\n";
}

// Numbers below 1,000 have no thousands; 0.05 degrees is a temperature, and 1 mA a current.
bool has_no_thousands(const std::string& file, const std::string& text) {
  return text.size() < 5 || file.find("thermal_zone") != file.npos ||
         file.find("/curr") != file.npos;
}

// A file in which something is wrong costs the values that come from it. Each has a reason; no
// other value changes, and none becomes 0.
TEST(Board, ABrokenFileCostsItsValuesAndChangesNone) {
  size_t costs = 0, tried = 0;
  for (const auto& [name, jetpack] : {std::pair{"nx16", 6}, {"agx64", 5}, {"thor", 7}}) {
    FakeBoard board(name, jetpack);
    const BoardFacts before = facts(board.state());
    for (const std::string& file : number_files(board)) {
      if (costs_nothing(board, file)) continue;
      const std::string text = FakeBoard::text_of(board.path() / file);
      for (const Mutation& mutation : kMutations) {
        const std::string_view kind = mutation.name;
        const bool flag = text.size() < 4;  // 0, 1 and counts have no unit
        if (kind.starts_with("in ") && flag) continue;
        if (kind == "in thousands of its unit" && has_no_thousands(file, text)) continue;
        SCOPED_TRACE(fmt::format("{} of {} is {}", file, name, mutation.name));
        mutation.apply(board, file, text);
        BoardFacts after;
        {
          const Unprivileged nobody;
          after = facts(board.state());
        }
        for (const auto& [key, value] : after.known) {
          const auto was = before.known.find(key);
          ASSERT_TRUE(was != before.known.end()) << key << " came from nothing";
          EXPECT_EQ(value, was->second) << key;
        }
        for (const auto& [key, reason] : after.missing) EXPECT_NE(reason, "") << key;
        costs += after.missing.size() > before.missing.size();
        ++tried;
        board.remove(file);
        board.write(file, text);
      }
    }
  }
  EXPECT_GT(tried, 500u);
  EXPECT_GT(costs, 0.9 * double(tried)) << "what is read of a board comes from its files";
}

}  // namespace
}  // namespace attest::core
