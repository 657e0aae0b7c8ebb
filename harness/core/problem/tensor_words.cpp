#include "core/problem/tensor_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/problem/values.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

constexpr size_t kMostDims = std::size(TensorSpec{}.dim);
constexpr int64_t kMostElements = int64_t{1} << 47;  // more than any address space holds

DType usual_dtype(const Problem& problem, const Role& role) {
  return role.dtype != ATTEST_NONE ? role.dtype : problem.dtype;
}

void check_dims(const Problem& problem, const Role& role, std::span<const int64_t> dims) {
  if (dims.empty()) throw Error(fmt::format("{}: does not belong to this problem", role.name));
  double elements = 1;
  for (const int64_t dim : dims) {
    if (dim < 1) problem.operation->check(problem);  // names the field at fault
    if (dim < 1)
      throw Error(fmt::format("{}: dims {} must be at least 1", role.name, print_list(dims)));
    elements *= double(dim);
  }
  if (elements > double(kMostElements))
    throw Error(
        fmt::format("{}: dims {} are more than memory can address", role.name, print_list(dims)));
}

void place(Problem& problem, const Role& role, const TensorWord* word) {
  const std::vector<int64_t> dims =
      word && word->dims ? *word->dims : problem.operation->dims(problem, role.index);
  check_dims(problem, role, dims);
  const DType dtype = word && word->dtype != ATTEST_NONE ? word->dtype : usual_dtype(problem, role);
  problem.tensor[size_t(role.index)] = dense_tensor(dtype, role.access, dims);
}

// Nested strides: each holds all that lies inside it. Anything else overlaps, or is no layout that
// anyone uses.
bool overlaps(const TensorSpec& spec) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, dim
  for (int i = 0; i < spec.rank; ++i)
    if (spec.dim[i] > 1) axes.emplace_back(spec.stride[i], spec.dim[i]);
  std::sort(axes.begin(), axes.end());
  double inner = 1;
  for (const auto& [stride, dim] : axes) {
    if (double(stride) < inner) return true;
    inner += double(stride) * double(dim - 1);
  }
  return inner > double(kMostElements);
}

void lay_out(const Role& role, const TensorWord& word, TensorSpec& spec) {
  const auto rank = size_t(spec.rank);
  if (!word.order.empty()) {
    std::vector<int> sorted = word.order;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < rank || i < sorted.size(); ++i)
      if (sorted.size() != rank || sorted[i] != int(i))
        throw Error(fmt::format("{}.order={}: must name each of the {} dims once, outermost first",
                                role.name, fmt::join(word.order, ""), rank));
    spec = permuted_tensor(spec.dtype, spec.access, dims(spec), word.order);
  } else if (!word.strides.empty()) {
    const std::string text = print_list(word.strides);
    if (word.strides.size() != rank)
      throw Error(
          fmt::format("{}.strides={}: must be {} numbers, one a dim", role.name, text, rank));
    std::copy(word.strides.begin(), word.strides.end(), spec.stride);
    for (size_t i = 0; i < rank; ++i)
      if ((spec.dim[i] == 1) != (spec.stride[i] == 0))
        throw Error(fmt::format("{}.strides={}: must be 0 exactly where the dim is 1; dims are {}",
                                role.name, text, print_list(dims(spec))));
    if (overlaps(spec))
      throw Error(fmt::format("{}.strides={}: elements of dims {} overlap or lie too far apart",
                              role.name, text, print_list(dims(spec))));
  }
}

// What .order and .strides say of a spec that is not dense. Axes of size 1 lie anywhere; they come
// first.
void describe_layout(const TensorSpec& spec, TensorWord& word) {
  std::vector<int> order(size_t(spec.rank));
  std::iota(order.begin(), order.end(), 0);
  auto outer = [&spec](int i) { return spec.dim[i] == 1 ? INT64_MAX : spec.stride[i]; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return outer(a) > outer(b); });
  const TensorSpec permuted = permuted_tensor(spec.dtype, spec.access, dims(spec), order);
  if (std::equal(permuted.stride, permuted.stride + spec.rank, spec.stride))
    word.order = std::move(order);
  else
    word.strides.assign(spec.stride, spec.stride + spec.rank);
}

}  // namespace

void place_tensors(Problem& problem, const TensorWords& words) {
  const std::span<const Role> roles = problem.operation->roles();
  auto word_of = [&words](const Role& role) {
    const auto at = words.find(role.index);
    return at == words.end() ? nullptr : &at->second;
  };
  // What stands in the line comes first; then optional tensors, whose presence may decide the dims
  // of required ones (packing).
  for (const Role& role : roles) {
    const TensorWord* word = word_of(role);
    if (!word) continue;
    if (word->dims) {
      place(problem, role, word);
    } else if (!role.required) {
      TensorSpec& spec = problem.tensor[size_t(role.index)];
      spec.dtype = word->dtype != ATTEST_NONE ? word->dtype : usual_dtype(problem, role);
      spec.access = role.access;
    }
  }
  for (const bool required : {false, true})
    for (const Role& role : roles) {
      const TensorWord* word = word_of(role);
      if (role.required == required && (required || word) && !(word && word->dims))
        place(problem, role, word);
    }
  for (const Role& role : roles)
    if (const TensorWord* word = word_of(role))
      lay_out(role, *word, problem.tensor[size_t(role.index)]);
}

TensorWords tensor_words(const Problem& problem) {
  TensorWords words;
  const std::span<const Role> roles = problem.operation->roles();
  for (const Role& role : roles) {
    const TensorSpec& spec = problem.tensor[size_t(role.index)];
    if (!present(spec)) continue;
    TensorWord word;
    if (spec.dtype != usual_dtype(problem, role)) word.dtype = spec.dtype;
    if (!is_dense(spec)) describe_layout(spec, word);
    if (!role.required || word.dtype != ATTEST_NONE || !word.order.empty() || !word.strides.empty())
      words[role.index] = std::move(word);
  }
  // Dims are added where the line so far would give others, one tensor at a time: the dims of one
  // may follow from another's.
  auto first_wrong = [&]() -> const Role* {
    Problem sketch = problem;
    sketch.tensor = {};
    TensorWords plain = words;
    for (auto& [index, word] : plain) {
      word.order.clear();
      word.strides.clear();
    }
    place_tensors(sketch, plain);
    for (const Role& role : roles)
      if (!std::ranges::equal(dims(sketch.tensor[size_t(role.index)]),
                              dims(problem.tensor[size_t(role.index)])))
        return &role;
    return nullptr;
  };
  auto spell_out = [&](const Role& role) {
    const std::span<const int64_t> actual = dims(problem.tensor[size_t(role.index)]);
    words[role.index].dims.emplace(actual.begin(), actual.end());
  };
  try {
    while (const Role* role = first_wrong()) spell_out(*role);
  } catch (const Error&) {  // the usual dims alone would be no problem
    for (const Role& role : roles)
      if (problem.has(role.index)) spell_out(role);
  }
  return words;
}

bool parse_tensor(std::string_view value, TensorWord& word) {
  const size_t bracket = std::min(value.find('['), value.size());
  if (const std::string_view name = value.substr(0, bracket); !name.empty()) {
    const auto dtype = dtype_from_name(name);
    if (!dtype || dtype_bytes(*dtype) == 0) return false;
    word.dtype = *dtype;
  }
  if (bracket == value.size()) return !value.empty();
  word.dims = parse_list(value.substr(bracket), kMostDims, kMostElements);
  return word.dims && !word.dims->empty();
}

bool parse_order(std::string_view value, TensorWord& word) {
  for (const char c : value) word.order.push_back(c - '0');
  return !value.empty() && value.size() <= kMostDims &&
         std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '5'; });
}

bool parse_strides(std::string_view value, TensorWord& word) {
  auto strides = parse_list(value, kMostDims, kMostElements);
  if (!strides || strides->empty()) return false;
  word.strides = std::move(*strides);
  return true;
}

std::string print_tensor(const Role& role, const TensorWord& word) {
  std::string text;
  if (!role.required || word.dtype != ATTEST_NONE || word.dims) {
    text = fmt::format(" {}", role.name);
    if (word.dtype != ATTEST_NONE || word.dims) text += '=';
    if (word.dtype != ATTEST_NONE) text += dtype_name(word.dtype);
    if (word.dims) text += print_list(*word.dims);
  }
  if (!word.order.empty())
    text += fmt::format(" {}.order={}", role.name, fmt::join(word.order, ""));
  if (!word.strides.empty())
    text += fmt::format(" {}.strides={}", role.name, print_list(word.strides));
  return text;
}

}  // namespace attest::core
