// The files of the page that the build embeds: reports/html/*.css, *.js and body.html;
// and what scripts/charts.sh fetched.
#pragma once
#include <string_view>

namespace attest::reports::html {

extern const std::string_view kStyle, kScript, kBody;
extern const std::string_view kStyleSha256, kScriptSha256;  // hexadecimal

/// The script that draws charts: Vega, Vega-Lite and Vega-Embed. All is empty if the build had
/// none.
struct Bundle {
  std::string_view script, sha256, licences;
};
extern const Bundle kVega;

}  // namespace attest::reports::html
