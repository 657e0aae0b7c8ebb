// The source that `attest new` writes: harness/abi/example/naive_minimal.cpp, embedded at build
// time.
#pragma once
#include <string>

namespace attest::cli {

extern const char* const kNewTemplate;
/// The names in it that the user's take the place of.
inline constexpr const char *kTemplateName = "naive_minimal", *kTemplateType = "NaiveMinimal";

/// Where attest.h is: the source tree, or the include folder of the installation.
std::string include_folder();

}  // namespace attest::cli
