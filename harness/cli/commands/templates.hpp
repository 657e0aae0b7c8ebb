// The files that `attest new` writes: examples of the source tree, embedded at build time, with the
// user's names in place of theirs.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace attest::cli {

/// One file. `NAME` in `file` stands for the user's name.
struct Template {
  std::string_view file;  // "NAME.cpp", "NAME/NAME.json"
  std::string_view text;
  std::string_view name;  // in the text: "naive_minimal"
  std::string_view type;  // in the text: "NaiveMinimal"; empty: it has none
};

extern const Template kCxxTemplate, kCTemplate, kCudaTemplate, kBackwardTemplate;
/// An operation in a folder of its own.
std::span<const Template> operation_templates();

/// The folder of attest.h in the build tree or the installation of this program; "": there is none.
std::string include_folder();

}  // namespace attest::cli
