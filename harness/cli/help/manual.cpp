#include "cli/help/manual.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "cli/exit_code.hpp"

namespace attest::cli {
namespace {

// Text as roff reads it: no dash becomes a hyphen, and no line begins a request.
std::string roff(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if ((safe.empty() || safe.back() == '\n') && (c == '.' || c == '\'')) safe += "\\&";
    if (c == '\\')
      safe += "\\e";
    else if (c == '-')
      safe += "\\-";
    else
      safe += c;
  }
  return safe;
}

std::string title(const std::string& name, const std::string& version) {
  std::string upper = name;
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return char(std::toupper(c)); });
  return fmt::format(".TH \"{}\" 1 \"\" \"attest {}\" \"attest\"\n", roff(upper), version);
}

std::string section(const std::string& heading, const std::string& body) {
  return body.empty() ? "" : fmt::format(".SH {}\n{}", heading, body);
}

// "[SUITE ...]"
std::string argument(const OptionHelp& option) {
  const std::string value =
      fmt::format("\\fI{}\\fR{}", roff(option.value), option.repeats ? " ..." : "");
  return option.required ? value : "[" + value + "]";
}

// ".TP" with the names of an option, its value and its text.
std::string entry(const OptionHelp& option) {
  std::string names;
  for (const std::string& name : option.names)
    names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", roff(name));
  if (option.positional) names = fmt::format("\\fI{}\\fR", roff(option.value));
  if (!option.positional && !option.value.empty())
    names += fmt::format(" \\fI{}\\fR", roff(option.value));
  std::string text = fmt::format(".TP\n{}\n{}", names, roff(sentence(option.text)));
  if (!option.preset.empty()) text += fmt::format(" The default is {}.", roff(option.preset));
  return text + "\n";
}

std::string entries(const CommandHelp& command, bool positional) {
  std::string text;
  for (const OptionHelp& option : command.options)
    if (option.positional == positional) text += entry(option);
  return text;
}

// Lines of a footer as they are: examples.
std::string examples(const std::string& footer) {
  return footer.empty() ? "" : fmt::format(".nf\n{}\n.fi\n", roff(footer));
}

std::string exit_codes() {
  std::string text;
  for (const ExitCodeHelp& code : kExitCodes)
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", int(code.code), roff(sentence(code.meaning)));
  return text;
}

}  // namespace

std::string program_page(const CommandHelp& program, const std::vector<CommandHelp>& commands,
                         const std::string& version) {
  std::string list;
  for (const CommandHelp& command : commands)
    list += fmt::format(".TP\n\\fBattest\\-{}\\fR(1)\n{}\n", roff(command.name),
                        roff(sentence(command.summary)));
  return title("attest", version) +
         section("NAME", "attest \\- judge and time attention implementations\n") +
         section("SYNOPSIS", "\\fBattest\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR ...]\n") +
         section("DESCRIPTION", roff(program.summary) + "\n") + section("COMMANDS", list) +
         section("OPTIONS", entries(program, false)) + section("\"EXIT STATUS\"", exit_codes());
}

std::string command_page(const CommandHelp& command, const std::string& version) {
  std::string synopsis = fmt::format("\\fBattest {}\\fR [\\fIOPTION\\fR ...]", roff(command.name));
  for (const OptionHelp& option : command.options)
    if (option.positional) synopsis += " " + argument(option);
  return title("attest-" + command.name, version) +
         section("NAME",
                 fmt::format("attest\\-{0} \\- {1}\n", roff(command.name), roff(command.summary))) +
         section("SYNOPSIS", synopsis + "\n") + section("ARGUMENTS", entries(command, true)) +
         section("OPTIONS", entries(command, false)) +
         section("EXAMPLES", examples(command.footer)) +
         section("\"SEE ALSO\"", "\\fBattest\\fR(1), for the exit status too.\n");
}

}  // namespace attest::cli
