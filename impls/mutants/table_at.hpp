// table_at.hpp: the tables of a plugin whose implementations are one template.
#pragma once
#include <array>
#include <cstddef>
#include <utility>

#include "attest.hpp"

namespace mutants {

template <template <size_t> class Implementation, size_t... kIndex>
std::array<const attest_impl*, sizeof...(kIndex)> tables(std::index_sequence<kIndex...>) {
  return {attest::table<Implementation<kIndex>>()...};
}

/// What attest_plugin_v1 returns of Implementation<0> to Implementation<kCount - 1>: null behind
/// the last one.
template <template <size_t> class Implementation, size_t kCount>
const attest_impl* table_at(size_t index) {
  static const auto all = tables<Implementation>(std::make_index_sequence<kCount>());
  return index < kCount ? all[index] : nullptr;
}

}  // namespace mutants
