#include "cli/options/pacing_options.hpp"

#include <fmt/format.h>

#include "cli/options/quantity_options.hpp"
#include "core/problem/quantities.hpp"
#include "core/tensor/error.hpp"

namespace attest::cli {
namespace {

// Frames longer apart are no frames; shorter ones are no longer timed by sleeping.
constexpr double kLongest_s = 60, kShortest_s = 1e-4;

core::NeighbourSpec neighbours_in(const std::string& text) {
  try {
    return core::parse_neighbours(text);
  } catch (const core::Error& error) {
    throw CLI::ValidationError(
        "--contend", fmt::format("{}. Write KIND:N, and commas between several: stream:2,camera:1",
                                 error.what()));
  }
}

}  // namespace

void PacingOptions::add_to(CLI::App& app) {
  require_unit(
      add_period(
          app, "--paced", period_s,
          "after the timed runs, release one frame a period, with new inputs and emptied caches: a "
          "rate (12Hz) or a time (50ms); latency counts from the scheduled arrival, and the period "
          "is the deadline",
          kShortest_s, kLongest_s),
      {"Hz", "ms"});
  window_option = add_seconds(app, "--paced-for", window_s,
                              "how long frames are released, alone and contended each", 0.01, 1e5);
  app.add_option_function<std::vector<std::string>>(
         "--contend",
         [this](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) neighbours.push_back(neighbours_in(text));
         },
         "release the frames again beside neighbours: N threads of stream (copies memory; "
         "stream:N@5 limits each to 5 GB/s), cache, compute or camera (30 frames a second), or N "
         "processes of same (the implementation itself); several with commas between them, such as "
         "stream:2@5,camera:1, or by repeating the option")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("KIND:N");
  app.add_flag("--energy", energy,
               "measure the energy of a run by every sensor of the machine, in 3 s");
}

void PacingOptions::apply_to(core::RunOptions& options) const {
  options.energy = energy;
  if (period_s == 0) {
    if (!neighbours.empty()) throw core::Error("--contend goes with --paced RATE");
    if (window_option && window_option->count() > 0)
      throw core::Error("--paced-for goes with --paced RATE");
    return;
  }
  options.pace = core::PaceOptions{
      .period_ns = period_s * 1e9, .window_ns = window_s * 1e9, .neighbours = neighbours};
}

std::string PacingOptions::words() const {
  std::string words = energy ? " --energy" : "";
  if (period_s == 0) return words;
  words += " --paced " + core::print_period(period_s);
  if (window_s != kUsualWindow_s) words += " --paced-for " + core::print_seconds(window_s);
  for (const core::NeighbourSpec& spec : neighbours) words += " --contend " + spec.print();
  return words;
}

}  // namespace attest::cli
