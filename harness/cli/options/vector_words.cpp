#include "cli/options/vector_words.hpp"

#include <utility>

#include "core/tensor/error.hpp"

namespace attest::cli {

void add_vector_words(CLI::App& command, core::VectorWords& words) {
  for (const auto& [key, help] :
       {std::pair("operation",
                  "for a .safetensors or .npz file: softmax (default), linear, deformable or "
                  "softmax_backward"),
        std::pair("params", "for such a file: parameters as in attest.h, 'causal softcap=30'"),
        std::pair("layout",
                  "for such a file: bhsd (default), or bshd: [batch, tokens, heads, dim]"),
        std::pair("arithmetic",
                  "for such a file: the arithmetic of its outputs, e.g. prob=bf16 (default: f32)")})
    command
        .add_option_function<std::string>(
            std::string("--") + key,
            [&words, key = std::string(key)](const std::string& value) { words[key] = value; },
            help)
        ->type_name("WORDS");
}

CLI::Option* add_time_of_vectors(CLI::App& command, bool& is_timed) {
  return command.add_flag("--time", is_timed, "time implementations on vectors that they pass");
}

void settle_time(JudgingOptions& judging, bool is_timed) {
  if (is_timed && judging.untimed) throw core::Error("--time cannot be given with --judge-only");
  judging.untimed = !is_timed;
}

}  // namespace attest::cli
