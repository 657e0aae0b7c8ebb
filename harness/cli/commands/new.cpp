// attest new: writes a complete implementation, or an operation, to start from.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>

#include "cli/commands/commands.hpp"
#include "cli/commands/templates.hpp"
#include "cli/exit_code.hpp"
#include "cli/options/command_line.hpp"
#include "cli/options/replaced.hpp"
#include "core/operations/operation.hpp"
#include "core/run/plugins/plugin.hpp"

namespace attest::cli {
namespace {

namespace fs = std::filesystem;

// The operations of attest that have templates.
constexpr std::string_view kForward = "softmax", kGradients = "softmax_backward";

struct NewArguments {
  std::string name;
  bool c = false, cuda = false;
  bool private_operation = false;
  std::string operation;  // of attest, that is to be implemented; empty: softmax
};

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

void check_name(const std::string& name) {
  const bool good =
      !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
          name.npos;
  if (!good)
    throw core::Error(
        fmt::format("'{}': a name is letters, digits and underscores, a letter first", name));
}

void refuse_existing(const fs::path& path) {
  if (fs::exists(path))
    throw core::Error(
        fmt::format("{} exists already; choose another name, or remove it first", path.string()));
}

// The template with the user's names in it.
std::string filled(const Template& from, const std::string& name) {
  std::string text = replaced(std::string(from.text), from.name, name);
  text = replaced(std::move(text), from.type, type_name(name));
  text = replaced(std::move(text), "plugin.so plugin.c", fmt::format("{0}.so {0}.c", name));
  return replaced(std::move(text), "attest::testing", "attest::own");
}

void write(const Template& from, const std::string& name) {
  const fs::path file = replaced(std::string(from.file), "NAME", name);
  std::ofstream out(file);
  out << replaced(filled(from, name), "\"testing/", "\"");
  if (!out.flush())
    throw core::MachineError(fmt::format("{}: {}", file.string(), std::strerror(errno)));
}

/// A template of an implementation.
struct Kind {
  const Template& from;
  const char* what;
};

Kind kind_of(const NewArguments& arguments) {
  if (arguments.operation == kGradients)
    return {kBackwardTemplate,
            "a complete implementation of the gradients of softmax attention, slow and right"};
  if (!arguments.operation.empty() && arguments.operation != kForward)
    throw core::Error(fmt::format(
        "--operation {}: there is a template of {} and of {}; without a value, --operation writes "
        "an operation of your own",
        arguments.operation, kForward, kGradients));
  if (arguments.c) return {kCTemplate, "attention by definition, in C: f32, dense, causal or not"};
  if (arguments.cuda)
    return {kCudaTemplate,
            "a complete implementation of softmax attention for CUDA, slow and right"};
  return {kCxxTemplate, "a complete implementation of softmax attention, slow and right"};
}

void write_implementation(const NewArguments& arguments) {
  const Kind kind = kind_of(arguments);
  const std::string file = replaced(std::string(kind.from.file), "NAME", arguments.name);
  refuse_existing(file);
  write(kind.from, arguments.name);
  const std::string folder = include_folder();
  if (folder.empty())
    fmt::print(stderr,
               "attest: warning: attest.h is not beside this program; put its folder in the place "
               "of FOLDER\n");
  fmt::print("{}: {}. Build it and have it judged:\n\n  {}\n  attest run --plugin ./{}.so\n", file,
             kind.what, core::compile_command(file, folder.empty() ? "FOLDER" : shell_word(folder)),
             arguments.name);
}

void write_operation(const std::string& name) {
  if (core::find_operation(name))
    throw core::Error(fmt::format("'{}' is an operation of attest; choose another name", name));
  refuse_existing(name);
  std::error_code error;
  if (!fs::create_directory(name, error))
    throw core::MachineError(fmt::format("{}: {}", name, error.message()));
  for (const Template& one : operation_templates()) write(one, name);
  fmt::print(
      "{0}/: the operation {0}, y = factor * x as a template, with an implementation in C and a "
      "suite.\nBuild them into attest, in its source folder, and have the implementation "
      "judged:\n\n"
      "  cmake --preset release -DATTEST_OPERATIONS={1}\n"
      "  cmake --build --preset release\n"
      "  build/release/bin/attest run {2}\n\n"
      "harness/core/operations/README.md explains each part.\n",
      name, shell_word(fs::absolute(name).string()),
      shell_word((fs::absolute(name) / (name + ".json")).string()));
}

int run(const NewArguments& arguments) {
  check_name(arguments.name);
  if (arguments.private_operation)
    write_operation(arguments.name);
  else
    write_implementation(arguments);
  return kOk;
}

}  // namespace

Command add_new(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "new",
      "write NAME.cpp, a complete implementation to start from; or one in C, for CUDA or of "
      "gradients, or an operation");
  auto arguments = std::make_shared<NewArguments>();
  command->add_option("name", arguments->name, "letters, digits and underscores")
      ->required()
      ->type_name("NAME");
  CLI::Option* c = command->add_flag("--c", arguments->c, "write NAME.c, in C");
  CLI::Option* cuda = command->add_flag("--cuda", arguments->cuda, "write NAME.cu, for CUDA");
  CLI::Option* operation =
      command
          ->add_option("--operation", arguments->operation,
                       "write NAME.cpp, an implementation of this operation of attest; without a "
                       "value, NAME/, a private operation with an implementation and a suite")
          ->expected(0, 1)
          ->type_name(fmt::format("[{}|{}]", kForward, kGradients));
  c->excludes(cuda)->excludes(operation);
  cuda->excludes(operation);
  command->footer(
      "Example: attest new my_kernel\n"
      "         attest new my_gradients --operation softmax_backward");
  return [arguments, operation] {
    arguments->private_operation = operation->count() > 0 && arguments->operation.empty();
    return run(*arguments);
  };
}

}  // namespace attest::cli
