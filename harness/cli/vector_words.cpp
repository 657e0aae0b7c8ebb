#include "cli/vector_words.hpp"

#include <utility>

namespace attest::cli {

void add_vector_words(CLI::App& command, core::VectorWords& words) {
  for (const auto& [key, help] :
       {std::pair("operation", "of a .safetensors or .npz file: softmax (default) or linear"),
        std::pair("params", "likewise: 'causal softcap=30', fields of attest.h"),
        std::pair("layout", "likewise: bhsd (default) or bshd, [batch, tokens, heads, dim]"),
        std::pair("arithmetic",
                  "likewise: what computed its outputs, e.g. prob=bf16 (default: float32)")})
    command
        .add_option_function<std::string>(
            std::string("--") + key,
            [&words, key = std::string(key)](const std::string& value) { words[key] = value; },
            help)
        ->type_name("WORDS");
}

}  // namespace attest::cli
