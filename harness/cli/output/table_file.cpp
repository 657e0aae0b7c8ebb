#include "cli/output/table_file.hpp"

#include <fmt/format.h>

#include "reports/formats.hpp"

namespace attest::cli {
void add_table(CLI::App& command, std::string& path) {
  command
      .add_option("--table", path,
                  "write a summary to a Markdown file: counts, the worst records, all verdicts and "
                  "reasons")
      ->type_name("FILE");
}

TableFile::TableFile(const std::string& path) : path_(path) {
  if (path.empty()) return;
  out_.open(path, std::ios::trunc);
  if (!out_) throw core::MachineError(fmt::format("--table {}: cannot be written", path));
}

void TableFile::write(const core::Results& results) {
  if (path_.empty()) return;
  out_ << reports::find_format("markdown").print(reports::make_input({results}), {}) << std::flush;
  if (!out_)
    throw core::MachineError(fmt::format("--table {}: could not be written to its end", path_));
}

}  // namespace attest::cli
