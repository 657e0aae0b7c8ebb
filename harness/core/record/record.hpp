// Records: one (implementation, case) each, and the header and the closing line of a results file.
// A record is one JSON line; to_json and from_json are inverses. reports/results.schema.json
// describes the lines.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/device/device_times.hpp"
#include "core/device/host_usage.hpp"
#include "core/judge/check.hpp"
#include "core/record/paced.hpp"
#include "core/record/reruns.hpp"

namespace attest::core {

/// Grows when a field changes its meaning or goes; new fields do not count. Files of this version
/// and of older ones are read.
inline constexpr int kSchemaVersion = 1;

/// One set of inputs and what was said of the outputs.
struct FillRecord {
  std::string fill;  // "tokens", "random", "codebook" ...
  std::string seed;  // 16 hexadecimal digits: JSON readers keep 53 bits of a number
  std::string inputs_hash, outputs_hash;  // 16 hexadecimal digits; empty: not reached
  Judgement judgement;
  double run_ns = 0,
         golden_ns = 0;  // wall time of the judged run; of the golden and the comparison together
  std::optional<RerunRecord> reruns;
};

/// One relation between runs (operations/relation.hpp) and whether it held.
struct RelationRecord {
  std::string relation;   // "key-permutation"
  Judgement judgement{};  // unsupported: the implementation does not take a problem that it needs
  double run_ns = 0;      // wall time of its runs
  std::optional<RerunRecord> reruns{};  // of all its runs, when it did not hold
};

/// How times by a device's own clock were taken.
struct DeviceTimeRecord : DeviceTimes {
  // Clocks, temperature, power, what holds clocks down, the energy counter; as far as they are
  // known.
  std::map<std::string, std::string> before, after;
};

struct TimeRecord {
  std::vector<double> samples_ns,
      cold_samples_ns;  // one run each, averaged over iterations_per_sample
  int64_t iterations_per_sample = 1;
  double median_ns = 0, q1_ns = 0, q3_ns = 0, min_ns = 0, max_ns = 0, median_low_ns = 0,
         median_high_ns = 0, coverage = 0;
  double cold_median_ns = 0;  // 0: not measured
  double warmup_ns = 0, create_ns = 0;
  std::optional<int64_t> audited_runs;    // timed runs, chosen at random, whose outputs were judged
  std::optional<double> audits_ns;        // runs beside the samples, for the audits
  std::optional<std::string> audit_seed;  // of that choice; 16 hexadecimal digits
  std::optional<DeviceTimeRecord> device;
  std::optional<HostUsage> usage;  // of the samples, where the host's clock was read
};

struct MemoryRecord {
  uint64_t workspace_bytes = 0;  // declared
  std::optional<uint64_t>
      peak_bytes;  // measured growth over create and run, workspace included, tensors not
  // Of a device: the most that create and run had from its pool, workspace and tensors not; and
  // what that does not count.
  std::optional<uint64_t> pool_peak_bytes;
  std::optional<std::string> unseen;
  double tensor_bytes = 0;
};

/// How near a time comes to the limits of the machine (run/rooflines/roofline.hpp).
struct RooflineRecord {
  double share =
      0;  // least_ns / median_ns; above 1 the harness is wrong: in its peaks or its counts
  std::string limit;    // what binds: "f32 AVX3", "bf16 AMX", "L2 reads", "memory reads"
  double least_ns = 0;  // what a run takes at least on this machine
  // Arithmetic intensity; nothing where a run need not read all of its tensors
  std::optional<double> flops_per_byte;
};

/// Which point of a sweep a record is: a sweep is one problem at many sizes.
struct SweepPoint {
  std::string sweep;  // its name in the suite
  std::string over;   // the field that grows; empty: the smallest problem, for the launch cost
  int64_t value = 0;  // of that field
  // What one run may take; the largest size within it is looked for. memory_bytes counts tensors
  // and measured peak together.
  std::optional<double> deadline_ns;
  std::optional<uint64_t> memory_bytes;
};

/// A Jetson board before and after the runs that were measured (measure/machine/board/board.hpp).
struct BoardRecord {
  std::map<std::string, std::string> before, after;  // "power_mode", "gpu_mhz" ... where known
  std::map<std::string, std::string> missing;        // why a key is missing in one of these
  std::map<std::string, int64_t> over_current;       // "1": how often the hardware throttled so
};

struct Record {
  std::string suite, case_name, spec, inputs, source;
  std::string impl, impl_version, plugin, plugin_hash;
  std::optional<std::string>
      libraries_hash;  // of all that its process had loaded, where it was timed
  std::string operation, dtype, features, device;
  int32_t threads = 1;
  std::optional<std::string> launch;  // in a baseline: Header::started of the launch that made it
  std::optional<SweepPoint> sweep;
  Outcome outcome{ReasonCode::kErrorGolden, "nothing was judged"};
  std::string arithmetic;               // as declared; empty where query was not reached
  double max_ratio = 0, rms_ratio = 0;  // the worst over the fills
  // Of an operation that stands in for softmax attention (Operation::distance_from_softmax)
  std::optional<double> softmax_distance;
  std::vector<FillRecord> fills;
  std::vector<RelationRecord> relations;  // as far as they were tried
  std::optional<TimeRecord> time;
  std::optional<RooflineRecord> roofline;
  std::optional<PacedRecord> paced;
  std::optional<std::vector<EnergyRecord>> energy;  // by each sensor
  std::optional<BoardRecord> board;
  // What happened to the machine while it was measured, which makes the times doubtful. Absent:
  // nothing is known to have happened
  std::optional<std::vector<std::string>> noisy;
  MemoryRecord memory;
  double flops = 0, min_bytes = 0;
  double estimated_ns = 0, estimated_bytes = 0;
  std::vector<std::string> notes;
  std::string repro;
  std::map<std::string, std::string>
      unknown;  // fields that a newer attest wrote, as JSON; they are written back

  /// flops / median time; 0 where nothing was timed.
  double gflops() const;
};

/// Facts about machine, build and run, as "group" -> "key" -> text or number already in JSON form.
struct Header {
  std::string command;  // as given, without absolute paths
  std::string started;  // UTC, ISO 8601
  std::map<std::string, std::map<std::string, std::string>> environment;
};

/// The first fill whose outputs were judged to be bad; null: none was.
FillRecord* first_bad_fill(Record& record);

/// The last line: the run came to its end. A file without it was cut short.
struct Closing {
  std::string finished;  // UTC, ISO 8601
  size_t results = 0;
  std::map<std::string, int> verdicts;  // how many of each
  // By implementation: features and dtypes that its table lists and that no judged record had.
  std::map<std::string, std::vector<std::string>> never_judged;
  // By implementation: why its passes are suspect (record/races.hpp).
  std::map<std::string, std::string> races;

  static Closing of(const std::vector<Record>& records, std::string finished);
};

nlohmann::json to_json(const Record& record);
nlohmann::json to_json(const ErrorMap& map);
nlohmann::json to_json(const Closing& closing);
nlohmann::json to_json(const Header& header);
/// Throws Error: the schema of the file is newer than kSchemaVersion, or a key is missing.
Header header_from_json(const nlohmann::json& line);
Closing closing_from_json(const nlohmann::json& line);
/// Throws Error: which key is missing or of the wrong type.
Record record_from_json(const nlohmann::json& line);

}  // namespace attest::core
