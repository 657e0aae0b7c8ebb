// A plugin's functions behind guards: each call is counted on the status page, and no exception
// passes.
#pragma once
#include <string>

#include "attest.h"
#include "core/isolation/status_page.hpp"
#include "core/worker/watch.hpp"

namespace attest::core {

/// Returns a table that wraps `table`. It is valid until the next call, so only one plan can be
/// wrapped at a time. `watch` receives what `create` left and what the runs did to it. All three
/// arguments must outlive the calls.
attest_impl guarded(const attest_impl& table, StatusPage& page, Watch& watch);

/// What left a call of the guarded table as an exception: "run threw: bad size"; "": nothing did.
const std::string& escaped_exception();

}  // namespace attest::core
