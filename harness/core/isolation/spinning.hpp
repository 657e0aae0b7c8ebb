// How long threads of OpenMP spin at a barrier before they sleep.
#pragma once

namespace attest::core {

/// Sets libgomp's limit in the environment, for the processes that are started from here on: the
/// library reads it when it is loaded. Its own default is milliseconds, and where something else
/// runs on the machine, each barrier then costs a scheduler's slice. Some tens of microseconds keep
/// barriers quick on an idle machine and bearable on a busy one. A user's own choice stands.
/// Returns whether the environment was changed.
bool bound_spinning();

}  // namespace attest::core
