#include "cli/help/help_text.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace attest::cli {
namespace {

// "S:FLOAT in [0.001 - 1e+06]" without what its check adds.
std::string value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {};
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

OptionHelp help_of(const CLI::Option& option) {
  OptionHelp help{.value = value_of(option),
                  .preset = option.get_default_str(),
                  .text = option.get_description(),
                  .positional = option.get_positional(),
                  .required = option.get_required(),
                  .repeats = option.get_expected_max() > 1};
  for (const std::string& name : option.get_snames()) help.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) help.names.push_back("--" + name);
  if (help.positional) help.names = {option.get_name(true)};
  return help;
}

}  // namespace

std::string sentence(std::string text) {
  if (text.empty()) return text;
  text[0] = char(std::toupper(static_cast<unsigned char>(text[0])));
  return text + ".";
}

std::vector<std::string> OptionHelp::choices() const {
  std::vector<std::string> all;
  if (value.find('|') == value.npos) return all;
  std::istringstream words(value_is_optional() ? value.substr(1, value.size() - 2) : value);
  for (std::string word; std::getline(words, word, '|');) all.push_back(word);
  return all;
}

bool OptionHelp::value_is_optional() const { return value.starts_with('['); }

bool OptionHelp::takes_path() const {
  return value == "FILE" || value == "DIR" || value == "SUITE";
}

CommandHelp help_of(const CLI::App& app) {
  CommandHelp help{app.get_name(), app.get_description(), app.get_footer(), {}};
  for (const CLI::Option* option : app.get_options()) help.options.push_back(help_of(*option));
  return help;
}

std::vector<CommandHelp> help_of_commands(const CLI::App& program) {
  std::vector<CommandHelp> all;
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; }))
    all.push_back(help_of(*command));
  return all;
}

}  // namespace attest::cli
