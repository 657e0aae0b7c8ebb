// Ctrl-C. After the first one, the run ends before its next record and closes its files; the second
// one ends the process at once.
#pragma once

namespace attest::cli {

/// Handles Ctrl-C from now on.
void catch_interrupts();
/// Whether Ctrl-C was pressed.
bool interrupted();

}  // namespace attest::cli
