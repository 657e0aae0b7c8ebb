// Where an output is wrong: how much of it, and in which pattern.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/judge/error_map.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

struct Location {
  /// The wrong indices of one dim, where they are a part of it.
  struct Part {
    std::string dim;      // Operation::dim_name
    std::string indices;  // index_words.hpp
  };

  std::string tensor;                        // role name
  int64_t elements = 0, wrong_elements = 0;  // that were judged; of these, wrong by themselves
  int64_t rows = 0, wrong_rows = 0;  // a row: the elements of the last dim; one of LSE: an element
  // How many rows were compared with their true values. The other rows were compared with ranges.
  // Records of older versions lack this number.
  std::optional<int64_t> exact_rows;
  std::vector<int64_t> first, last;  // wrong elements, in the order of the tensor's dims
  std::vector<Part> parts;           // in the order of the dims; empty: all of every dim
  std::optional<ErrorMap> map;       // absent in records of older versions
};

/// Judges all elements again, each by itself, and tells where the first output lies that has wrong
/// ones: those beyond Gates::kLargest, or outside of what a sweep allows. Nothing if no element is
/// wrong by itself (a root mean square may fail all the same). Takes as long as judge().
std::optional<Location> locate(const Problem& problem, const Golden& golden,
                               const Arithmetic& arithmetic, const Tensors& tensors);
/// The same of each output that has wrong elements.
std::vector<Location> locate_all(const Problem& problem, const Golden& golden,
                                 const Arithmetic& arithmetic, const Tensors& tensors);

/// "o: 976 of 3904 elements are wrong, in 61 of 244 rows, from [0,1,0,0] to [0,1,60,15]; head: 1".
/// Where not all rows have a true value: "in 2 of 4099 rows (128 have their true values to compare
/// with, the others a range)".
std::string print_location(const Location& location);

}  // namespace attest::core
