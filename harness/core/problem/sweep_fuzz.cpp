// Fuzzes sweeps: a word of sizes, a line break, a spec line. No text crashes them, and every size
// of a sweep that is read has a problem.
#include <cstdlib>
#include <string_view>

#include "core/problem/spec.hpp"
#include "core/problem/sweep.hpp"
#include "core/tensor/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attest::core;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t line_break = text.find('\n');
  if (line_break == text.npos) return 0;
  std::vector<Sweep> sweeps;
  try {
    const std::vector<std::string> over{std::string(text.substr(0, line_break))};
    sweeps = sweeps_of(scaling_of_spec(text.substr(line_break + 1), over));
  } catch (const Error&) {
    return 0;
  }
  for (const Sweep& sweep : sweeps)
    for (const DType dtype : sweep.of.base.dtypes) {
      for (const int64_t value : sweep.values)
        if (print_problem(sweep.at(dtype, value)).empty()) std::abort();
      sweep.smallest(dtype);
      const auto middle = sweep.between(sweep.values.front(), sweep.values.back());
      if (middle && (*middle <= sweep.values.front() || *middle >= sweep.values.back()))
        std::abort();
    }
  return 0;
}
