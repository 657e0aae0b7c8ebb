// What a worker notes on the status page on its way down: the address of a fault, a stack that ran
// out, an exception in a thread.
#pragma once
#include "core/isolation/status_page.hpp"

namespace attest::core {

/// Handlers for SIGSEGV, SIGBUS and std::terminate, that note and let the process die of it. They,
/// and those for SIGFPE, SIGILL and SIGABRT, write the plugin's calls to standard error. Once, on
/// the main thread, before a plugin is loaded: it may put its own in their place.
void note_faults(StatusPage& page);

}  // namespace attest::core
