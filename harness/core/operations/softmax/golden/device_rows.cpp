#include "core/operations/softmax/golden/device_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "core/operations/softmax/golden/device_row_job.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;
using namespace row_job;

static_assert(kKeys == kReachKeys, "partial sums are looked at at the same places");

constexpr double kSeconds = 1;        // that a pass over all planned rows may take
constexpr double kEfficiency = 0.25;  // of what the device can do at the most
// Multiply-adds, a multiply-add of QK and PV: magnitudes, squares, weights
constexpr double kWorkAPair = 4.5;
constexpr int64_t kMostElements = int64_t{1} << 24;  // of O: 128 MiB each for values and sigmas
constexpr size_t kChunkBytes = size_t{64} << 20;     // of sums that are copied back at once
// How far the same sum in another order may be off, as a share of the largest partial sum: 500
// times what rows of 20,011 keys are off by. A score of s is off by roundings of |s|.
constexpr double kSameValue = 1e-12;
constexpr double kSameSigma = 1e-6;  // it is a difference of sums, and the host leaves out what is
                                     // lost where that is next to nothing

bool is_known(DType dtype) {
  return dtype == ATTEST_F32 || dtype == ATTEST_F16 || dtype == ATTEST_BF16 || dtype == ATTEST_F64;
}

/// Memory of a queue.
class Held {
 public:
  Held(GoldenQueue& queue, size_t bytes)
      : queue_(queue), data_(queue.allocate(std::max<size_t>(bytes, 1))) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { queue_.release(data_); }
  void* data() const { return data_; }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }

 private:
  GoldenQueue& queue_;
  void* data_;
};

template <class T>
std::unique_ptr<Held> upload(GoldenQueue& queue, std::span<const T> values) {
  auto held = std::make_unique<Held>(queue, values.size_bytes());
  if (!values.empty()) queue.copy_in(held->data(), values.data(), values.size_bytes());
  return held;
}

/// A problem's tensors on a device.
class Uploaded {
 public:
  Uploaded(GoldenQueue& queue, const Problem& problem, const Tensors& tensors,
           const Geometry& geometry)
      : queue_(queue) {
    const Params& p = problem.as<Params>();
    in.q = source(tensors[ATTEST_Q]);
    in.k = source(tensors[ATTEST_K]);
    in.v = source(tensors[ATTEST_V]);
    in.bias = source(tensors[ATTEST_BIAS]);
    in.mask = source(tensors[ATTEST_MASK]);
    in.head_dim = p.head_dim;
    in.head_dim_v = p.head_dim_v;
    in.scale = double(p.softmax_scale);
    in.softcap = double(p.softcap);
    in.staged = p.softcap > 0 || geometry.pair_terms();
    std::vector<int64_t> k_row, v_row;
    const TensorSpec &k = tensors[ATTEST_K].spec, &v = tensors[ATTEST_V].spec;
    for (int64_t b = 0; b < geometry.batch(); ++b) {
      for (int64_t j = 0; j < geometry.length_kv(b); ++j) {
        const Cell cell = geometry.key(b, j);
        k_row.push_back(cell.outer * k.stride[0] + cell.row * k.stride[2]);
        v_row.push_back(cell.outer * v.stride[0] + cell.row * v.stride[2]);
      }
    }
    in.k_row = keep(upload<int64_t>(queue, k_row)).as<int64_t>();
    in.v_row = keep(upload<int64_t>(queue, v_row)).as<int64_t>();
  }

  Inputs in{};

 private:
  Source source(const Tensor& tensor) {
    if (!tensor) return {};
    const std::span bytes(static_cast<const std::byte*>(tensor.data),
                          size_t(extent_bytes(tensor.spec)));
    return {keep(upload<std::byte>(queue_, bytes)).data(), tensor.spec.dtype,
            tensor.spec.stride[3]};
  }
  const Held& keep(std::unique_ptr<Held> held) { return *held_.emplace_back(std::move(held)); }

  GoldenQueue& queue_;
  std::vector<std::unique_ptr<Held>> held_;
};

bool same(double mine, double theirs, double apart) {
  return mine == theirs || (std::isnan(mine) && std::isnan(theirs)) ||
         std::fabs(mine - theirs) <= apart;
}

double farthest(const RowScores& row) {
  const double score = row.farthest();
  return std::isfinite(score) ? score : 0;
}

}  // namespace

namespace {

// Rows that the host makes too.
struct Checked {
  std::vector<size_t> rows;       // of the plan
  std::vector<JudgedRow> judged;  // the same
  std::vector<RowTask> tasks;     // of these

  void add(size_t row, const JudgedRow& at, int64_t kv_head, bool own_task) {
    if (own_task) tasks.push_back({at.b, kv_head, judged.size(), judged.size(), at.keys});
    rows.push_back(row);
    judged.push_back(at);
    RowTask& task = tasks.back();
    task.end = judged.size();
    task.keys = {std::min(task.keys.begin, at.keys.begin), std::max(task.keys.end, at.keys.end)};
  }
};

}  // namespace

struct DeviceRows::Impl {
  const GoldenDevice& device;
  const Problem& problem;
  const Tensors& tensors;
  const Geometry& geometry;
  const RowPlan& plan;
  const Params& p = problem.as<Params>();
  std::vector<Block> blocks{};
  Checked checked{};
  std::vector<double> largest_v{};  // [batch, num_kv_heads]

  int64_t kv_head(const JudgedRow& row) const { return row.h / (p.num_heads / p.num_kv_heads); }
  void cut_blocks();
  void choose_checked();
  void find_largest_v();
  std::vector<Row> rows() const;
  size_t scored_rows(size_t first_block, size_t last_block) const {
    return size_t(blocks[last_block].first + blocks[last_block].count - blocks[first_block].first);
  }
  template <class Body>
  void check_tasks(const Checked& some, const Body& body) const;
  template <class Take>
  void run(const char* kernel, int64_t width, int64_t blocks_each, const std::vector<Row>& rows,
           const Model& model, const Take& take) const;
  [[noreturn]] void refuse(const JudgedRow& row, const std::string& what, double mine,
                           double theirs) const;
  void compare_scores(const Checked& some, const RowScores* scores) const;
  void compare_results(const Checked& some, const RowScores* scores, const SigmaModel& model,
                       const Told& told) const;
};

// Rows of one task that see about the same keys.
void DeviceRows::Impl::cut_blocks() {
  const TensorSpec &k = tensors[ATTEST_K].spec, &v = tensors[ATTEST_V].spec;
  std::vector<int64_t> places{0};
  for (int64_t b = 0; b < geometry.batch(); ++b)
    places.push_back(places.back() + geometry.length_kv(b));
  for (const RowTask& task : plan.tasks)
    for (size_t first = task.begin; first < task.end; first += kRows) {
      const size_t end = std::min(first + kRows, task.end);
      Interval keys = plan.rows[first].keys;
      for (size_t r = first; r < end; ++r)
        keys = {std::min(keys.begin, plan.rows[r].keys.begin),
                std::max(keys.end, plan.rows[r].keys.end)};
      blocks.push_back({.first = int64_t(first),
                        .count = int64_t(end - first),
                        .begin = keys.begin,
                        .end = keys.end,
                        .places = places[size_t(task.b)],
                        .k = task.kv_head * k.stride[1],
                        .v = task.kv_head * v.stride[1]});
    }
}

// The first and the last row of each sequence and key head, as far as that goes, and others evenly
// between them.
void DeviceRows::Impl::choose_checked() {
  std::vector<std::pair<size_t, size_t>> heads;  // rows of one key head
  for (const RowTask& task : plan.tasks) {
    const bool again = task.begin > 0 && plan.rows[task.begin - 1].b == task.b &&
                       kv_head(plan.rows[task.begin - 1]) == task.kv_head;
    if (again)
      heads.back().second = task.end;
    else
      heads.emplace_back(task.begin, task.end);
  }
  const size_t some = std::min<size_t>(heads.size(), kChecked / 2),
               each = some == 0 ? 0 : kChecked / some;
  constexpr size_t kTogether = 16;  // rows a task
  for (size_t n = 0; n < some; ++n) {
    const auto [begin, end] = heads[some == 1 ? 0 : n * (heads.size() - 1) / (some - 1)];
    const size_t count = std::min(each, end - begin);
    for (size_t r = 0; r < count; ++r) {
      const size_t row = count == 1 ? begin : begin + r * (end - begin - 1) / (count - 1);
      checked.add(row, plan.rows[row], kv_head(plan.rows[row]), r % kTogether == 0);
    }
  }
}

void DeviceRows::Impl::find_largest_v() {
  const Tensor& v = tensors[ATTEST_V];
  const TensorSpec& spec = v.spec;
  largest_v.assign(size_t(p.batch * p.num_kv_heads), 0);
#pragma omp parallel for schedule(dynamic, 1)
  for (size_t head = 0; head < largest_v.size(); ++head) {
    const int64_t b = int64_t(head) / p.num_kv_heads, kv_head = int64_t(head) % p.num_kv_heads;
    std::vector<double> row(size_t(p.head_dim_v));
    for (int64_t j = 0; j < geometry.length_kv(b); ++j) {
      const Cell cell = geometry.key(b, j);
      load_row(v.data, spec.dtype,
               cell.outer * spec.stride[0] + kv_head * spec.stride[1] + cell.row * spec.stride[2],
               p.head_dim_v, spec.stride[3], row.data());
      for (const double x : row)
        if (std::fabs(x) <= std::numeric_limits<double>::max())
          largest_v[head] = std::max(largest_v[head], std::fabs(x));
    }
  }
}

std::vector<Row> DeviceRows::Impl::rows() const {
  const TensorSpec &q = tensors[ATTEST_Q].spec, &bias = tensors[ATTEST_BIAS].spec,
                   &mask = tensors[ATTEST_MASK].spec;
  const Tensor& slopes = tensors[ATTEST_ALIBI_SLOPES];
  std::vector<Row> rows;
  rows.reserve(plan.rows.size());
  for (const JudgedRow& at : plan.rows) {
    const Cell cell = geometry.query(at.b, at.i);
    const auto offset = [&](const TensorSpec& spec) {
      return at.b * spec.stride[0] + at.h * spec.stride[1] + at.i * spec.stride[2];
    };
    rows.push_back({.q = cell.outer * q.stride[0] + at.h * q.stride[1] + cell.row * q.stride[2],
                    .begin = at.keys.begin,
                    .end = at.keys.end,
                    .bias = present(bias) ? offset(bias) : 0,
                    .mask = present(mask) ? offset(mask) : 0,
                    .slope = slopes ? slopes.at({at.b, at.h}) : 0,
                    .diagonal = geometry.diagonal(at.b, at.i),
                    .lse = 0,
                    .eta_kappa = 0,
                    .small = 0,
                    .lost = 0,
                    .kept = 0,
                    .below = 0,
                    .cut = 0});
  }
  return rows;
}

// Launches a kernel over all rows, as many at a time as their numbers may fill memory with, and
// hands these over row by row.
template <class Take>
void DeviceRows::Impl::run(const char* kernel, int64_t width, int64_t blocks_each,
                           const std::vector<Row>& rows, const Model& model, const Take& take) const
    try {
  const std::unique_ptr<GoldenQueue> queue = device.open();
  const Uploaded uploaded(*queue, problem, tensors, geometry);
  const auto device_rows = upload<Row>(*queue, rows);
  const size_t most = std::max<size_t>(kChunkBytes / sizeof(double) / size_t(width), kRows);
  const Held out(*queue, std::min(most, rows.size()) * size_t(width) * sizeof(double));
  std::vector<double> numbers;
  for (size_t first = 0, end; first < blocks.size(); first = end) {
    for (end = first + 1; end < blocks.size() && scored_rows(first, end) <= most; ++end) {
    }
    const auto device_blocks = upload<Block>(*queue, std::span(blocks).subspan(first, end - first));
    const auto begin = size_t(blocks[first].first), count = scored_rows(first, end - 1);
    const Job job{.in = uploaded.in,
                  .model = model,
                  .rows = device_rows->template as<Row>(),
                  .blocks = device_blocks->template as<Block>(),
                  .first_row = int64_t(begin),
                  .out = static_cast<double*>(out.data())};
    queue->launch(kernel, (end - first) * size_t(blocks_each), kThreads, &job);
    numbers.resize(count * size_t(width));
    queue->copy_out(numbers.data(), out.data(), numbers.size() * sizeof(double));
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < count; ++r) take(begin + r, numbers.data() + r * size_t(width));
  }
} catch (const GoldenRefused&) {
  throw;
} catch (const Error& error) {
  throw GoldenRefused(error.what());
}

template <class Body>
void DeviceRows::Impl::check_tasks(const Checked& some, const Body& body) const {
#pragma omp parallel if (some.tasks.size() > 1)
  {
    KeyPasses passes(problem, tensors, geometry);
#pragma omp for schedule(dynamic, 1)
    for (size_t t = 0; t < some.tasks.size(); ++t) body(passes, some.tasks[t]);
  }
}

void DeviceRows::Impl::refuse(const JudgedRow& row, const std::string& what, double mine,
                              double theirs) const {
  throw GoldenRefused(
      fmt::format("{} of row {} of head {} of sequence {} is {:.17g}, {:.17g} on the host", what,
                  row.i, row.h, row.b, theirs, mine));
}

void DeviceRows::Impl::compare_scores(const Checked& some, const RowScores* scores) const {
  std::vector<RowScores> host(some.judged.size());
  check_tasks(some, [&](KeyPasses& passes, const RowTask& task) {
    passes.score(task, task_rows(task, some.judged), {}, task_rows(task, host));
  });
  for (size_t n = 0; n < some.judged.size(); ++n) {
    const RowScores &mine = host[n], &theirs = scores[some.rows[n]];
    const double apart = kSameValue * (1 + farthest(mine));
    if (mine.keys != theirs.keys)
      refuse(some.judged[n], "the number of keys", double(mine.keys), double(theirs.keys));
    if (!same(mine.lse, theirs.lse, apart))
      refuse(some.judged[n], "the log-sum-exp", mine.lse, theirs.lse);
    if (!same(mine.least, theirs.least, apart))
      refuse(some.judged[n], "the least score", mine.least, theirs.least);
    if (!same(mine.largest, theirs.largest, apart))
      refuse(some.judged[n], "the largest score", mine.largest, theirs.largest);
  }
}

// The host's rows from the scores that the device has found, which agree.
void DeviceRows::Impl::compare_results(const Checked& some, const RowScores* scores,
                                       const SigmaModel& model, const Told& told) const {
  const auto width = size_t(p.head_dim_v);
  std::vector<RowScores> given;
  for (const size_t row : some.rows) given.push_back(scores[row]);
  std::vector<double> host_o(some.judged.size() * width), sigma(host_o.size()),
      lse_sigma(some.judged.size()), reach(some.judged.size());
  check_tasks(some, [&](KeyPasses& passes, const RowTask& task) {
    const size_t at = task.begin;
    passes.finish(task, task_rows(task, some.judged), {}, task_rows(task, given), model,
                  {.o = host_o.data() + at * width,
                   .sigma = sigma.data() + at * width,
                   .lse_sigma = lse_sigma.data() + at,
                   .reach = reach.data() + at});
  });
  for (size_t n = 0; n < some.judged.size(); ++n) {
    const double apart = kSameValue * (1 + farthest(given[n])) * reach[n];
    for (size_t d = 0; d < width; ++d) {
      const double mine = host_o[n * width + d], theirs = told.o[n * width + d];
      if (!same(mine, theirs, apart)) refuse(some.judged[n], fmt::format("o[{}]", d), mine, theirs);
      const double my_sigma = sigma[n * width + d], their_sigma = told.sigma[n * width + d];
      if (!same(my_sigma, their_sigma, kSameSigma * my_sigma))
        refuse(some.judged[n], fmt::format("sigma[{}]", d), my_sigma, their_sigma);
    }
    if (!same(lse_sigma[n], told.lse_sigma[n], kSameSigma * lse_sigma[n]))
      refuse(some.judged[n], "the log-sum-exp's sigma", lse_sigma[n], told.lse_sigma[n]);
  }
}

std::string DeviceRows::unknown(const Problem& problem, std::span<const EqualKeys> equal) {
  const Params& p = problem.as<Params>();
  if (p.grid_height > 0) return "windows on a grid";
  if (problem.has(ATTEST_BLOCK_MASK)) return "block masks";
  if (p.global_tokens > 0) return "global tokens";
  if (p.top_k > 0) return "top_k";
  if (p.head_dim > kMostHeadDim) return fmt::format("head_dim {}", p.head_dim);
  for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_BIAS})
    if (const TensorSpec& spec = problem.tensor[size_t(role)];
        present(spec) && !is_known(spec.dtype))
      return fmt::format("tensors of {}", dtype_name(spec.dtype));
  for (const EqualKeys& keys : equal)
    if (!keys.place.empty()) return "equal keys";
  return {};
}

RowBudget DeviceRows::budget(const GoldenDevice& device) {
  const double work = device.multiply_adds_per_s() * kSeconds * kEfficiency / kWorkAPair;
  return {.all = work,
          .sampled = work,
          .elements = kMostElements,
          .rows_a_head = std::numeric_limits<int64_t>::max()};
}

DeviceRows::DeviceRows(const GoldenDevice& device, const Problem& problem, const Tensors& tensors,
                       const Geometry& geometry, const RowPlan& plan)
    : impl_(new Impl{.device = device,
                     .problem = problem,
                     .tensors = tensors,
                     .geometry = geometry,
                     .plan = plan}) {
  impl_->cut_blocks();
  impl_->choose_checked();
  impl_->find_largest_v();
}
DeviceRows::~DeviceRows() = default;

void DeviceRows::score(RowScores* scores) const {
  const Impl& own = *impl_;
  own.run(kScoresKernel, kScores, 1, own.rows(), {}, [&](size_t row, const double* made) {
    RowScores& at = scores[row];
    at = {.least = made[kLeast],
          .largest = made[kLargest],
          .lse = -std::numeric_limits<double>::infinity(),
          .keys = int64_t(made[kSeen])};
    if (at.keys > 0) at.close(made[kSum], own.geometry.sink(own.plan.rows[row].h));
  });
  own.compare_scores(own.checked, scores);
}

void DeviceRows::finish(const RowScores* scores, const SigmaModel& model,
                        const RowResults& results) const {
  if (model.needs_prefix())
    throw GoldenRefused(
        "the error that an exp is declared with takes a third pass, which is the host's");
  if (model.needs_shared())
    throw GoldenRefused("roundings that nearly equal tokens share are found by the host");
  if (are_coarse(model.u_acc))
    throw GoldenRefused("how addends of coarse sums round alike is found by the host");
  if (model.coarse_scores)
    throw GoldenRefused("errors of scores in which exp is not linear are found by the host");
  if (model.leans())
    throw GoldenRefused("to which side nearly equal probabilities round is found by the host");
  const Impl& own = *impl_;
  const int64_t width = own.p.head_dim_v;
  const kernels::WeightModel common = weight_model(model, {});
  const Model terms{.u_p = common.u_p,
                    .score2 = common.score2,
                    .q1 = common.q1,
                    .q2 = common.q2,
                    .a_share = common.a_share,
                    .of_dot = model.staged_square(1, 0),
                    .of_kept = model.staged_square(0, 1),
                    .slope_at_cap = model.slope_at_cap,
                    .apart = model.flushed_apart,
                    .squares = model.squares(),
                    .lone_weights = needs_a2(model)};
  std::vector<Row> rows = own.rows();
  for (size_t r = 0; r < rows.size(); ++r) {
    const RowScores& row = scores[r];
    if (row.keys > 0 && scores_round_to_averages(row, model))
      throw GoldenRefused("what rows may be that only have to be averages is found by the host");
    const kernels::WeightModel of_row = weight_model(model, row);
    rows[r].lse = of_row.lse;
    rows[r].eta_kappa = of_row.eta_kappa;
    rows[r].q0 = of_row.q0;
    rows[r].small = of_row.small;
    const SigmaModel::Flushing flushing = model.flushing(model.kappa(row.top(), row.lse), row.keys);
    rows[r].lost = flushing.gone;
    rows[r].kept = flushing.kept;
    rows[r].below = flushing.below;
    rows[r].cut = flushing.cut;
  }
  std::vector<double> o(own.checked.rows.size() * size_t(width));
  const bool common_addends = own.geometry.common_addends() && model.has_common_addends();
  own.run(kSumsKernel, sums_of_row(width), channel_blocks(width), rows, terms,
          [&](size_t row, const double* made) {
            const auto vector = [&](Vector which) { return made + kSums + which * width; };
            const JudgedRow& at = own.plan.rows[row];
            const RowSums sums{
                .pv = vector(kPv),
                .reach = vector(kReach),
                .p2v2 = vector(kP2v2),
                .a2v2 = vector(kA2v2),
                .e2v = vector(kE2v),
                .e2v2 = vector(kE2v2),
                .flushed = vector(kFlushed),
                .flushed_most = vector(kFlushedMost),
                .flushed_least = vector(kFlushedLeast),
                .unsure = vector(kUnsure),
                .unsure2 = vector(kUnsure2),
                .weights = {.p2 = made[kP2],
                            .a2 = made[kA2],
                            .e2 = made[kE2],
                            .p2t = made[kP2t],
                            .p2q = made[kP2q],
                            .px2 = made[kPx2],
                            .small = made[kSmall]},
                .common = common_addends ? made[kCommon] : 0,
                .at_cap = made[kAtCap],
                .mean_dot = model.scale_bias > 0 ? made[kMeanDot] : 0,
                .largest_v = own.largest_v[size_t(at.b * own.p.num_kv_heads + own.kv_head(at))]};
            finish_row(scores[row], sums, model, width, int64_t(row), results);
            if (const auto check =
                    std::lower_bound(own.checked.rows.begin(), own.checked.rows.end(), row);
                check != own.checked.rows.end() && *check == row)
              std::copy_n(sums.pv, width, o.data() + (check - own.checked.rows.begin()) * width);
          });
  std::vector<double> sigma, lse_sigma;
  for (const size_t row : own.checked.rows) {
    sigma.insert(sigma.end(), results.sigma + row * size_t(width),
                 results.sigma + (row + 1) * size_t(width));
    lse_sigma.push_back(results.lse_sigma[row]);
  }
  own.compare_results(own.checked, scores, model,
                      {.o = o.data(), .sigma = sigma.data(), .lse_sigma = lse_sigma.data()});
}

void DeviceRows::confirm(size_t row, const RowScores* scores, const SigmaModel& model,
                         const Told& told) const {
  const Impl& own = *impl_;
  Checked one;
  one.add(row, own.plan.rows[row], own.kv_head(own.plan.rows[row]), true);
  own.compare_scores(one, scores);
  own.compare_results(one, scores, model, told);
}

}  // namespace attest::core
