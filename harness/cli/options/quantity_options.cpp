#include "cli/options/quantity_options.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "core/inputs/formats/bytes.hpp"
#include "core/problem/quantities.hpp"
#include "core/tensor/error.hpp"

namespace attest::cli {

using core::in_quotes;

CLI::Option* add_seconds(CLI::App& command, const std::string& name, double& seconds,
                         const std::string& help, double least, double most) {
  CLI::Option* option = command.add_option_function<std::string>(
      name,
      [=, &seconds](const std::string& text) {
        const std::optional<double> value = core::parse_seconds(text);
        if (!value)
          throw CLI::ValidationError(
              name, fmt::format("{}: must be {}", in_quotes(text), core::kSecondsWords));
        if (*value < least || *value > most)
          throw CLI::ValidationError(
              name, fmt::format("{}: must be from {} to {}", in_quotes(text),
                                core::print_seconds(least), core::print_seconds(most)));
        seconds = *value;
      },
      help);
  if (seconds > 0) option->default_str(core::print_seconds(seconds));
  return option->type_name("TIME");
}

CLI::Option* add_period(CLI::App& command, const std::string& name, double& seconds,
                        const std::string& help, double least, double most) {
  return command
      .add_option_function<std::string>(
          name,
          [=, &seconds](const std::string& text) {
            const std::optional<double> period = core::parse_period(text);
            if (!period || *period < least || *period > most)
              throw CLI::ValidationError(
                  name,
                  fmt::format("{}: must be {}, from {} to {}", in_quotes(text), core::kPeriodWords,
                              core::print_seconds(least), core::print_seconds(most)));
            seconds = *period;
          },
          help)
      ->type_name("RATE");
}

CLI::Option* add_bytes(CLI::App& command, const std::string& name, uint64_t& bytes,
                       const std::string& help, uint64_t least) {
  CLI::Option* option = command.add_option_function<std::string>(
      name,
      [=, &bytes](const std::string& text) {
        const std::optional<uint64_t> value = core::parse_bytes(text);
        if (!value)
          throw CLI::ValidationError(
              name, fmt::format("{}: must be {}", in_quotes(text), core::kBytesWords));
        if (*value < least)
          throw CLI::ValidationError(name, fmt::format("{}: must be at least {}", in_quotes(text),
                                                       core::print_whole_bytes(least)));
        bytes = *value;
      },
      help);
  return option->type_name("SIZE");
}

CLI::Option* require_unit(CLI::Option* option, const std::vector<std::string>& units) {
  return option->check([=](const std::string& text) {
    const std::optional<double> number = core::parse_number<double>(text);
    // What is not above 0, or not finite, is refused in the option's own words.
    if (!number || !(*number > 0) || !std::isfinite(*number)) return std::string();
    std::string examples;
    for (const std::string& unit : units)
      examples += fmt::format("{}{}{}",
                              examples.empty()         ? ""
                              : &unit == &units.back() ? " or "
                                                       : ", ",
                              text, unit);
    return fmt::format("{} has no unit: say {}", text, examples);
  });
}

CLI::Option* add_number(CLI::App& command, const std::string& name,
                        std::function<void(double)> take, const std::string& help, double least,
                        double most) {
  return command.add_option_function<std::string>(
      name,
      [=, take = std::move(take)](const std::string& text) {
        const std::optional<double> value = core::parse_number<double>(text);
        if (!value || !(*value >= least && *value <= most))  // NaN is neither
          throw CLI::ValidationError(name, fmt::format("{}: must be a number from {} to {}",
                                                       in_quotes(text), least, most));
        take(*value);
      },
      help);
}

std::string quantity_help() {
  return fmt::format("TIME: {}.\nSIZE: {}.\nCounts of a spec line: {}; 256k is 262,144.",
                     core::kSecondsWords, core::kBytesWords, core::kCountWords);
}

}  // namespace attest::cli
