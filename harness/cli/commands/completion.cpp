// attest completion: writes the script with which a shell completes the arguments of attest.
#include <fmt/format.h>

#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/help/completion.hpp"
#include "core/judge/verdict.hpp"

namespace attest::cli {
namespace {

struct Shell {
  const char* name;
  std::string (*write)(const Completion&);
};
constexpr Shell kShells[] = {
    {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};

std::vector<std::string> reason_codes() {
  std::vector<std::string> codes;
  for (const core::Reason& reason : core::kReasons)
    if (!reason.name.empty()) codes.emplace_back(reason.name);
  return codes;
}

}  // namespace

Command add_completion(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "completion", "write the script with which a shell completes the arguments of attest");
  auto shell = std::make_shared<std::string>();
  std::vector<std::string> names;
  for (const Shell& one : kShells) names.emplace_back(one.name);
  command->add_option("shell", *shell, "the shell")
      ->required()
      ->check(CLI::IsMember(names).description(""))
      ->type_name(fmt::format("{}", fmt::join(names, "|")));
  command->footer(
      "Example: source <(attest completion bash)\n"
      "         attest completion zsh > ~/.zfunc/_attest\n"
      "         attest completion fish > ~/.config/fish/completions/attest.fish");
  return [shell, &program] {
    const Completion completion{help_of_commands(program), {{"CODE", reason_codes()}}};
    for (const Shell& one : kShells)
      if (*shell == one.name) fmt::print("{}", one.write(completion));
    return kOk;
  };
}

}  // namespace attest::cli
