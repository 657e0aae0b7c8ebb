#include "cli/table_file.hpp"

#include <fmt/format.h>

#include "cli/machine_error.hpp"
#include "core/measure/environment.hpp"
#include "reports/markdown.hpp"

namespace attest::cli {
namespace {

std::string origin() {
  core::Environment environment = core::read_environment();
  core::Facts &build = environment["build"], &cpu = environment["cpu"];
  return fmt::format("attest {}, commit {}, on {} with {} threads", build["version"],
                     build["commit"], cpu["model"], cpu["threads"]);
}

}  // namespace

void add_table(CLI::App& command, std::string& path) {
  command
      .add_option("--table", path,
                  "verdicts as a Markdown file: one row a case, one column an implementation, then "
                  "the reasons")
      ->type_name("FILE");
}

TableFile::TableFile(const std::string& path) : path_(path) {
  if (path.empty()) return;
  out_.open(path, std::ios::trunc);
  if (!out_) throw MachineError(fmt::format("--table {}: cannot be written", path));
}

void TableFile::write(const std::vector<core::Record>& records, const std::string& title) {
  if (path_.empty()) return;
  out_ << reports::print_markdown(records, title, origin()) << std::flush;
  if (!out_) throw MachineError(fmt::format("--table {}: could not be written to its end", path_));
  fmt::print("table: {}\n", path_);
}

}  // namespace attest::cli
