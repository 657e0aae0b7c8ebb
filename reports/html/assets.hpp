// The files of the page that the build embeds: reports/html/*.css, *.js and body.html.
#pragma once
#include <string_view>

namespace attest::reports::html {

extern const std::string_view kStyle, kScript, kBody;
extern const std::string_view kStyleSha256, kScriptSha256;  // hexadecimal

}  // namespace attest::reports::html
