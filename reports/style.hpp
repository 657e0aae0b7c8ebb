// How a report is to look.
#pragma once

namespace attest::reports {

struct Style {
  bool colour = false;  // ANSI colours, if the format has any
};

}  // namespace attest::reports
