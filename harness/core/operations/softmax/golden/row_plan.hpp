// Chooses the rows that the float64 golden judges, and groups them into tasks that share keys.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/operations/row_sample.hpp"
#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

/// Position i of query head h of sequence b. It sees at least one key, if masks are ignored.
struct JudgedRow {
  int64_t b, h, i;
  int64_t output_row;  // of O and LSE, leading 3
  Interval keys;
};

/// Rows begin .. end - 1 of RowPlan::rows. They are of one sequence and key head; `keys` are all
/// keys that any of them sees.
struct RowTask {
  int64_t b, kv_head;
  size_t begin, end;
  Interval keys;
};

/// The elements of a task's rows, in a vector with one element for each row.
template <class Rows>
auto task_rows(const RowTask& task, Rows& all) {
  return std::span(all).subspan(task.begin, task.end - task.begin);
}

struct RowPlan {
  std::vector<JudgedRow> rows;
  std::vector<RowTask> tasks;
  bool all = false;         // every row is judged
  int64_t rows_a_head = 0;  // if rows are sampled: the most for each sequence and head
};

constexpr int64_t kTaskRows = 66;  // the most rows of a task; a multiple of kProductRows

/// The limits for judging rows: multiply-adds in QK and PV, and elements of O, whose values and
/// sigmas are kept.
struct RowBudget {
  double all = 3e9;         // multiply-adds up to which every row is judged
  double sampled = 1.6e10;  // of a sample: 120,000 tokens, 4 heads of 256 rows, head_dim 64
  int64_t elements = int64_t(1) << 21;
  int64_t rows_a_head = 256;
};
/// The limits for fills of which a few rows show as much as many.
constexpr RowBudget kFewRowsBudget{.all = 5e7, .sampled = 1e9, .rows_a_head = 32};

/// The positions that a sample of the rows of sequence b and query head h should contain, the most
/// important first.
using WantedPlaces = std::function<std::vector<int64_t>(int64_t b, int64_t h)>;

/// All rows if that is cheap; else a stratified sample of up to `rows_a_head` rows for each
/// sequence and head: the first, the last, rows around tile edges, and random ones. Depends only on
/// the problem, the lengths, and what is `wanted`, which may be empty.
RowPlan plan_rows(const Problem& problem, const Geometry& geometry, const RowBudget& budget = {},
                  const WantedPlaces& wanted = {});
/// Multiply-adds in QK and PV of all rows.
double multiply_adds(const Problem& problem, const Geometry& geometry);

}  // namespace attest::core
