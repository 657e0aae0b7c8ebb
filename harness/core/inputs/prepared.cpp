#include "core/inputs/prepared.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "core/tensor/error.hpp"
#include "core/tensor/runs.hpp"

namespace attest::core {
namespace {

// The tokens that a problem uses, as storage rows of the whole set, and the places of its ORDER.
struct Selection {
  std::vector<int32_t> rows;   // [tokens] token of storage row i of the problem
  std::vector<int32_t> order;  // [tokens] storage row of the problem that stands at place i
};

// Without ORDER the problem's rows follow the curve. With it they are stored as the sweep has them,
// and ORDER follows the curve.
Selection select(const Tokens& tokens, int64_t count, bool ordered) {
  if (count > tokens.count)
    throw Error(
        fmt::format("{} tokens are needed where {} has {}", count, tokens.source, tokens.count));
  Selection selection;
  selection.rows.assign(tokens.order.begin(), tokens.order.begin() + count);
  selection.order.resize(size_t(count));
  std::iota(selection.order.begin(), selection.order.end(), 0);
  if (!ordered) return selection;
  std::sort(selection.rows.begin(), selection.rows.end());
  for (int64_t place = 0; place < count; ++place) {
    const auto at =
        std::lower_bound(selection.rows.begin(), selection.rows.end(), tokens.order[size_t(place)]);
    selection.order[size_t(place)] = int32_t(at - selection.rows.begin());
  }
  return selection;
}

// `count` of the selected rows, evenly spread: queries may be fewer than keys.
std::vector<int32_t> spread(const std::vector<int32_t>& rows, int64_t count) {
  std::vector<int32_t> some(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    some[size_t(i)] = rows[size_t(i * int64_t(rows.size()) / count)];
  return some;
}

void project(const Tokens& tokens, const Selection& selection, const Role& role,
             const Tensor& tensor, uint64_t seed) {
  const TensorSpec& spec = tensor.spec;
  if (spec.rank != 4)
    throw Error(
        fmt::format("{}: tokens fill tensors of rank 4 [batch, heads, tokens, dim]", role.name));
  const int64_t heads = spec.dim[1], count = spec.dim[2], dim = spec.dim[3];
  if (count > int64_t(selection.rows.size()))
    throw Error(fmt::format("{}: {} rows are needed where {} tokens were taken", role.name, count,
                            selection.rows.size()));
  const std::vector<int32_t> rows = spread(selection.rows, count);
  std::vector<float> values(size_t(heads * count * dim));
  for (int64_t b = 0; b < spec.dim[0]; ++b) {
    const uint64_t own = hash_text(role.name, seed + uint64_t(b));
    project_tokens(tokens, rows, own, heads, dim, role.content == Role::Content::kCentredKeys,
                   values, seed + uint64_t(b));
    for (int64_t row = 0; row < heads * count; ++row)
      store_row(tensor.data, spec.dtype, row_offset(spec, 3, b * heads * count + row), dim,
                spec.stride[3], values.data() + row * dim);
  }
}

// Element by element; the bits as they are where the dtypes agree, so that NaN keeps its payload. A
// bool is 0 or 1 afterwards.
void copy_elements(const Tensor& from, const Tensor& to) {
  const int rank = to.spec.rank;
  const size_t size = dtype_bytes(to.spec.dtype);
  const bool same = from.spec.dtype == to.spec.dtype && to.spec.dtype != ATTEST_BOOL;
  for (int64_t row = 0, rows = row_count(to.spec, rank); row < rows; ++row) {
    const int64_t source = row_offset(from.spec, rank, row),
                  target = row_offset(to.spec, rank, row);
    if (same) {
      std::memcpy(static_cast<char*>(to.data) + target * int64_t(size),
                  static_cast<const char*>(from.data) + source * int64_t(size), size);
    } else {
      const double value = load(from.data, from.spec.dtype, source);
      store(to.data, to.spec.dtype, target,
            to.spec.dtype == ATTEST_BOOL ? double(value != 0) : value);
    }
  }
}

// Row `to` becomes row `from` of the other tensor, turned by some channels. Rows with a NaN or Inf
// stay, and go nowhere: these lie where nobody may look.
void turn_row(const Tensor& tensor, int64_t to, const Tensor& other, int64_t from, uint64_t turn) {
  const TensorSpec& spec = tensor.spec;
  const int last = spec.rank - 1;
  const int64_t width = spec.dim[last], at = row_offset(spec, last, to),
                source = row_offset(spec, last, from);
  std::vector<double> values(static_cast<size_t>(width));
  const auto place = [&](int64_t i) { return i * spec.stride[last]; };
  for (int64_t i = 0; i < width; ++i) {
    values[size_t(i)] = load(other.data, spec.dtype, source + place(i));
    if (!std::isfinite(values[size_t(i)]) ||
        !std::isfinite(load(other.data, spec.dtype, at + place(i))))
      return;
  }
  for (int64_t i = 0; i < width; ++i)
    store(tensor.data, spec.dtype, at + place(i),
          values[(size_t(i) + 1 + turn % 1021) % size_t(width)]);
}

}  // namespace

uint64_t spec_seed(std::string_view spec_line) { return hash_text(spec_line); }

PreparedInputs::PreparedInputs(const Problem& problem, const Fill& fill, const Tokens* tokens,
                               Side side)
    : problem_(problem), fill_(fill), shared_(problem, ATTEST_READ) {
  shared_.place(side);
  if (fill.name == kTokensFill && !tokens) throw Error("fill 'tokens': the case has no tokens");
  const Tensors& tensors = shared_.tensors();
  if (tokens) {
    int64_t count = 0;
    bool ordered = false;
    for (const Role& role : problem.operation->roles()) {
      const Tensor& tensor = tensors[size_t(role.index)];
      if (!tensor || role.content == Role::Content::kOwn) continue;
      ordered |= role.content == Role::Content::kOrder;
      count = std::max(count, tensor.spec.dim[tensor.spec.rank == 4 ? 2 : tensor.spec.rank - 1]);
    }
    const Selection selection = select(*tokens, count, ordered);
    for (const Role& role : problem.operation->roles()) {
      const Tensor& tensor = tensors[size_t(role.index)];
      if (!tensor || role.content == Role::Content::kOwn) continue;
      if (role.content == Role::Content::kOrder) {
        for (int64_t row = 0; row < row_count(tensor.spec, tensor.spec.rank); ++row)
          store(tensor.data, tensor.spec.dtype, row_offset(tensor.spec, tensor.spec.rank, row),
                selection.order[size_t(row % count)]);
      } else if (fill.name == kTokensFill) {
        project(*tokens, selection, role, tensor, fill.seed);
      }
    }
  }
  problem.operation->fill(problem, fill, tensors, tokens != nullptr);
  hash_ = hash_inputs();
  shared_.seal();
}

PreparedInputs::PreparedInputs(const Problem& problem, const Tensors& given)
    : problem_(problem), fill_{std::string(kGivenFill), 0}, shared_(problem, ATTEST_READ) {
  for (const Role& role : problem.operation->roles()) {
    const Tensor &to = shared_.tensors()[size_t(role.index)], &from = given[size_t(role.index)];
    if (bool(to) != bool(from))
      throw Error(fmt::format("{}: {}", role.name,
                              to ? "is not given" : "is given, but the problem has none"));
    if (!to) continue;
    if (!std::ranges::equal(dims(to.spec), dims(from.spec)))
      throw Error(fmt::format("{}: dims [{}] are given where the problem has [{}]", role.name,
                              fmt::join(dims(from.spec), ","), fmt::join(dims(to.spec), ",")));
    copy_elements(from, to);
  }
  hash_ = hash_inputs();
  shared_.seal();
}

PreparedInputs::PreparedInputs(const PreparedInputs& original, uint64_t seed)
    : problem_(original.problem_), fill_(original.fill_), shared_(original.problem_, ATTEST_READ) {
  std::mt19937_64 dice(seed);
  for (const Role& role : problem_.operation->roles()) {
    const Tensor& tensor = shared_.tensors()[size_t(role.index)];
    if (!tensor) continue;
    const Tensor& from = original.shared_.tensors()[size_t(role.index)];
    copy_elements(tensor.spec, tensor.data, from.data);
    const int64_t rows = row_count(tensor.spec, tensor.spec.rank - 1);
    if (!is_float(tensor.spec.dtype) || problem_.operation->follows(role.index)) continue;
    for (int64_t k = 0; k <= rows / 64; ++k)
      turn_row(tensor, int64_t(dice() % uint64_t(rows)), from, int64_t(dice() % uint64_t(rows)),
               dice());
  }
  problem_.operation->write_following(problem_, shared_.tensors());
  hash_ = hash_inputs();
  shared_.seal();
}

PreparedInputs::PreparedInputs(const PreparedInputs& original, const PreparedInputs& other,
                               std::span<const int32_t> roles)
    : problem_(original.problem_), fill_(original.fill_), shared_(original.problem_, ATTEST_READ) {
  for (const Role& role : problem_.operation->roles()) {
    const Tensor& tensor = shared_.tensors()[size_t(role.index)];
    if (!tensor) continue;
    const bool changes = std::ranges::find(roles, role.index) != roles.end();
    const SharedTensors& from = (changes ? other : original).shared_;
    copy_elements(tensor.spec, tensor.data, from.tensors()[size_t(role.index)].data);
  }
  problem_.operation->write_following(problem_, shared_.tensors());
  hash_ = hash_inputs();
  shared_.seal();
}

bool PreparedInputs::unchanged() const { return hash_inputs() == hash_; }

std::string PreparedInputs::hash_inputs() const {
  uint64_t hash = 0;
  for (const Role& role : problem_.operation->roles()) {
    const Tensor& tensor = shared_.tensors()[size_t(role.index)];
    if (!tensor) continue;
    const uint64_t pair[] = {hash, hash_tensor(tensor)};
    hash = hash_bytes(pair, sizeof(pair), uint64_t(role.index));
  }
  return hex(hash);
}

}  // namespace attest::core
