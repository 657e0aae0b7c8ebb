// The harness's side of a plugin: a worker process that loads it, started again when it dies.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/inputs/buffers.hpp"
#include "core/judge/verdict.hpp"
#include "core/run/channel.hpp"
#include "core/run/status_page.hpp"

namespace attest::core {

/// One table of a plugin, as a value of the harness.
struct Implementation {
  std::string name, version, summary;
  std::string plugin;        // file name of the library
  uint64_t binary_hash = 0;  // XXH3 of the library file
  size_t table = 0;
  int32_t operation = 0, device = ATTEST_CPU;
  uint64_t dtypes = 0, features = 0;
};

/// "f32,f16" for a set of ATTEST_BIT(dtype).
std::string print_dtypes(uint64_t bits);

/// "" when the table lists all that the problem needs, else what it lacks, by name. The host refuses by this alone, so that an
/// old plugin is never asked about a feature that it does not know.
std::string refuses(const Implementation& implementation, const Problem& problem);

/// A call that gave no result.
struct Failure {
  Verdict verdict = Verdict::kError;
  std::string code, reason;
};

struct QueryResult {
  std::optional<Failure> failure;
  attest_status status = ATTEST_OK;
  attest_support support{};
  std::string message;  // why not, when status is not ATTEST_OK
};

struct RunResult {
  std::optional<Failure> failure;
  double create_ns = 0, run_ns = 0;
  std::optional<uint64_t> peak_bytes;  // growth of resident memory over create and run, tensors not counted
};

struct TimeResult {
  std::optional<Failure> failure;
  std::vector<double> samples_ns, cold_samples_ns;
  int64_t iterations_per_sample = 1;
  double warmup_ns = 0, create_ns = 0;
};

struct WorkerOptions {
  std::filesystem::path executable;  // attest-worker
  std::string cpus;                  // "0,1": CPUs that the worker may use; empty: all
  int32_t threads = 1;
  double timeout_s = 60;  // of one call
};

/// attest-worker beside this program or in the libexec of its prefix, or $ATTEST_WORKER. Throws Error when there is none.
std::filesystem::path find_worker();

class Plugin {
 public:
  /// Starts a worker for the library at `path`, without waiting for it.
  Plugin(const std::filesystem::path& path, const WorkerOptions& options);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  /// Waits for the worker to have loaded it. Throws Error: what is wrong with the library, in one line.
  const std::vector<Implementation>& implementations();
  const std::string& file_name() const { return file_name_; }
  const std::filesystem::path& path() const { return path_; }
  /// Notes on what is no failure but worth knowing: modes changed at load, a flood of output (which is cut).
  std::vector<std::string> habits();

  QueryResult query(const Implementation& implementation, const Problem& problem);
  RunResult run(const Implementation& implementation, const Problem& problem, const SharedTensors& inputs,
                const SharedTensors& outputs);
  /// `expected_ns`: one run, as measured; `budget_ns`: for all samples.
  TimeResult time(const Implementation& implementation, const Problem& problem, const SharedTensors& inputs,
                  const SharedTensors& outputs, double expected_ns, double budget_ns);

 private:
  void start();
  void stop();
  nlohmann::json request(const char* what, const Implementation& implementation, const Problem& problem) const;
  template <class Read>
  std::optional<Failure> call(const nlohmann::json& request, const Problem& problem, std::span<const int> descriptors,
                              double timeout_s, const Read& read);
  static std::optional<Failure> reported_failure(const nlohmann::json& reply);
  Failure death(const Problem* problem);
  std::string fault_place(const Problem* problem, std::string& code) const;
  std::string said() const;

  std::filesystem::path path_;
  std::string file_name_;
  WorkerOptions options_;
  std::vector<Implementation> implementations_;
  pid_t pid_ = -1;
  std::optional<Channel> channel_;
  Descriptor output_;
  StatusPage* status_ = nullptr;
  Descriptor status_file_;
  bool changed_modes_at_load_ = false;
};

}  // namespace attest::core
