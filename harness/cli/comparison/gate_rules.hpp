// Reads rules files of attest gate: limits by suite, implementation and case, and waivers.
//
//   {"rules": [{"impl": "flash_*", "verdict": "pass", "time": {"slower_than": "3 %"}}],
//    "waivers": [{"case": "bev/*", "limits": "time", "reason": "#12", "expires": "2026-12-31"}]}
//
// reports/gate/rules.schema.json describes the file.
#pragma once
#include <string>
#include <string_view>

#include "reports/gate/gate.hpp"

namespace attest::cli {

/// Throws Error: the text is not JSON, a key is unknown or of the wrong type, a value is out of
/// range, a rule sets no limit, or a waiver has no glob, reason or valid date. The message names
/// `file`, the rule and the key.
reports::GateRules parse_gate_rules(std::string_view text, const std::string& file);
/// Throws Error also if the file cannot be read.
reports::GateRules read_gate_rules(const std::string& path);

}  // namespace attest::cli
