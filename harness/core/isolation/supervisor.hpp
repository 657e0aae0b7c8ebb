// The supervisor: a process between the harness and a worker that ends, with the worker, everything
// that the worker ever started.
#pragma once

namespace attest::core {

/// Forks. Returns in the child, which is the worker; the parent stays as its supervisor and never
/// returns.
///
/// Processes that a plugin starts and abandons become children of the worker, or of the supervisor
/// once the worker is gone, whatever session they put themselves into. The supervisor kills them
/// all when the worker ends, when the harness closes its end of the control socket, and so when the
/// harness dies. Nothing has started a thread by then, so that the fork is safe.
void start_supervisor();

}  // namespace attest::core
