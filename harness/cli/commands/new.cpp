// attest new: writes a complete implementation to start from.
#include <fmt/format.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/new_template.hpp"
#include "cli/exit_code.hpp"
#include "cli/machine_error.hpp"

namespace attest::cli {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// "my_kernel" -> "MyKernel".
std::string type_name(const std::string& name) {
  std::string type;
  bool upper = true;
  for (const char c : name) {
    if (c == '_') {
      upper = true;
      continue;
    }
    type += upper ? char(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = false;
  }
  return type;
}

int run(const std::string& name) {
  const bool good =
      !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
          name.npos;
  if (!good)
    throw core::Error(
        fmt::format("'{}': a name is letters, digits and underscores, a letter first", name));
  const std::filesystem::path file = name + ".cpp";
  if (std::filesystem::exists(file))
    throw core::Error(fmt::format("{} exists already", file.string()));
  std::ofstream out(file);
  out << replaced(replaced(kNewTemplate, kTemplateName, name), kTemplateType, type_name(name));
  if (!out.flush()) throw MachineError(fmt::format("{}: {}", file.string(), std::strerror(errno)));
  fmt::print(
      "{0}.cpp: a complete implementation of softmax attention, slow and right. Build it and have "
      "it judged:\n\n"
      "  c++ -std=c++17 -O3 -shared -fPIC -fvisibility=hidden -I{1} {0}.cpp -o {0}.so\n"
      "  attest run --plugin ./{0}.so\n",
      name, include_folder());
  return kOk;
}

}  // namespace

Command add_new(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("new", "write NAME.cpp, a complete implementation to start from");
  auto name = std::make_shared<std::string>();
  command->add_option("name", *name, "letters, digits and underscores")
      ->required()
      ->type_name("NAME");
  command->footer("Example: attest new my_kernel");
  return [name] { return run(*name); };
}

}  // namespace attest::cli
