// One table: a row for each record, times in nanoseconds, sizes in bytes. Empty cells: not
// measured.
#include <fmt/format.h>

#include "reports/formats/printers.hpp"
#include "reports/words/escape.hpp"
#include "reports/words/machine.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Results;

struct Column {
  const char* name;
  std::string (*cell)(const Results& run, const Record& record);
};

std::string number_text(double value) { return fmt::format("{}", value); }

template <auto kField>
std::string of_record(const Results&, const Record& record) {
  if constexpr (std::is_same_v<decltype(kField), std::string Record::*>)
    return csv_text(record.*kField);
  else
    return number_text(record.*kField);
}

template <auto kField>
std::string of_time(const Results&, const Record& record) {
  return record.time ? number_text((*record.time).*kField) : "";
}

template <auto kField>
std::string of_memory(const Results&, const Record& record) {
  const auto& value = record.memory.*kField;
  if constexpr (requires { value.has_value(); })
    return value ? number_text(double(*value)) : "";
  else
    return number_text(double(value));
}

/// A time that is 0 where it was not measured.
std::string cold_median(const Results&, const Record& record) {
  return record.time && record.time->cold_median_ns > 0 ? number_text(record.time->cold_median_ns)
                                                        : "";
}

constexpr Column kColumns[] = {
    {"file", [](const Results& run, const Record&) { return csv_text(file_name(run)); }},
    {"started", [](const Results& run, const Record&) { return csv_text(run.header.started); }},
    {"machine",
     [](const Results& run, const Record& record) { return csv_text(machine(run, record)); }},
    {"commit",
     [](const Results& run, const Record&) { return csv_text(fact(run, "build", "commit")); }},
    {"suite", of_record<&Record::suite>},
    {"case", of_record<&Record::case_name>},
    {"dtype", of_record<&Record::dtype>},
    {"impl", of_record<&Record::impl>},
    {"verdict", [](const Results&,
                   const Record& record) { return std::string(name(record.outcome.verdict())); }},
    {"code",
     [](const Results&, const Record& record) { return std::string(name(record.outcome.code)); }},
    {"reason",
     [](const Results&, const Record& record) { return csv_text(record.outcome.reason); }},
    {"max_ratio", of_record<&Record::max_ratio>},
    {"rms_ratio", of_record<&Record::rms_ratio>},
    {"median_ns", of_time<&core::TimeRecord::median_ns>},
    {"median_low_ns", of_time<&core::TimeRecord::median_low_ns>},
    {"median_high_ns", of_time<&core::TimeRecord::median_high_ns>},
    {"q1_ns", of_time<&core::TimeRecord::q1_ns>},
    {"q3_ns", of_time<&core::TimeRecord::q3_ns>},
    {"min_ns", of_time<&core::TimeRecord::min_ns>},
    {"max_ns", of_time<&core::TimeRecord::max_ns>},
    {"samples",
     [](const Results&, const Record& record) {
       return record.time ? fmt::format("{}", record.time->samples_ns.size()) : "";
     }},
    {"cold_median_ns", cold_median},
    {"create_ns", of_time<&core::TimeRecord::create_ns>},
    {"gflops",
     [](const Results&, const Record& record) {
       return record.time ? number_text(record.gflops()) : "";
     }},
    {"roofline_share",
     [](const Results&, const Record& record) {
       return record.roofline ? number_text(record.roofline->share) : "";
     }},
    {"roofline_limit",
     [](const Results&, const Record& record) {
       return record.roofline ? csv_text(record.roofline->limit) : "";
     }},
    {"flops_per_byte",
     [](const Results&, const Record& record) {
       return record.roofline && record.roofline->flops_per_byte
                  ? number_text(*record.roofline->flops_per_byte)
                  : "";
     }},
    {"peak_bytes", of_memory<&core::MemoryRecord::peak_bytes>},
    {"workspace_bytes", of_memory<&core::MemoryRecord::workspace_bytes>},
    {"tensor_bytes", of_memory<&core::MemoryRecord::tensor_bytes>},
    {"flops", of_record<&Record::flops>},
    {"min_bytes", of_record<&Record::min_bytes>},
    {"operation", of_record<&Record::operation>},
    {"features", of_record<&Record::features>},
    {"device", of_record<&Record::device>},
    {"threads", of_record<&Record::threads>},
    {"plugin", of_record<&Record::plugin>},
    {"plugin_hash", of_record<&Record::plugin_hash>},
    {"impl_version", of_record<&Record::impl_version>},
    {"arithmetic", of_record<&Record::arithmetic>},
    {"spec", of_record<&Record::spec>},
    {"inputs", of_record<&Record::inputs>},
    {"repro", of_record<&Record::repro>},
};

}  // namespace

std::string print_csv(const Input& input, const Style&) {
  std::string text;
  for (const Column& column : kColumns)
    text += fmt::format("{}{}", text.empty() ? "" : ",", column.name);
  text += "\n";
  for (const Results& run : input.runs)
    for (const Record& record : run.records) {
      bool first = true;
      for (const Column& column : kColumns) {
        text += (first ? "" : ",") + column.cell(run, record);
        first = false;
      }
      text += "\n";
    }
  return text;
}

}  // namespace attest::reports
