// A results file as it is read back: header, records, and whether it came to its end.
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/record/record.hpp"
#include "core/record/token_picture.hpp"

namespace attest::core {

/// What a results file holds. A last line that was torn does not count.
struct Results {
  std::string path;
  Header header;
  std::vector<Record> records;
  std::map<std::string, TokenPicture> tokens;  // by their inputs
  bool begun = false;                          // it has its header
  bool complete = false;                       // it has its closing line
  Closing closing;                             // if complete
  size_t bytes = 0;                            // where its last whole line ends
};

/// Passes beside a race are suspect (record/races.hpp), also those that were written before it.
/// An empty file has not begun. Throws Error: it cannot be read, is no results file, is of a newer
/// schema, or holds several runs; the line is named.
Results read_results(const std::string& path);
/// The same, but the records go to `visit`, one after another, and are not kept. They are as they
/// were written: no race has overruled passes before it.
Results visit_results(const std::string& path, const std::function<void(Record)>& visit);

}  // namespace attest::core
