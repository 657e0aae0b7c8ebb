// Which rows the float64 golden judges, and how they are cut into tasks that share keys.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

/// Place i of query head h of sequence b; it sees at least one key before masks.
struct JudgedRow {
  int64_t b, h, i;
  int64_t output_row;  // of O and LSE, leading 3
  Interval keys;
};

/// Rows begin .. end - 1 of RowPlan::rows: one sequence, one key head, and the keys that any of
/// them sees.
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
  bool all = false;         // every row
  int64_t rows_a_head = 0;  // where sampled: at most so many of each sequence and head
};

constexpr int64_t kTaskRows = 66;  // most rows a task; a multiple of kProductRows

/// What judging rows may cost: multiply-adds in QK and PV, and elements of O, whose values and
/// sigmas are kept.
struct RowBudget {
  double all = 3e9;         // every row is judged up to here
  double sampled = 1.6e10;  // else so many: 120,000 tokens, 4 heads of 256 rows, head_dim 64
  int64_t elements = int64_t(1) << 21;
  int64_t rows_a_head = 256;
};

/// All rows where that is cheap, else a stratified sample of up to `rows_a_head` rows a sequence
/// and head: first, last, around tile edges near both ends and in between, and random ones. Depends
/// on the problem and lengths alone.
RowPlan plan_rows(const Problem& problem, const Geometry& geometry, const RowBudget& budget = {});
/// Multiply-adds in QK and PV of all rows.
double multiply_adds(const Problem& problem, const Geometry& geometry);

/// Places that every sample has: a fill may make their rows unlike all others.
std::array<int64_t, 4> marked_places(int64_t length);

/// `count` of the places 0 .. length - 1 in growing order, or all of them where there are no more.
/// The first, the last and the marked places are among them. Half of the others lie beside
/// multiples of 16 .. 1,024 and of `block` (patch or window size; 0: none); the rest are random.
std::vector<int64_t> sample_places(int64_t length, int64_t count, int64_t block, uint64_t seed);

}  // namespace attest::core
