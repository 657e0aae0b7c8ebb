// Queries and keys that are equal bit for bit, of which the gradients are computed once. Inputs
// with few distinct rows have a closed form: the pairs of a class of queries and a class of keys
// add the same, so that their number is a factor.
//
//   if (has_classes(rows)) {
//     const GroupedOrder queries = query_classes(rows), keys = key_classes(rows);
//     ... a sum over queries.place[n], each of which counts queries.count[n] times ...
//   }
#pragma once
#include "core/operations/softmax_backward/backward_rows.hpp"

namespace attest::core::backward {

/// Whether every query sees every key of its sequence, nothing is added to the scores, and all keys
/// count: then the position of a row does not matter. A sequence without queries or keys has
/// classes, too.
bool has_classes(const HeadRows& rows);

/// The classes of the loaded queries and keys, in the order of HeadRows::query_order() and
/// key_order(), in which the rows of a class follow one another. GroupedOrder::place is the first
/// row of a class. Queries of a class have equal Q, dO and LSE, and the same delta with the same
/// errors; keys have equal K and V.
GroupedOrder query_classes(const HeadRows& rows);
GroupedOrder key_classes(const HeadRows& rows);

}  // namespace attest::core::backward
