// Attention inside of sets of tokens: patches along an order (PTv3), sets that list their tokens
// (DSVT, SST), groups that a map fills (FlatFormer). All heads of q, k and v are in one tensor
// [tokens, q|k|v, head, channel]; Y is [tokens, head, channel].
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/operations/softmax/softmax.hpp"
#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/upstream/packed_qkv.hpp"

namespace attest::core {
namespace {

PackedQkv tokens_of(UpstreamCase& from) {
  const FileTensor& qkv = from.needed("qkv");
  expect_dims(qkv, {-1, -1}, "qkv");
  return packed_qkv(from, qkv, 1, qkv.dims[0]);
}

std::vector<int64_t> indices_of(const FileTensor& file, int64_t end, const char* name) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < usable(file, "the vector").count(); ++i) {
    const double index = file.at(i);
    if (!(index >= 0 && index < double(end)) || index != std::trunc(index))
      throw Error(fmt::format("{}: {} at {} where 0 to {} is right", name, index, i, end - 1));
    indices.push_back(int64_t(index));
  }
  return indices;
}

void set_usual_scale(UpstreamCase& from, TestVector& vector, const PackedQkv& x) {
  set_scale(vector, from.params().real("scale", 1 / std::sqrt(double(x.channels))));
}

/// The ends of packed sequences, as PTv3's `offset` has them.
void give_ends(TestVector& vector, const FileTensor& offset, const PackedQkv& x) {
  const std::vector<int64_t> ends = indices_of(offset, x.tokens + 1, "offset");
  auto& p = vector.problem->as<attest_softmax_params>();
  FileTensor& starts = make_file(vector, "cu_seqlens", ATTEST_I32, {int64_t(ends.size()) + 1});
  int64_t longest = 0, begin = 0;
  for (size_t b = 0; b < ends.size(); ++b) {
    longest = std::max(longest, ends[b] - begin);
    begin = ends[b];
    store(starts.bytes.data(), ATTEST_I32, int64_t(b) + 1, double(begin));
  }
  p.batch = int64_t(ends.size());
  p.seq_len_q = p.seq_len_kv = std::max<int64_t>(longest, 1);
  give(vector, ATTEST_CU_SEQLENS_Q, flat_view(starts));
  give(vector, ATTEST_CU_SEQLENS_KV, flat_view(starts));
}

/// Sets of `size` places each, at which `inds` puts tokens. A place is judged where it is not
/// padding and where it is the one that its token's output comes from.
struct Sets {
  std::vector<int64_t> inds;
  int64_t size;
  const FileTensor* padding;         // true: not attended; null: none
  std::vector<int64_t> kept_places;  // of each token; empty: a token stands in one set

  bool padded(size_t place) const { return padding && padding->at(int64_t(place)) != 0; }
  /// The token whose output is expected at each place; -1: nobody says.
  std::vector<int64_t> judged(int64_t tokens) const;
};

std::vector<int64_t> Sets::judged(int64_t tokens) const {
  std::vector<int64_t> found(inds.size(), -1), set_of(size_t(tokens), -1);
  for (size_t token = 0; token < kept_places.size(); ++token) {
    if (inds[size_t(kept_places[token])] != int64_t(token))
      throw Error(fmt::format("win2flat: token {} comes from place {}, where token {} stands",
                              token, kept_places[token], inds[size_t(kept_places[token])]));
    found[size_t(kept_places[token])] = int64_t(token);
  }
  if (!kept_places.empty()) return found;
  for (size_t place = 0; place < inds.size(); ++place) {
    if (padded(place)) continue;
    int64_t& set = set_of[size_t(inds[place])];
    if (set >= 0 && set != int64_t(place) / size)
      throw Error(fmt::format("token {} stands in sets {} and {}: which output is its own?",
                              inds[place], set, int64_t(place) / size));
    set = int64_t(place) / size;
    found[place] = inds[place];
  }
  return found;
}

void give_sets(UpstreamCase& from, TestVector& vector, const PackedQkv& x, const Sets& sets) {
  const FileTensor& y = from.output();
  const int64_t model = x.heads * x.channels;
  expect_dims(y, {x.tokens, model}, "Y");
  const auto gather = [&](const char* name, const FileTensor& file, int64_t width, int64_t first,
                          const std::vector<int64_t>& tokens) {
    const FileTensor& gathered = gather_sets(vector, name, x, file, width, first, tokens, sets.size,
                                             std::numeric_limits<double>::quiet_NaN());
    return view(gathered, dense_axes(gathered.dims));
  };
  const auto part = [&](int64_t n) {
    return gather("qkv", *x.qkv, 3 * model, n * model, sets.inds);
  };
  const std::vector<int64_t> judged = sets.judged(x.tokens);
  give_qkvo<attest_softmax_params>(vector, softmax_operation(), part(0), part(1), part(2),
                                   gather("Y", y, model, 0, judged));
  vector.outputs.back().partial = std::ranges::count(judged, -1) > 0;
  set_usual_scale(from, vector, x);
  if (!sets.padding) return;
  const int64_t count = int64_t(sets.inds.size()) / sets.size;
  FileTensor& mask = make_file(vector, "mask", ATTEST_BOOL, {count, 1, 1, sets.size});
  for (size_t place = 0; place < sets.inds.size(); ++place)
    store(mask.bytes.data(), ATTEST_BOOL, int64_t(place), sets.padded(place) ? 0 : 1);
  give(vector, ATTEST_MASK, view(mask, dense_axes(mask.dims)));
}

}  // namespace

// PTv3 SerializedAttention: `order` lists the tokens as their codes sort them, `offset` where each
// cloud ends.
void map_serialized(UpstreamCase& from, TestVector& vector) {
  const PackedQkv x = tokens_of(from);
  const FileTensor& y = from.output();
  expect_dims(y, {x.tokens, x.heads * x.channels}, "Y");
  auto& p = give_qkvo<attest_softmax_params>(vector, softmax_operation(), part_of(x, 0),
                                             part_of(x, 1), part_of(x, 2), output_of(x, y));
  p.patch_size = from.params().whole("patch_size");
  if (p.patch_size < 1)
    throw Error(fmt::format("{}: patch_size: {}", from.params().where(), p.patch_size));
  set_usual_scale(from, vector, x);
  if (const FileTensor* offset = from.input("offset")) give_ends(vector, *offset, x);
  if (const FileTensor* order = from.input("order")) {
    expect_dims(*order, {x.tokens}, "order");
    give(vector, ATTEST_ORDER, view(*order, dense_axes({1, x.tokens})), ATTEST_I32);
  }
}

// DSVT SetAttention, and windows that SST padded to a bucket: voxel_inds [sets, size];
// key_padding_mask of the same dims is true where a place is padding, as PyTorch has it.
void map_sets(UpstreamCase& from, TestVector& vector) {
  const PackedQkv x = tokens_of(from);
  const FileTensor& inds = from.needed("voxel_inds");
  expect_dims(inds, {-1, -1}, "voxel_inds");
  const FileTensor* padding = from.input("key_padding_mask");
  if (padding) expect_dims(*padding, {inds.dims[0], inds.dims[1]}, "key_padding_mask");
  if (inds.count() < 1) throw Unsupported{"set_attention without a set"};
  give_sets(from, vector, x, {indices_of(inds, x.tokens, "voxel_inds"), inds.dims[1], padding, {}});
}

// FlatFormer GroupAttention: flat2win says which token stands at a place, win2flat from which place
// a token's output comes.
void map_groups(UpstreamCase& from, TestVector& vector) {
  const PackedQkv x = tokens_of(from);
  const FileTensor &inds = from.needed("flat2win"), &kept = from.needed("win2flat");
  const int64_t size = from.params().whole("group_size");
  expect_dims(inds, {-1}, "flat2win");
  expect_dims(kept, {x.tokens}, "win2flat");
  if (size < 1 || inds.count() < size || inds.count() % size != 0)
    throw Error(fmt::format("{}: group_size: {} does not divide flat2win {}", from.params().where(),
                            size, print_dims(inds.dims)));
  give_sets(from, vector, x,
            {indices_of(inds, x.tokens, "flat2win"), size, nullptr,
             indices_of(kept, inds.count(), "win2flat")});
}

}  // namespace attest::core
