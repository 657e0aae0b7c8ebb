// The source that `attest new` writes: harness/abi/example/naive_minimal.cpp, embedded at build
// time.
#pragma once
#include <string>

namespace attest::cli {

extern const char* const kNewTemplate;
/// The names in the template that the user's names replace.
inline constexpr const char *kTemplateName = "naive_minimal", *kTemplateType = "NaiveMinimal";

/// The folder of attest.h: in the source tree, or in the installation.
std::string include_folder();

}  // namespace attest::cli
