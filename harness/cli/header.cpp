#include "cli/header.hpp"

#include <cstdlib>
#include <ctime>

#include "core/measure/environment.hpp"
#include "core/measure/probe.hpp"

namespace attest::cli {

std::string utc_now() {
  char text[32];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

core::Header make_header(const std::string& command, const std::string& cpus, int threads) {
  core::Header header{command, utc_now(), core::read_environment()};
  header.environment["run"] = {{"pinned_cpus", cpus}, {"threads", std::to_string(threads)}};
  for (const char* variable : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_PROC_BIND", "OMP_PLACES"})
    if (const char* value = std::getenv(variable)) header.environment["run"][variable] = value;
  header.environment["limits"] = facts(core::probe_machine(threads));
  return header;
}

}  // namespace attest::cli
