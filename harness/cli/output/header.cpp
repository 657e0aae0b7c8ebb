#include "cli/output/header.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <set>
#include <string_view>

#include "core/measure/machine/environment.hpp"
#include "core/tensor/tensor.hpp"

namespace attest::cli {

namespace {

// "2026-01-31T12:00:00"
std::string print_utc(std::time_t time) {
  char text[32];
  std::tm utc{};
  gmtime_r(&time, &utc);
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  return text;
}

// With milliseconds: launches that take turns are told apart by when they started.
std::string utc_start() {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  return fmt::format("{}.{:03}Z", print_utc(now.tv_sec), now.tv_nsec / 1000000);
}

// Variables of a terminal or a job, different from one to the next, of which no kernel makes
// anything.
constexpr std::string_view kOfTheSession[] = {
    "ACTIONS_", "AGENT_",        "BUILDKITE_", "BUILD_",  "CIRCLE_",        "CI_",
    "COLUMNS",  "DBUS_",         "DISPLAY",    "GITHUB_", "HISTFILE",       "HOME",
    "HOSTNAME", "INVOCATION_ID", "JENKINS_",   "JOB_",    "JOURNAL_STREAM", "LESS",
    "LINES",    "LOGNAME",       "LS_COLORS",  "MAIL",    "OLDPWD",         "PS1",
    "PWD",      "RUNNER_",       "SHELL",      "SHLVL",   "SSH_",           "STY",
    "SYSTEMD_", "TERM",          "TMUX",       "TRAVIS_", "USER",           "VSCODE_",
    "WINDOWID", "XDG_",          "_"};

bool is_of_the_session(std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  return std::ranges::any_of(kOfTheSession, [&](std::string_view known) {
    return known.ends_with('_') && known.size() > 1 ? name.starts_with(known) : name == known;
  });
}

// Whatever else could change how fast a kernel is: one that is not known to be of the session
// counts.
std::string hash_variables() {
  std::set<std::string> variables;
  for (char** at = environ; *at; ++at)
    if (!is_of_the_session(*at)) variables.insert(*at);
  std::string all;
  for (const std::string& variable : variables) all += variable + '\n';
  return core::hex(core::hash_text(all));
}

}  // namespace

std::string utc_now() { return print_utc(std::time(nullptr)) + "Z"; }

core::Header make_header(const std::string& command, const core::Implementations& implementations,
                         int32_t threads) {
  core::Header header{command, utc_start(), core::read_environment()};
  header.environment["run"] = {{"pinned_cpus", implementations.cpus()},
                               {"threads", std::to_string(threads)},
                               {"variables_hash", hash_variables()}};
  if (!implementations.shared_names().empty())
    header.environment["shared_names"] = implementations.shared_names();
  for (const char* variable :
       {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_PROC_BIND", "OMP_PLACES"})
    if (const char* value = std::getenv(variable)) header.environment["run"][variable] = value;
  if (core::machine_is_made_up()) header.environment["run"]["machine"] = "made up";
  return header;
}

}  // namespace attest::cli
