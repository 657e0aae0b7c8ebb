#include "reports/projection/projection_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/input/input.hpp"
#include "reports/words/escape.hpp"
#include "reports/words/machine.hpp"
#include "reports/words/titles.hpp"
#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

using nlohmann::ordered_json;

constexpr int kSchema = 1;
constexpr const char* kNotMeasured =
    "No run on this board was measured. A time is the least that the board's limits allow, divided "
    "by the share of its limits that the run reached where it was measured. Peaks of the board are "
    "nominal.";
constexpr const char* kCalibrate =
    "--calibrate A.jsonl B.jsonl takes them from two machines that were both measured";
constexpr const char* kOtherKernels =
    "Kernels for sm_90 use instructions that sm_87 lacks: where a plugin has both, measure with "
    "ATTEST_CUDA_CAPABILITY=80 to project what an Orin would run.";

std::string interval(const Projection& projection) {
  if (!projection.low_ns) return {};
  return fmt::format("{} to {}", print_time(*projection.low_ns), print_time(*projection.high_ns));
}

// On cores the two sides have vectors of other widths: what they share is the dtype.
std::string share(const Projection& projection) {
  const double percent = 100 * projection.basis.share;
  const std::string& limit = projection.bound->limit;
  if (!projection.cores) return fmt::format("{:.0f} % of what {} allow", percent, limit);
  return fmt::format("on {} of {} cores, {:.0f} % of the peak in {}", projection.cores->cores,
                     projection.cores->all_cores, percent, limit.substr(0, limit.find(' ')));
}

std::string measured(const Projection& projection) {
  std::string time = print_time(projection.record->time->median_ns);
  if (!projection.cores) return time;
  const int threads = projection.cores->threads;
  return fmt::format("{} on {} thread{}", time, threads, threads == 1 ? "" : "s");
}

std::string where(const core::Results& file) {
  return printable(file_name(file) + ", " + machine(file));
}

bool has_sm_90(const Projected& projected) {
  return std::ranges::any_of(projected.files, [](const ProjectedFile& one) {
    return fact(*one.file, "cuda", "architecture") == "sm_90";
  });
}

std::string spread_words(const std::string& kind, const Spread& spread) {
  const auto factor = spread.factor();
  return fmt::format("{}: {} case{}, measured / projected {:.2f} to {:.2f}, {}", kind,
                     spread.ratios.size(), spread.ratios.size() == 1 ? "" : "s",
                     spread.ratios.front(), spread.ratios.back(),
                     factor ? fmt::format("nine of ten within a factor of {:.2f}", *factor)
                            : std::string("too few for an interval"));
}

std::string calibration_head(const Calibration& calibration) {
  return fmt::format("Intervals: from {} to {}, both measured", printable(calibration.from),
                     printable(calibration.to));
}

/// A line for each kind of limit, and one for what was left out.
std::vector<std::string> calibration_lines(const Calibration& calibration) {
  std::vector<std::string> lines;
  for (const auto& [kind, spread] : calibration.spreads)
    lines.push_back(spread_words(printable(kind.name()), spread));
  if (calibration.other_limits > 0)
    lines.push_back(fmt::format("{} case{} left out: limits of other kinds on the two",
                                calibration.other_limits,
                                calibration.other_limits == 1 ? "" : "s"));
  if (&calibration == &calibration_of_cores())
    lines.push_back(
        fmt::format("from tables of both, before this run; other intervals: {}", kCalibrate));
  return lines;
}

std::string no_intervals() { return fmt::format("Intervals: none; {}", kCalibrate); }

ordered_json spread_json(const LimitKind& kind, const Spread& spread) {
  const auto factor = spread.factor();
  return {{"device", kind.device},
          {"limit", kind.reads ? "reads" : "arithmetic"},
          {"ratios", spread.ratios},
          {"factor", factor ? ordered_json(*factor) : ordered_json()}};
}

ordered_json spreads_json(const Calibration& calibration) {
  ordered_json all{{"from", calibration.from},
                   {"to", calibration.to},
                   {"level", Spread::kLevel},
                   {"spreads", ordered_json::array()},
                   {"other_limits", calibration.other_limits}};
  for (const auto& [kind, spread] : calibration.spreads)
    all["spreads"].push_back(spread_json(kind, spread));
  return all;
}

ordered_json projection_json(const Projection& projection) {
  const core::Record& record = *projection.record;
  ordered_json one{{"suite", record.suite},  {"case", record.case_name}, {"dtype", record.dtype},
                   {"problem", record.spec}, {"impl", record.impl},      {"device", record.device},
                   {"repro", record.repro}};
  if (record.time && std::isfinite(record.time->median_ns))
    one["measured_median_ns"] = record.time->median_ns;
  if (projection.ns <= 0) {
    one["refused"] = projection.why;
    return one;
  }
  one["label"] = kProjection;
  one["projected_ns"] = projection.ns;
  one["projected_low_ns"] = projection.low_ns ? ordered_json(*projection.low_ns) : ordered_json();
  one["projected_high_ns"] =
      projection.high_ns ? ordered_json(*projection.high_ns) : ordered_json();
  const auto& cores = projection.cores;
  one["threads"] = cores ? ordered_json(cores->threads) : ordered_json();
  one["cores"] = cores ? ordered_json(cores->cores) : ordered_json();
  one["share"] = projection.basis.share;
  one["measured_limit"] = projection.basis.bound.bound->limit;
  one["limit"] = projection.bound->limit;
  one["least_ns"] = projection.bound->ns;
  return one;
}

}  // namespace

std::string projected_title(const Projected& projected) {
  const BoardMode& board = *projected.target->board;
  return fmt::format("{} to {}: {}, power mode {}", kProjection, board.name, board.module->name,
                     board.mode);
}

std::vector<std::string> projected_columns() {
  return {"case",     "implementation", "measured", "on the board, PROJECTION",
          "interval", "how, or why not"};
}

std::vector<std::string> projected_cells(const Projection& projection) {
  const core::Record& record = *projection.record;
  const bool is_projected = projection.ns > 0;
  return {case_title(record),
          record.impl,
          record.time ? measured(projection) : std::string(),
          is_projected ? fmt::format("{} {}", kProjection, print_time(projection.ns))
                       : std::string("refused"),
          interval(projection),
          is_projected ? share(projection) : projection.why};
}

std::vector<std::string> projected_remarks(const Projected& projected) {
  std::vector<std::string> remarks{kNotMeasured};
  if (const Calibration* calibration = projected.calibration)
    remarks.push_back(fmt::format("{}: {}", calibration_head(*calibration),
                                  fmt::join(calibration_lines(*calibration), "; ")));
  else
    remarks.push_back(no_intervals());
  if (has_sm_90(projected)) remarks.emplace_back(kOtherKernels);
  return remarks;
}

std::string print_calibration(const Calibration& calibration) {
  std::string text = calibration_head(calibration);
  for (const std::string& line : calibration_lines(calibration)) text += "\n  " + line;
  return text;
}

std::string print_projected(const Projected& projected) {
  std::string text = fmt::format("{}\n{}\n", projected_title(projected), kNotMeasured);
  for (const Figure& figure : figures(*projected.target->board))
    text += fmt::format("  {:<52} {}\n", figure.text, figure.source);
  const Calibration* calibration = projected.calibration;
  text += (calibration ? print_calibration(*calibration) : no_intervals()) + "\n";
  if (has_sm_90(projected)) text += fmt::format("{}\n", kOtherKernels);
  for (const ProjectedFile& one : projected.files) {
    text += fmt::format("\nfrom {}\n", where(*one.file));
    std::string title;
    for (const Projection& projection : one.projections) {
      if (projection.ns <= 0) continue;
      if (const std::string heading = case_heading(*projection.record); heading != title)
        text += (title = heading) + "\n";
      text +=
          fmt::format("  {:<18} {} {:<8}  {}{}, as where it was measured ({})\n",
                      printable(projection.record->impl), kProjection, print_time(projection.ns),
                      projection.low_ns ? fmt::format("({})  ", interval(projection)) : "",
                      share(projection), measured(projection));
    }
    for (const Projection& projection : one.projections)
      if (projection.ns <= 0)
        text += fmt::format("refused: {} of {}: {}\n", printable(projection.record->impl),
                            printable(case_title(*projection.record)), printable(projection.why));
  }
  return text;
}

std::string projected_markdown(const Projected& projected) {
  std::string text =
      fmt::format("# {}\n\n| figure | source |\n|---|---|\n", markdown(projected_title(projected)));
  for (const Figure& figure : figures(*projected.target->board))
    text += fmt::format("| {} | {} |\n", markdown(figure.text), markdown(figure.source));
  for (const std::string& remark : projected_remarks(projected))
    text += fmt::format("\n{}\n", markdown(remark));
  const std::vector<std::string> columns = projected_columns();
  for (const ProjectedFile& one : projected.files) {
    text += fmt::format("\nFrom {}:\n\n| {} |\n|", markdown(where(*one.file)),
                        fmt::join(columns, " | "));
    for (size_t i = 0; i < columns.size(); ++i) text += "---|";
    text += "\n";
    for (const Projection& projection : one.projections) {
      std::vector<std::string> cells = projected_cells(projection);
      for (std::string& cell : cells) cell = markdown(cell);
      text += fmt::format("| {} |\n", fmt::join(cells, " | "));
    }
  }
  return text;
}

ordered_json calibration_json(const Calibration& calibration) {
  return {{"schema", kSchema}, {"label", kProjection}, {"calibration", spreads_json(calibration)}};
}

ordered_json projected_json(const Projected& projected) {
  const BoardMode& board = *projected.target->board;
  const Calibration* calibration = projected.calibration;
  ordered_json document{{"schema", kSchema},
                        {"label", kProjection},
                        {"target",
                         {{"name", board.name},
                          {"board", board.module->name},
                          {"power_mode", board.mode},
                          {"figures", ordered_json::array()}}},
                        {"calibration", calibration ? spreads_json(*calibration) : ordered_json()},
                        {"projections", ordered_json::array()},
                        {"refused", ordered_json::array()}};
  for (const Figure& figure : figures(board))
    document["target"]["figures"].push_back({{"figure", figure.text}, {"source", figure.source}});
  for (const ProjectedFile& one : projected.files)
    for (const Projection& projection : one.projections) {
      ordered_json line = projection_json(projection);
      line["file"] = file_name(*one.file);
      line["machine"] = printable(machine(*one.file));
      document[projection.ns > 0 ? "projections" : "refused"].push_back(std::move(line));
    }
  return document;
}

}  // namespace attest::reports
