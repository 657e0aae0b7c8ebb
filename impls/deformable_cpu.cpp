// deformable_cpu: multi-scale deformable attention in float32, SIMD and threads over queries of
// heads (simd/deformable/deformable.cpp). V of a head is copied together if its rows are read
// often. If it is larger than a cache, queries are sorted by place, so that pixels are read again
// while they are near. The order changes no output.
#include <omp.h>

#include <algorithm>

#include "attest.hpp"
#include "simd/deformable/deformable.hpp"
#include "simd/sizes.hpp"

namespace {

using impls::ceil_div;

struct DeformableCpu {
  static constexpr attest::Info kInfo{
      .name = "deformable_cpu",
      .version = "2",
      .summary = "multi-scale deformable attention in float32, SIMD and threads",
      .operation = ATTEST_DEFORMABLE,
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      .features = ATTEST_WITH_ALIGN_CORNERS | ATTEST_WITH_STRIDES | ATTEST_WITH_MIXED_DTYPE |
                  ATTEST_WITH_UNALIGNED};
  static constexpr int64_t kLeastQueries = 256;  // of a task, if a head has them
  static constexpr int64_t kTasksOfThread = 4;   // at least, so that threads end together

  const attest_problem& problem;

  static const attest_deformable_params& params(const attest_problem& problem) {
    return attest::params<attest_deformable_params>(problem);
  }

  /// The slice of head h of sequence b; without addresses if `data` is null.
  static impls::DeformableSlice slice(const attest_problem& problem, void* const* data, int64_t b,
                                      int64_t h) {
    const attest_deformable_params& p = params(problem);
    const attest_tensor* const t = problem.tensor;
    const auto at = [&](int role) -> char* {
      const int64_t bytes = t[role].dtype == ATTEST_F32 ? 4 : 2;
      return data == nullptr ? nullptr
                             : static_cast<char*>(data[role]) +
                                   (b * t[role].stride[0] + h * t[role].stride[1]) * bytes;
    };
    impls::DeformableSlice s;
    s.v_dtype = t[ATTEST_V].dtype;
    s.location_dtype = t[ATTEST_LOCATIONS].dtype;
    s.weight_dtype = t[ATTEST_WEIGHTS].dtype;
    s.o_dtype = t[ATTEST_O].dtype;
    s.v = at(ATTEST_V);
    s.locations = at(ATTEST_LOCATIONS);
    s.weights = at(ATTEST_WEIGHTS);
    s.o = at(ATTEST_O);
    std::copy_n(t[ATTEST_V].stride + 2, 2, s.v_stride);
    std::copy_n(t[ATTEST_LOCATIONS].stride + 2, 4, s.location_stride);
    std::copy_n(t[ATTEST_WEIGHTS].stride + 2, 3, s.weight_stride);
    std::copy_n(t[ATTEST_O].stride + 2, 2, s.o_stride);
    s.channels = p.head_dim_v;
    s.levels = p.num_levels;
    s.points = p.num_points;
    s.height = p.level_height;
    s.width = p.level_width;
    s.align_corners = p.align_corners != 0;
    return s;
  }

  /// How the queries of a head are cut into tasks: as one, unless threads would go idle.
  struct Plan {
    int64_t parts, queries;  // queries of a part
    size_t scratch_bytes;    // of one thread
  };
  static Plan plan(const attest_problem& problem) {
    const attest_deformable_params& p = params(problem);
    const int64_t heads = p.batch * p.num_heads,
                  wanted =
                      problem.threads == 1 ? 1 : ceil_div(kTasksOfThread * problem.threads, heads);
    Plan work;
    work.parts = std::min(wanted, ceil_div(p.seq_len_q, kLeastQueries));
    work.queries = ceil_div(p.seq_len_q, work.parts);
    work.scratch_bytes =
        impls::deformable_scratch_bytes(slice(problem, nullptr, 0, 0), work.queries);
    return work;
  }

  static const char* query(const attest_problem& problem, attest_support& support) {
    if (problem.tensor[ATTEST_V].dim[2] > INT32_MAX) return "more than 2^31 - 1 tokens of V";
    if (params(problem).seq_len_q > INT32_MAX) return "more than 2^31 - 1 queries";
    support.sum_chain = impls::deformable_sum_chain(slice(problem, nullptr, 0, 0));
    support.workspace_bytes = static_cast<size_t>(problem.threads) * plan(problem).scratch_bytes;
    return nullptr;
  }

  void run(void* const* data, void* workspace, void* /*stream*/) const {
    const attest_deformable_params& p = params(problem);
    const Plan work = plan(problem);
#pragma omp parallel for schedule(dynamic, 1) num_threads(problem.threads)
    for (int64_t task = 0; task < p.batch * p.num_heads * work.parts; ++task) {
      const int64_t head = task / work.parts, begin = task % work.parts * work.queries;
      const impls::Range queries{begin, std::min(begin + work.queries, p.seq_len_q)};
      if (queries.begin >= queries.end) continue;
      impls::sample_queries(slice(problem, data, head / p.num_heads, head % p.num_heads), queries,
                            static_cast<char*>(workspace) +
                                static_cast<size_t>(omp_get_thread_num()) * work.scratch_bytes);
    }
  }
};

}  // namespace

ATTEST_PLUGIN(attest::table<DeformableCpu>())
