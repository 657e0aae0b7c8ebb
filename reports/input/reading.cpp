#include "reports/input/reading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/tensor/error.hpp"

namespace attest::reports {

using core::Record;
using core::Results;

namespace {

Input read_whole(const std::vector<std::string>& paths) {
  std::vector<Results> files;
  for (const std::string& path : paths) files.push_back(core::read_results(path));
  return make_input(std::move(files));
}

std::string text_of(const core::Header& header) {
  return to_json(header).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// False for pipes and terminals, whose content is gone when it was read.
bool can_be_read_twice(const std::string& path) {
  std::error_code ignored;  // who opens the file says what is wrong with it
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return !std::filesystem::exists(status) || std::filesystem::is_regular_file(status) ||
         std::filesystem::is_directory(status);
}

}  // namespace

Survey::Survey(const std::vector<std::string>& paths, size_t most) : most_(most) {
  for (const std::string& path : paths) look_at(path);
  for (const File& file : files_) mark_races(file);
}

void Survey::look_at(const std::string& path) {
  File& file = files_.emplace_back();
  std::vector<Record> kept;
  file.results = core::visit_results(path, [&](Record record) {
    ++file.records;
    file.races.note(record);
    whole_ |= record.sweep.has_value();
    const size_t place = cases_.add(record);
    if (record.outcome.passes()) file.passed_in[core::Races::build_of(record)].push_back(place);
    if (++count_ <= most_) {
      kept.push_back(std::move(record));
    } else {
      kept = {};
      forget_records();
    }
  });
  std::string header = text_of(file.results.header);
  whole_ |= std::ranges::find(headers_, header) != headers_.end();
  headers_.push_back(std::move(header));
  core::overrule_races(kept);
  file.results.records = std::move(kept);
}

void Survey::forget_records() {
  for (File& file : files_) file.results.records = {};
}

/// A race makes the passes of its build suspect, those before it too.
void Survey::mark_races(const File& file) {
  for (const auto& [build, places] : file.passed_in)
    if (file.races.why(build))
      for (const size_t place : places) cases_.mark_bad(place);
}

Results Survey::read_again(size_t run, const std::vector<bool>& shown, LeftOut& left_out) const {
  const File& file = files_[run];
  Results results = file.results;
  size_t read = 0, unknown = 0;
  const Results again = core::visit_results(results.path, [&](Record record) {
    if (++read > file.records) return;  // it was written since
    file.races.overrule(record);
    const std::optional<size_t> place = cases_.place_of(record);
    if (!place)
      ++unknown;
    else if (shown[*place])
      results.records.push_back(std::move(record));
    else
      left_out.add(run, record);
  });
  if (text_of(again.header) != headers_[run] || read < file.records || unknown > 0)
    throw core::Error(
        fmt::format("{}: was replaced by another file while it was read; give the command again",
                    results.path));
  return results;
}

Input Survey::input() {
  std::vector<Results> files;
  if (whole_ && count_ > most_) {
    std::vector<std::string> paths;
    for (const File& file : files_) paths.push_back(file.results.path);
    return read_whole(paths);
  }
  if (count_ <= most_) {
    for (File& file : files_) files.push_back(std::move(file.results));
    return make_input(std::move(files));
  }
  const std::vector<bool> shown = cases_.shown(most_);
  LeftOut left_out;
  for (size_t run = 0; run < files_.size(); ++run)
    files.push_back(read_again(run, shown, left_out));
  return make_input(std::move(files), std::move(left_out));
}

Input read_input(const std::vector<std::string>& paths, size_t most) {
  return std::ranges::all_of(paths, can_be_read_twice) ? Survey(paths, most).input()
                                                       : read_whole(paths);
}

}  // namespace attest::reports
