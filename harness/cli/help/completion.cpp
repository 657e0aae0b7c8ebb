#include "cli/help/completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/options/replaced.hpp"

namespace attest::cli {
namespace {

// In single quotes, for bash and zsh.
std::string quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

std::vector<std::string> option_names(const CommandHelp& command) {
  std::vector<std::string> names;
  for (const OptionHelp& option : command.options)
    if (!option.positional) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

const OptionHelp* argument_of(const CommandHelp& command) {
  const auto found = std::ranges::find_if(command.options, &OptionHelp::positional);
  return found == command.options.end() ? nullptr : &*found;
}

// What the bash function sets for the value of an option, or for an argument.
std::string bash_candidates(const Completion& completion, const OptionHelp& option) {
  std::string text = fmt::format(
      "words={}", quoted(fmt::format("{}", fmt::join(completion.words_of(option), " "))));
  if (option.takes_path()) text += " files=1";
  return text;
}

std::string bash_command(const Completion& completion, const CommandHelp& command) {
  std::string text = fmt::format("    {})\n      case $previous in\n", command.name);
  for (const OptionHelp& option : command.options)
    if (!option.positional && !option.value.empty())
      text += fmt::format("        {}) {} ;;\n", fmt::join(option.names, "|"),
                          bash_candidates(completion, option));
  const OptionHelp* argument = argument_of(command);
  text += fmt::format("        *) {} ;;\n      esac\n      options='{}' ;;\n",
                      argument ? bash_candidates(completion, *argument) : ":",
                      fmt::join(option_names(command), " "));
  return text;
}

// A text in a bracket of _arguments, or before a colon of _describe.
std::string zsh_text(const std::string& text) {
  std::string safe;
  for (const char c : first_clause(text)) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') safe += '\\';
    safe += c;
  }
  return safe;
}

// ":VALUE:action", or "::VALUE:action" if the value may be left out; empty: a flag.
std::string zsh_value(const Completion& completion, const OptionHelp& option) {
  if (option.value.empty() && !option.positional) return {};
  const std::vector<std::string> words = completion.words_of(option);
  const std::string action = !words.empty()        ? fmt::format("({})", fmt::join(words, " "))
                             : option.takes_path() ? "_files"
                                                   : " ";
  return fmt::format("{}:{}:{}", option.value_is_optional() ? ":" : "",
                     option.choices().empty() ? option.value : "choice", action);
}

std::string zsh_command(const Completion& completion, const CommandHelp& command) {
  std::string text = fmt::format("    {})\n      _arguments -s", command.name);
  for (const OptionHelp& option : command.options) {
    const std::string value = zsh_value(completion, option);
    if (option.positional) {
      text += " \\\n        " + quoted((option.repeats ? "*" : "1") + value);
      continue;
    }
    for (const std::string& name : option.names)
      text += " \\\n        " + quoted(fmt::format("{}{}[{}]{}", option.repeats ? "*" : "", name,
                                                   zsh_text(option.text), value));
  }
  return text + " ;;\n";
}

std::string fish_quoted(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_option(const Completion& completion, const std::string& condition,
                        const OptionHelp& option) {
  std::string text = fmt::format("complete -c attest -n '{}'", condition);
  for (const std::string& name : option.names)
    if (!option.positional)
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  const std::vector<std::string> words = completion.words_of(option);
  if (!option.positional && !option.value.empty() && !option.value_is_optional()) text += " -r";
  text += option.takes_path() ? " -F" : " -f";
  if (!words.empty()) text += " -a " + fish_quoted(fmt::format("{}", fmt::join(words, " ")));
  if (!option.positional) text += " -d " + fish_quoted(first_clause(option.text));
  return text + "\n";
}

}  // namespace

std::vector<std::string> Completion::words_of(const OptionHelp& option) const {
  const auto known = words.find(option.value);
  return known == words.end() ? option.choices() : known->second;
}

std::string first_clause(std::string_view text) {
  constexpr size_t kLeast = 24;  // "for such a file: parameters ..." says nothing before its colon
  size_t end = text.size();
  for (const std::string_view stop : {"; ", ": ", " (", ", e.g."})
    end = std::min(end, text.find(stop, kLeast));
  return std::string(text.substr(0, end));
}

std::string bash_completion(const Completion& completion) {
  std::vector<std::string> names;
  std::string commands;
  for (const CommandHelp& command : completion.commands) {
    names.push_back(command.name);
    commands += bash_command(completion, command);
  }
  return fmt::format(
      R"(# Completes the arguments of attest in bash. Written by: attest completion bash
_attest() {{
  local line=${{COMP_LINE:0:COMP_POINT}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local word=${{line##*[[:space:]]}} words='' options='' files=''
  if ((COMP_CWORD == 1)); then words='{}' options='--help --version'; fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  if [[ $word == -* ]]; then words=$options files=; fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  if [[ $files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$word")
  fi
  # bash replaces only what follows the last colon of a word.
  if [[ $word == *:* ]]; then COMPREPLY=("${{COMPREPLY[@]#"${{word%:*}}:"}}"); fi
}}
complete -F _attest attest
)",
      fmt::join(names, " "), commands);
}

std::string zsh_completion(const Completion& completion) {
  std::string names, commands;
  for (const CommandHelp& command : completion.commands) {
    names += fmt::format("    {}\n", quoted(command.name + ":" + zsh_text(command.summary)));
    commands += zsh_command(completion, command);
  }
  return fmt::format(R"(#compdef attest
# Completes the arguments of attest in zsh. Written by: attest completion zsh
_attest() {{
  local -a commands=(
{}  )
  if ((CURRENT == 2)); then
    _describe -t commands command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
{}  esac
}}
if [[ $funcstack[1] == _attest ]]; then _attest "$@"; else compdef _attest attest; fi
)",
                     names, commands);
}

std::string fish_completion(const Completion& completion) {
  std::string text =
      "# Completes the arguments of attest in fish. Written by: attest completion fish\n"
      "complete -c attest -f\n";
  for (const CommandHelp& command : completion.commands)
    text += fmt::format("complete -c attest -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        fish_quoted(first_clause(command.summary)));
  for (const CommandHelp& command : completion.commands)
    for (const OptionHelp& option : command.options)
      text += fish_option(completion, "__fish_seen_subcommand_from " + command.name, option);
  return text;
}

}  // namespace attest::cli
