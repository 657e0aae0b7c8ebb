// Queries that are equal bit for bit have equal gradients, and so have equal keys. Such rows are a
// class, whose gradient is computed once. Inputs with few classes have a closed form: each pair of
// a query and a key of two classes adds the same, so that the number of these pairs is a factor.
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

/// The classes of the loaded queries and of the loaded keys. Queries of one class have equal Q, dO
/// and LSE, and the same delta with the same errors. Keys of one class have equal K and V. The
/// classes stand in the order of HeadRows::query_order() and key_order(), where the rows of a class
/// follow one another. In the result, GroupedOrder::place has the first row of each class, and
/// GroupedOrder::count the number of its rows.
GroupedOrder query_classes(const HeadRows& rows);
GroupedOrder key_classes(const HeadRows& rows);

}  // namespace attest::core::backward
