#include "core/operations/softmax_backward/backward_classes.hpp"

#include <cstring>

namespace attest::core::backward {
namespace {

/// `alike`: whether two places of one group belong to one class.
template <class Alike>
GroupedOrder classes_of(const GroupedOrder& all, const Alike& alike) {
  GroupedOrder classes;
  classes.distinct = all.distinct;
  for (size_t n = 0; n < all.place.size(); ++n) {
    const bool begins_group = n == 0 || all.ends[n - 1];
    if (begins_group || !alike(classes.place.back(), all.place[n])) {
      classes.place.push_back(all.place[n]);
      classes.count.push_back(0);
      classes.ends.push_back(false);
      classes.is_alone.push_back(all.is_alone[n]);
    }
    ++classes.count.back();
    classes.ends.back() = all.ends[n];
  }
  return classes;
}

}  // namespace

bool has_classes(const HeadRows& rows) {
  if (rows.geometry().pair_terms() || rows.params().top_k > 0) return false;
  for (int64_t i = 0; i < rows.length_q(); ++i)
    if (rows.keys(i).size() != rows.length_kv()) return false;
  return true;
}

GroupedOrder query_classes(const HeadRows& rows) {
  const auto query = [&](int32_t place) {
    return Query{place / rows.length_q(), place % rows.length_q()};
  };
  return classes_of(rows.query_order(), [&](int32_t one, int32_t other) {
    return rows.are_alike(query(one), query(other));
  });
}

GroupedOrder key_classes(const HeadRows& rows) {
  const auto bytes = size_t(rows.params().head_dim_v) * sizeof(double);
  return classes_of(rows.key_order(), [&](int32_t one, int32_t other) {
    return std::memcmp(rows.v(one), rows.v(other), bytes) == 0;
  });
}

}  // namespace attest::core::backward
