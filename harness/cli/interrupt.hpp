// Ctrl-C and SIGTERM. After the first one, the run stops before its next record and keeps its
// results; the second one ends the process at once.
#pragma once

namespace attest::cli {

/// Handles both signals from now on.
void catch_interrupts();
/// Whether one has come.
bool interrupted();

}  // namespace attest::cli
