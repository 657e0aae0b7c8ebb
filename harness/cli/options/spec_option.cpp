#include "cli/options/spec_option.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attest::cli {

CLI::Option* add_spec(CLI::App& command, std::string& spec, const std::string& help) {
  return command
      .add_option_function<std::vector<std::string>>(
          "spec",
          [&spec](const std::vector<std::string>& words) {
            spec = fmt::format("{}", fmt::join(words, " "));
          },
          help)
      ->type_name("SPEC");
}

void add_inputs(CLI::App& command, std::string& inputs, std::vector<std::string>& token_files) {
  command
      .add_option("--inputs", inputs,
                  "random, or a token source such as lidar:voxel_size=0.05,curve=z,first=32k")
      ->capture_default_str()
      ->type_name("SOURCE");
  command
      .add_option("--tokens", token_files,
                  "the sweep or image that --inputs names, if it is not in this folder")
      ->allow_extra_args(false)
      ->type_name("FILE");
}

void add_fills(CLI::App& command, std::vector<std::string>& fills) {
  command
      .add_option("--fill", fills, "judge only on these fills; all: on every fill of the problem")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME");
}

}  // namespace attest::cli
