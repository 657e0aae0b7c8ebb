#include "core/vectors/upstream/packed_qkv.hpp"

#include <fmt/format.h>

#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {

PackedQkv packed_qkv(UpstreamCase& from, const FileTensor& qkv, int64_t outer, int64_t tokens) {
  const int64_t heads = from.params().whole("heads");
  if (heads < 1 || heads > 65536)
    throw Error(fmt::format("{}: heads: {}", from.params().where(), heads));
  if (outer < 1 || tokens < 1 || qkv.count() % (outer * tokens) != 0)
    throw Error(fmt::format("qkv: dims {} are not those of {} windows of {} tokens",
                            print_dims(qkv.dims), outer, tokens));
  const int64_t width = qkv.count() / (outer * tokens), channels = width / 3 / heads;
  if (width != 3 * heads * channels || channels < 1)
    throw Error(fmt::format("qkv: {} channels are no 3 * {} heads", width, heads));
  return {&qkv, outer, tokens, heads, channels};
}

Tensor part_of(const PackedQkv& x, int64_t part) {
  const int64_t width = 3 * x.heads * x.channels;
  return view(*x.qkv, {.dims = {x.outer, x.heads, x.tokens, x.channels},
                       .strides = {x.tokens * width, x.channels, width, 1},
                       .offset = part * x.heads * x.channels});
}

Tensor output_of(const PackedQkv& x, const FileTensor& y) {
  if (y.count() * 3 != x.qkv->count())
    throw Error(
        fmt::format("Y: dims {} do not fit qkv {}", print_dims(y.dims), print_dims(x.qkv->dims)));
  return view(y, {.dims = {x.outer, x.heads, x.tokens, x.channels},
                  .strides = {x.tokens * x.heads * x.channels, x.channels, x.heads * x.channels, 1},
                  .offset = 0});
}

FileTensor& gather_sets(TestVector& vector, const char* name, const PackedQkv& x,
                        const FileTensor& file, int64_t width, int64_t first,
                        const std::vector<int64_t>& tokens, int64_t set_size, double none) {
  const int64_t sets = int64_t(tokens.size()) / set_size;
  FileTensor& gathered = make_file(vector, name, usable(file, "the vector").dtype,
                                   {sets, x.heads, set_size, x.channels});
  int64_t at = 0;
  for (int64_t set = 0; set < sets; ++set)
    for (int64_t h = 0; h < x.heads; ++h)
      for (int64_t place = 0; place < set_size; ++place) {
        const int64_t token = tokens[size_t(set * set_size + place)];
        for (int64_t d = 0; d < x.channels; ++d)
          store(gathered.bytes.data(), gathered.dtype, at++,
                token < 0 ? none : file.at(token * width + first + h * x.channels + d));
      }
  return gathered;
}

int64_t pixels(JsonFields& params, const char* key, int64_t least) {
  const int64_t length = params.whole(key);
  if (length < least || length > kLongestSide)
    throw Error(fmt::format("{}: {}: {} where {} to {} is right", params.where(), key, length,
                            least, kLongestSide));
  return length;
}

}  // namespace attest::core
