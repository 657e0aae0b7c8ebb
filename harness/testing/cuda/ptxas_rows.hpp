// Kernels as ptxas describes them, and tables of them. A usage example is ptxas_table.cpp.
#pragma once
#include <algorithm>
#include <istream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "testing/cuda/occupancy.hpp"

namespace cuda {

struct ShapeFacts {
  int head_dim;      // a kernel of this shape takes heads of up to so many channels
  int tokens;        // a tile has so many of them
  int shared_bytes;  // a block asks for so much dynamic shared memory
};
/// By a shape's name, without spaces.
class Shapes {
 public:
  ShapeFacts& operator[](const std::string& name) { return facts_[without_spaces(name)]; }
  /// Null: there is none of that name.
  const ShapeFacts* find(const std::string& name) const {
    const auto at = facts_.find(without_spaces(name));
    return at == facts_.end() ? nullptr : &at->second;
  }

 private:
  static std::string without_spaces(std::string text) {
    text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
    return text;
  }
  std::map<std::string, ShapeFacts> facts_;
};

struct KernelRow {
  std::string source, architecture, name;  // "flash_cuda", "87", "attend<Half>, head_dim 64, ..."
  Kernel kernel;
  int spilled_bytes;
};

/// "attend<Half, flash::Shape<64, 1, 64, true, 4> >" -> "attend Half, head_dim 64, 64 tokens a
/// tile, Shape<64, 1, 64, true, 4>".
inline std::string readable(std::string name, const Shapes& shapes, int& shared_bytes) {
  std::string shape;
  const size_t begin = name.find("Shape<");
  if (begin != name.npos) {
    const size_t end = name.find('>', begin);
    size_t start = name.rfind(' ', begin);
    start = start == name.npos ? name.find('<') + 1 : start + 1;
    shape = name.substr(start, end + 1 - start);
    const size_t comma = name.rfind(',', start);
    name = name.substr(0, comma == name.npos || comma < name.find('<') ? name.find('<') : comma);
  }
  for (char& c : name)
    if (c == '<') c = ' ';
  name.erase(std::remove(name.begin(), name.end(), '>'), name.end());
  while (!name.empty() && name.back() == ' ') name.pop_back();
  if (shape.empty()) return name;
  const ShapeFacts* facts = shapes.find(shape);
  if (!facts) throw std::runtime_error("ptxas_table: no shape " + shape);
  shared_bytes += facts->shared_bytes;
  return name + ", head_dim " + std::to_string(facts->head_dim) + ", " +
         std::to_string(facts->tokens) + " tokens a tile, " + shape;
}

/// Throws std::runtime_error: a line that is none.
inline std::vector<KernelRow> read_rows(std::istream& in, const Shapes& shapes) {
  std::vector<KernelRow> rows;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    KernelRow row{};
    if (!(words >> row.source >> row.architecture >> row.kernel.threads >> row.kernel.registers >>
          row.spilled_bytes >> row.kernel.shared_bytes >> std::ws) ||
        !std::getline(words, row.name))
      throw std::runtime_error("ptxas_table: not a line of it: " + line);
    row.name = readable(row.name, shapes, row.kernel.shared_bytes);
    rows.push_back(row);
  }
  return rows;
}

/// Values once each, in the order in which they come.
template <class Of>
std::vector<std::string> in_order(const std::vector<KernelRow>& rows, Of of) {
  std::vector<std::string> all;
  for (const KernelRow& row : rows)
    if (std::find(all.begin(), all.end(), of(row)) == all.end()) all.push_back(of(row));
  return all;
}

/// Registers a thread, one column an architecture, with what is spilled.
inline std::string print_registers(const std::vector<KernelRow>& rows) {
  const auto architectures = in_order(rows, [](const KernelRow& row) { return row.architecture; });
  std::string text = "| kernel |", rule = "|---|";
  for (const std::string& architecture : architectures) {
    text += " " + architecture + " |";
    rule += "---|";
  }
  text += "\n" + rule + "\n";
  const auto place = [](const KernelRow& row) { return row.source + ": " + row.name; };
  for (const std::string& kernel : in_order(rows, place)) {
    text += "| " + kernel + " |";
    for (const std::string& architecture : architectures) {
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const KernelRow& one) {
        return one.architecture == architecture && place(one) == kernel;
      });
      if (row != rows.end()) {
        text += " " + std::to_string(row->kernel.registers);
        if (row->spilled_bytes > 0) text += ", **" + std::to_string(row->spilled_bytes) + " B**";
      }
      text += " |";
    }
    text += "\n";
  }
  return text;
}

/// What a multiprocessor of one architecture holds at a time.
inline std::string print_residency(const std::vector<KernelRow>& rows,
                                   const std::string& architecture, const Multiprocessor& on) {
  std::string text =
      "| kernel | threads | registers | spilled B | shared B | blocks | occupancy | limited by "
      "|\n|---|---|---|---|---|---|---|---|\n";
  for (const KernelRow& row : rows) {
    if (row.architecture != architecture) continue;
    const Residency found = resident(row.kernel, on);
    const auto cell = [](int value) { return std::to_string(value) + " | "; };
    text += "| " + row.source + ": " + row.name + " | " + cell(row.kernel.threads) +
            cell(row.kernel.registers) + cell(row.spilled_bytes) + cell(row.kernel.shared_bytes) +
            cell(found.blocks) + std::to_string(static_cast<int>(100 * found.occupancy + 0.5)) +
            " % | " + found.limit + " |\n";
  }
  return text;
}

inline std::string print_tables(const std::vector<KernelRow>& rows, const std::string& title) {
  std::string text = "# Registers, spills and shared memory of the CUDA kernels\n\n" + title +
                     "\n\nComputed by the compiler, not measured: no kernel ran for this "
                     "table.\n\n## Registers a thread, by architecture\n\n" +
                     "Bold: bytes that a thread spills to local memory.\n\n" +
                     print_registers(rows);
  for (const auto& [architecture, name, on] : {std::make_tuple("87", "Orin (sm_87)", kOrin),
                                               std::make_tuple("90a", "Hopper (sm_90a)", kHopper)})
    if (std::any_of(rows.begin(), rows.end(),
                    [&, a = architecture](const KernelRow& row) { return row.architecture == a; }))
      text += std::string("\n## What a multiprocessor holds: ") + name +
              "\n\nShared memory of a block is static and dynamic; `attend_windows` and "
              "`attend_patches` have tables of a problem's windows on top.\n" +
              "Blocks by the formula in harness/testing/cuda/occupancy.hpp.\n\n" +
              print_residency(rows, architecture, on);
  return text;
}

}  // namespace cuda
