// LightGlue's cross attention, both ways at once: qk0 asks for what qk1 holds and the other way
// round, one product of them for both. The two ways become sequences of one batch, the shorter
// image padded.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/operations/softmax/softmax.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/upstream/upstream_case.hpp"

namespace attest::core {
namespace {

/// [2 batch, heads, tokens, channels]: first the one image, then the other; `none` beyond the end
/// of the shorter.
Tensor stack(TestVector& vector, const char* name, const FileTensor& first,
             const FileTensor& second, int64_t tokens, double none) {
  const int64_t batch = first.dims[0], heads = first.dims[1], channels = first.dims[3];
  FileTensor& both = make_file(vector, name, usable(first, "the vector").dtype,
                               {2 * batch, heads, tokens, channels});
  int64_t at = 0;
  for (const FileTensor* image : {&first, &usable(second, "the vector")})
    for (int64_t outer = 0; outer < batch * heads; ++outer)
      for (int64_t token = 0; token < tokens; ++token)
        for (int64_t d = 0; d < channels; ++d)
          store(both.bytes.data(), both.dtype, at++,
                token < image->dims[2] ? image->at((outer * image->dims[2] + token) * channels + d)
                                       : none);
  return view(both, dense_axes(both.dims));
}

/// Sequences of the first way have `first` tokens, those of the second `second`.
void give_lengths(TestVector& vector, int32_t role, const char* name, int64_t batch, int64_t first,
                  int64_t second) {
  FileTensor& lengths = make_file(vector, name, ATTEST_I32, {2 * batch});
  for (int64_t b = 0; b < 2 * batch; ++b)
    store(lengths.bytes.data(), ATTEST_I32, b, double(b < batch ? first : second));
  give(vector, role, flat_view(lengths));
}

/// mask [batch, 1, tokens of the one image, tokens of the other], turned round for the second way.
void give_mask(TestVector& vector, const FileTensor& mask, int64_t batch, int64_t first,
               int64_t second, int64_t tokens) {
  expect_dims(mask, {batch, 1, first, second}, "mask");
  FileTensor& both = make_file(vector, "mask", ATTEST_BOOL, {2 * batch, 1, tokens, tokens});
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < first; ++i)
      for (int64_t j = 0; j < second; ++j) {
        const double attend = mask.at((b * first + i) * second + j) != 0 ? 1 : 0;
        store(both.bytes.data(), ATTEST_BOOL, (b * tokens + i) * tokens + j, attend);
        store(both.bytes.data(), ATTEST_BOOL, ((batch + b) * tokens + j) * tokens + i, attend);
      }
  give(vector, ATTEST_MASK, view(both, dense_axes(both.dims)));
}

}  // namespace

void map_cross(UpstreamCase& from, TestVector& vector) {
  const FileTensor &qk0 = from.needed("qk0"), &qk1 = from.needed("qk1"), &v0 = from.needed("v0"),
                   &v1 = from.needed("v1"), &m0 = from.needed_output("m0"),
                   &m1 = from.needed_output("m1");
  expect_dims(qk0, {-1, -1, -1, -1}, "qk0");
  expect_dims(v0, {-1, -1, -1, -1}, "v0");
  const int64_t batch = qk0.dims[0], heads = qk0.dims[1], first = qk0.dims[2],
                channels = qk0.dims[3], width = v0.dims[3];
  expect_dims(qk1, {batch, heads, -1, channels}, "qk1");
  const int64_t second = qk1.dims[2], tokens = std::max(first, second);
  expect_dims(v0, {batch, heads, first, width}, "v0");
  expect_dims(v1, {batch, heads, second, width}, "v1");
  expect_dims(m0, {batch, heads, first, width}, "m0");
  expect_dims(m1, {batch, heads, second, width}, "m1");
  if (channels < 1) throw Unsupported{"an empty tensor: qk0 " + print_dims(qk0.dims)};
  const double unsaid = std::numeric_limits<double>::quiet_NaN();
  give_qkvo<attest_softmax_params>(
      vector, softmax_operation(), stack(vector, "q", qk0, qk1, tokens, 0),
      stack(vector, "k", qk1, qk0, tokens, 0), stack(vector, "v", v1, v0, tokens, 0),
      stack(vector, "m", m0, m1, tokens, unsaid));
  vector.outputs.back().partial = first != second;
  set_scale(vector, from.params().real("scale", 1 / std::sqrt(double(channels))));
  if (first != second) {
    give_lengths(vector, ATTEST_SEQ_LENS_Q, "seq_lens_q", batch, first, second);
    give_lengths(vector, ATTEST_SEQ_LENS_KV, "seq_lens_kv", batch, second, first);
  }
  if (const FileTensor* mask = from.input("mask"))
    give_mask(vector, *mask, batch, first, second, tokens);
}

}  // namespace attest::core
