// Ctrl-C: the first ends the run in order, the second at once.
#pragma once

namespace attest::cli {

void catch_interrupts();
bool interrupted();

}  // namespace attest::cli
