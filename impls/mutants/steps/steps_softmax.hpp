// What the tables of steps call: one plan for a planted bug and a problem.
#pragma once
#include <memory>

#include "attest.hpp"
#include "mutants/steps/steps.hpp"

namespace steps {

struct Plan {
  virtual ~Plan() = default;
  virtual void run(void* const* data, void* workspace) const = 0;
};

/// Declares workspace and arithmetic, float32 everywhere: a bug that is declared is none.
void declare(const Step& step, const attest_problem& problem, attest_support& support);

std::unique_ptr<Plan> make_plan(const Step& step, const attest_problem& problem);

}  // namespace steps
