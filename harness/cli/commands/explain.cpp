// attest explain: what a reason code means, its likely causes, and what to do; what a fill is.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/help/help_text.hpp"
#include "core/judge/advice.hpp"
#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "reports/words/fill_words.hpp"

namespace attest::cli {
namespace {

using core::Reason;

constexpr size_t kWidth = 80;  // of a line

// The text in lines of at most kWidth, all but the first of them indented.
std::string wrapped(std::string_view first_indent, std::string_view indent, std::string_view text) {
  std::string lines(first_indent);
  size_t column = lines.size();
  bool begins = true;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!begins && column + 1 + word.size() > kWidth) {
      lines += fmt::format("\n{}", indent);
      column = indent.size();
      begins = true;
    }
    lines += fmt::format("{}{}", begins ? "" : " ", word);
    column += word.size() + (begins ? 0 : 1);
    begins = false;
  }
  return lines + "\n";
}

void explain(const Reason& reason) {
  const core::Advice advice = core::advice(reason.code);
  fmt::print("{}\n{}", reason.name, wrapped("  ", "  ", sentence(std::string(reason.meaning))));
  fmt::print("Likely causes:\n");
  for (const std::string_view cause : advice.causes)
    fmt::print("{}", wrapped("  - ", "    ", cause));
  fmt::print("What to do:\n{}", wrapped("  ", "  ", advice.next));
}

void explain(const reports::FillWords& fill, const std::string& word) {
  const std::string what =
      word == fill.fill ? "a fill" : fmt::format("a further round of the fill {}", fill.fill);
  fmt::print("{}, {}\n{}{}", word, what,
             wrapped("  ", "  ", fmt::format("Its inputs: {}.", fill.inputs)),
             wrapped("  ", "  ", fmt::format("It shows {}.", fill.shows)));
  fmt::print("{}", wrapped("  ", "  ", fmt::format("Problems that have it: {}.", fill.problems)));
}

void list_fills() {
  fmt::print("\nfills, kinds of inputs:\n");
  for (const reports::FillWords& one : reports::all_fill_words())
    fmt::print("{:<24} {}\n", one.fill, one.inputs);
}

void list(std::string_view verdict) {
  for (const Reason& reason : core::kReasons)
    if (!reason.name.empty() &&
        (verdict.empty() || core::name(core::verdict_of(reason.code)) == verdict))
      fmt::print("{:<24} {}\n", reason.name, reason.meaning);
}

int explain_word(const std::string& word) {
  if (word == core::name(core::Verdict::kPass)) {
    fmt::print("pass\n{}", wrapped("  ", "  ", sentence(std::string(core::kReasons[0].meaning))));
    return kOk;
  }
  if (word.empty() ||
      std::ranges::find(core::kVerdictNames, word) != std::end(core::kVerdictNames)) {
    list(word);
    if (word.empty()) list_fills();
    return kOk;
  }
  if (const reports::FillWords* const fill = reports::fill_words(word)) {
    explain(*fill, word);
    return kOk;
  }
  const Reason* reason = core::find_reason(word);
  if (!reason) {
    std::vector<std::string> known;
    for (const reports::FillWords& one : reports::all_fill_words()) known.emplace_back(one.fill);
    for (const Reason& one : core::kReasons)
      if (!one.name.empty()) known.emplace_back(one.name);
    throw core::Error(fmt::format("no reason code or fill {}{}; attest explain lists them all",
                                  core::in_quotes(word), core::did_you_mean(word, known)));
  }
  explain(*reason);
  return kOk;
}

}  // namespace

Command add_explain(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("explain", "say what a reason code or a fill means, and what to do");
  auto word = std::make_shared<std::string>();
  command
      ->add_option(
          "code", *word,
          "a reason code of a record, a fill, or a verdict for a list of its codes; none: a "
          "list of all codes and fills")
      ->type_name("CODE");
  command->footer("Example: attest explain fail:tolerance");
  return [word] { return explain_word(*word); };
}

}  // namespace attest::cli
