// What an operation has that does not say otherwise: no mistakes, no relations, the variants that
// all share, dims by number.
#include <fmt/format.h>

#include "core/operations/mistake.hpp"
#include "core/operations/operation.hpp"
#include "core/operations/relation.hpp"
#include "core/operations/variant.hpp"

namespace attest::core {

Operation::~Operation() = default;

std::string Operation::dim_name(int32_t /*role*/, int axis) const {
  return fmt::format("dim {}", axis);
}
std::vector<Mistake> Operation::mistakes(const Problem&, const Tensors&) const { return {}; }
std::vector<std::unique_ptr<Relation>> Operation::relations(const Problem&, const Tensors&) const {
  return {};
}
std::vector<Variant> Operation::variants(const Problem& problem) const {
  return common_variants(problem);
}

}  // namespace attest::core
