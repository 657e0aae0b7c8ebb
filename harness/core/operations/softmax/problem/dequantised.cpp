#include "core/operations/softmax/problem/dequantised.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

void check_factors(const Problem& problem, int32_t role, const Tensor& factors) {
  for (int64_t n = 0; n < element_count(factors.spec); ++n) {
    const double factor =
        load(factors.data, factors.spec.dtype, row_offset(factors.spec, factors.spec.rank, n));
    if (std::isfinite(factor) && factor > 0) continue;
    const std::vector<int64_t> at = row_index(factors.spec, factors.spec.rank, n);
    const char* name = find_role(*problem.operation, role)->name;
    throw Error(
        fmt::format("{0}[{1},{2},{3}]: {4}; must be finite and above 0: the number by which "
                    "what is stored is multiplied; leave {0} out where it is 1",
                    name, at[0], at[1], at[2], factor));
  }
}

// Dense float64 of every stored number.
void widen(const Tensor& from, Tensor& to, std::vector<double>& memory) {
  memory.resize(size_t(element_count(from.spec)));
  to.spec = dense_tensor(ATTEST_F64, ATTEST_READ, dims(from.spec));
  to.data = memory.data();
  const int64_t width = from.spec.dim[3], rows = row_count(from.spec, 3);
#pragma omp parallel for schedule(static) if (rows * width > kThreadedElements)
  for (int64_t r = 0; r < rows; ++r)
    load_row(from.data, from.spec.dtype, row_offset(from.spec, 3, r), width, from.spec.stride[3],
             memory.data() + r * width);
}

}  // namespace

bool is_in_f16(const Problem& problem) {
  return std::ranges::all_of(kStoredRoles, [&](const StoredRole& stored) {
    return problem.tensor[size_t(stored.role)].dtype == ATTEST_F16;
  });
}

Arithmetic with_stored_operands(Arithmetic declared, const Problem& problem) {
  DType& qk = declared.stage[ATTEST_SOFTMAX_QK].dtype;
  if (is_f8(qk) && qk == problem.tensor[ATTEST_Q].dtype) qk = ATTEST_F32;
  return declared;
}

Dequantised::Dequantised(const Problem& problem, const Tensors& tensors)
    : problem_(problem), tensors_(tensors) {
  auto& p = problem_.as<Params>();
  const Geometry geometry(problem, tensors);
  for (size_t n = 0; n < kStoredRoles.size(); ++n) {
    const auto [role, of_factors] = kStoredRoles[n];
    Tensor& wide = tensors_[size_t(role)];
    widen(tensors[size_t(role)], wide, memory_[n]);
    problem_.tensor[size_t(role)] = wide.spec;
    const Tensor factors = tensors[size_t(of_factors)];
    problem_.tensor[size_t(of_factors)] = TensorSpec{};
    tensors_[size_t(of_factors)] = Tensor{};
    if (!factors) continue;
    check_factors(problem, of_factors, factors);
    const bool of_queries = role == ATTEST_Q;
    const int64_t block = of_queries ? p.descale_block_q : p.descale_block_kv,
                  heads = wide.spec.dim[1], rows = wide.spec.dim[2], width = wide.spec.dim[3];
    // A page may belong to several sequences, and its rows are multiplied once.
    std::vector<bool> done(size_t(wide.spec.dim[0] * rows), false);
    for (int64_t b = 0; b < geometry.batch(); ++b)
      for (int64_t i = 0; i < (of_queries ? geometry.length_q(b) : geometry.length_kv(b)); ++i) {
        const Cell cell = of_queries ? geometry.query(b, i) : geometry.key(b, i);
        if (done[size_t(cell.outer * rows + cell.row)]) continue;
        done[size_t(cell.outer * rows + cell.row)] = true;
        for (int64_t h = 0; h < heads; ++h) {
          const double factor = factors.at({b, h, block > 0 ? geometry.token(i) / block : 0});
          double* row = memory_[n].data() + ((cell.outer * heads + h) * rows + cell.row) * width;
          for (int64_t d = 0; d < width; ++d) row[d] *= factor;
        }
      }
  }
  p.descale_block_q = p.descale_block_kv = 0;
}

}  // namespace attest::core
