#include "core/vectors/captured/run_dump.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/operations/declaration.hpp"
#include "core/problem/spec.hpp"
#include "core/vectors/captured/case_folder.hpp"
#include "core/vectors/formats/npy.hpp"

namespace attest::core {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// A row that the golden judges exactly, and its largest error in sigmas.
struct JudgedRow {
  int64_t row;
  double error;
};

// What the golden says of some rows of one output, ready to be written.
struct Rows {
  int leading = 0;
  int64_t width = 0, judged = 0;
  std::vector<int64_t> rows;                    // ascending
  std::vector<double> expected, sigma, errors;  // [rows, width]
};

class RowCollector {
 public:
  RowCollector(const DumpedRun& run, int32_t role) : run_(run), role_(role) {}

  Rows collect() {
    std::vector<JudgedRow> judged = judge();
    rows_.judged = int64_t(judged.size());
    if (judged.empty()) return rows_;
    const auto most = size_t(run_.most_bytes / (rows_.width * int64_t(sizeof(double))));
    if (judged.size() > most) {
      std::ranges::nth_element(judged, judged.begin() + std::ptrdiff_t(most), worse);
      judged.resize(most);
    }
    for (const JudgedRow& row : judged) rows_.rows.push_back(row.row);
    std::ranges::sort(rows_.rows);
    copy();
    return std::move(rows_);
  }

 private:
  static bool worse(const JudgedRow& one, const JudgedRow& other) {
    return one.error != other.error ? one.error > other.error : one.row < other.row;
  }

  // Calls `use` with each row of this output that is judged exactly, one after the other: its
  // number, its expected values, their sigmas and the errors.
  template <class Use>
  void for_each_row(const Use& use) {
    std::mutex lock;
    run_.golden.expect(run_.arithmetic, [&](const Expected& chunk) {
      if (chunk.role != role_ || !chunk.value) return;
      const std::lock_guard guard(lock);
      rows_.leading = chunk.leading;
      rows_.width = chunk.width;
      for (size_t r = 0; r < chunk.rows.size(); ++r) {
        const size_t at = chunk.shared ? 0 : r * size_t(chunk.width);
        use(chunk.rows[r], chunk.value + at, chunk.sigma + at,
            errors_of(chunk, chunk.rows[r], chunk.value + at));
      }
    });
  }

  // Empty where there is no output.
  std::vector<double> errors_of(const Expected& chunk, int64_t row, const double* value) const {
    if (!run_.outputs) return {};
    const Tensor& output = (*run_.outputs)[size_t(role_)];
    const int64_t stride = chunk.leading < output.spec.rank ? output.spec.stride[chunk.leading] : 0;
    std::vector<double> errors(static_cast<size_t>(chunk.width));
    load_row(output.data, output.spec.dtype, row_offset(output.spec, chunk.leading, row),
             chunk.width, stride, errors.data());
    for (size_t e = 0; e < errors.size(); ++e)
      errors[e] = errors[e] == value[e] ? 0 : errors[e] - value[e];  // of equal infinities: none
    return errors;
  }

  std::vector<JudgedRow> judge() {
    std::vector<JudgedRow> judged;
    for_each_row(
        [&](int64_t row, const double*, const double* sigma, const std::vector<double>& errors) {
          double worst = 0;
          for (size_t e = 0; e < errors.size(); ++e) {
            const double error = errors[e] == 0 ? 0 : std::fabs(errors[e]) / sigma[e];
            worst = std::max(worst, std::isnan(error) ? INFINITY : error);
          }
          judged.push_back({row, worst});
        });
    return judged;
  }

  void copy() {
    const size_t count = rows_.rows.size() * size_t(rows_.width);
    rows_.expected.resize(count);
    rows_.sigma.resize(count);
    if (run_.outputs) rows_.errors.resize(count);
    for_each_row([&](int64_t row, const double* value, const double* sigma,
                     const std::vector<double>& errors) {
      const auto at = std::ranges::lower_bound(rows_.rows, row);
      if (at == rows_.rows.end() || *at != row) return;
      const auto to = (at - rows_.rows.begin()) * rows_.width;
      std::copy_n(value, rows_.width, rows_.expected.begin() + to);
      std::copy_n(sigma, rows_.width, rows_.sigma.begin() + to);
      if (run_.outputs) std::ranges::copy(errors, rows_.errors.begin() + to);
    });
  }

  const DumpedRun& run_;
  const int32_t role_;
  Rows rows_;
};

// Writes the files of one folder and describes them.
class Dump {
 public:
  Dump(const DumpedRun& run, const fs::path& folder)
      : run_(run), problem_(run.inputs.problem()), folder_(folder) {}

  void write() {
    make_case_folder(folder_);
    description_ = {{"problem", print_problem(problem_)},
                    {"source", run_.source},
                    {"inputs_hash", run_.inputs.hash()},
                    {"arithmetic", print(*problem_.operation, run_.arithmetic)}};
    for (const Role& role : problem_.operation->roles()) {
      if (!problem_.has(role.index)) continue;
      if (!is_output(role))
        add_tensor(role, run_.inputs.shared().tensors());
      else if (run_.outputs)
        add_tensor(role, *run_.outputs);
      if (is_output(role)) add_golden(role);
    }
    write_description(folder_, description_);
  }

 private:
  void add_tensor(const Role& role, const Tensors& tensors) {
    const std::string file = fmt::format("{}.npy", role.name);
    write_npy(folder_ / file, tensors[size_t(role.index)]);
    description_["tensors"][role.name] = file;
  }

  void add_golden(const Role& role) {
    Rows rows = RowCollector(run_, role.index).collect();
    if (rows.rows.empty()) return;
    json& golden = description_["golden"][role.name];
    golden["method"] = run_.golden.method();
    golden["judged_rows"] = rows.judged;
    for (int axis = 0; axis < rows.leading; ++axis)
      golden["row_dims"].push_back(problem_.operation->dim_name(role.index, axis));
    const auto add = [&](const char* what, DType dtype, void* data, int64_t width) {
      const std::string file = fmt::format("{}.{}.npy", role.name, what);
      const int64_t shape[] = {int64_t(rows.rows.size()), width};
      write_npy(folder_ / file, {dense_tensor(dtype, ATTEST_READ, shape), data});
      golden[what] = file;
    };
    std::vector<int64_t> indices;
    for (const int64_t row : rows.rows)
      for (const int64_t index : row_index(problem_.tensor[size_t(role.index)], rows.leading, row))
        indices.push_back(index);
    add("rows", ATTEST_I64, indices.data(), rows.leading);
    add("expected", ATTEST_F64, rows.expected.data(), rows.width);
    add("sigma", ATTEST_F64, rows.sigma.data(), rows.width);
    if (run_.outputs) add("error", ATTEST_F64, rows.errors.data(), rows.width);
  }

  const DumpedRun& run_;
  const Problem& problem_;
  const fs::path& folder_;
  json description_;
};

}  // namespace

void dump_run(const DumpedRun& run, const fs::path& folder) { Dump(run, folder).write(); }

}  // namespace attest::core
