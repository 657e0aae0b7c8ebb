// Records that passed and files of them, for tests that make one thing worse.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/record/results.hpp"
#include "core/tensor/random.hpp"

namespace attest::testing {

/// 20 samples around `ns`, which differ by 0.1 %.
inline core::TimeRecord time_of(double ns, uint64_t seed = 1) {
  core::TimeRecord time;
  for (uint64_t i = 0; i < 20; ++i)
    time.samples_ns.push_back(ns * (1 + 1e-3 * double(core::random_normal(seed, i))));
  return time;
}

/// A case of flash_cuda that passed in `ns` nanoseconds, with an error of 0.4 of its gate.
inline core::Record passed(const std::string& impl = "flash_cuda", double ns = 1e6) {
  core::Record r;
  r.suite = "vit";
  r.case_name = "a";
  r.spec = "softmax seq_len_q=64";
  r.inputs = "random";
  r.impl = impl;
  r.plugin_hash = "00ff00ff00ff00ff";
  r.dtype = "f16";
  r.device = "cuda";
  r.threads = 2;
  r.outcome = {};
  r.fills.resize(1);
  r.fills[0].fill = "random";
  r.fills[0].inputs_hash = "0123456789abcdef";
  r.fills[0].outputs_hash = "fedcba9876543210";
  r.fills[0].judgement.max_ratio = 0.4;
  r.fills[0].judgement.rms_ratio = 0.3;
  r.fills[0].judgement.exact_elements = 10;
  r.time = time_of(ns);
  r.memory.workspace_bytes = 1 << 20;
  r.memory.pool_peak_bytes = 0;
  return r;
}

/// One launch on an H200.
inline core::Results file(std::vector<core::Record> records,
                          const std::string& started = "2026-01-01T00:00:00Z") {
  core::Results results;
  results.path = "x.jsonl";
  results.records = std::move(records);
  results.begun = results.complete = true;
  results.header = {"attest run",
                    started,
                    {{"cuda", {{"name", "H200"}}},
                     {"cpu", {{"model", "EPYC"}}},
                     {"build", {{"build_type", "Release"}}}}};
  return results;
}

}  // namespace attest::testing
