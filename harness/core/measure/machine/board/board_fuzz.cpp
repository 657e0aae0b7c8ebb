// Fuzzes the parsers of the texts of a board: none crashes them, and what they read is within what
// it can be.
#include <cstdlib>
#include <string>

#include "core/datasheets/board_modules.hpp"
#include "core/measure/machine/board/board_texts.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

// A value or a reason, never both and never neither.
template <class T>
bool is_one(const attest::core::Reading<T>& reading) {
  return reading.value.has_value() == reading.missing.empty();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attest::core;
  const std::string text(reinterpret_cast<const char*>(data), size);

  const BoardModule* module = find_module(text);
  require(!module || text.find(module->part) != text.npos);
  const Reading<std::string> l4t = parse_l4t(text);
  require(is_one(l4t) && (!l4t.value || l4t.value->starts_with("R")));
  if (l4t.value) require(is_one(parse_jetpack(*l4t.value)));
  require(is_one(parse_jetpack(text)));

  const Reading<int64_t> mode = parse_mode_id(text);
  require(is_one(mode) && (!mode.value || (*mode.value >= 0 && *mode.value < 10000)));
  const Reading<std::string> name = parse_mode_name(text, mode.value.value_or(2));
  require(is_one(name) && (!name.value || text.find("NAME=" + *name.value) != text.npos));

  const Reading<int64_t> mask = parse_mask(text, 16);
  require(is_one(mask) && (!mask.value || (*mask.value >= 2 && *mask.value <= 16)));
  const Reading<double> number = parse_value(text);
  require(is_one(number) && (!number.value || *number.value - *number.value == 0));
  const Reading<double> clock = within(number, 1e-6, 20, 1300, "MHz", "a clock");
  require(is_one(clock) && (!clock.value || (*clock.value >= 20 && *clock.value <= 1300)));
  return 0;
}
