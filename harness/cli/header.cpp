#include "cli/header.hpp"

#include <cstdlib>
#include <ctime>

#include "core/measure/environment.hpp"
#include "core/measure/probe.hpp"

namespace attest::cli {

core::Header make_header(const std::string& command, const std::string& cpus, int threads) {
  char started[32];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(started, sizeof(started), "%Y-%m-%dT%H:%M:%SZ", &utc);
  core::Header header{command, started, core::read_environment()};
  header.environment["run"] = {{"pinned_cpus", cpus}, {"threads", std::to_string(threads)}};
  for (const char* variable : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_PROC_BIND", "OMP_PLACES"})
    if (const char* value = std::getenv(variable)) header.environment["run"][variable] = value;
  header.environment["limits"] = facts(core::probe_machine(threads));
  return header;
}

}  // namespace attest::cli
