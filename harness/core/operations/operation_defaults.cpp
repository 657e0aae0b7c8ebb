// What an operation has that does not say otherwise: no relations, and the variants that all share.
#include "core/operations/operation.hpp"
#include "core/operations/relation.hpp"
#include "core/operations/variant.hpp"

namespace attest::core {

Operation::~Operation() = default;

std::vector<std::unique_ptr<Relation>> Operation::relations(const Problem&, const Tensors&) const {
  return {};
}
std::vector<Variant> Operation::variants(const Problem& problem) const {
  return common_variants(problem);
}

}  // namespace attest::core
