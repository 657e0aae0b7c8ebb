// How a report is to look.
#pragma once

namespace attest::reports {

struct Style {
  bool colour = false;  // ANSI colours, if the format has any
  bool charts = true;   // charts of a page; false: their data as tables, and a page without Vega
};

}  // namespace attest::reports
