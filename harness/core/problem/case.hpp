// A case: the problems of one entry of a suite, and where their inputs come from.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

/// Where a case's inputs come from.
struct Inputs {
  bool from_tokens = false;
  std::string source = "random";  // or a line of core/inputs/tokens.hpp:
                                  // "lidar:voxel_size=0.05,curve=z,first=32768"
};

/// The value of a seq_len field that stands for the number of tokens of the source.
inline constexpr std::string_view kTokensValue = "tokens";

/// A word of a spec line.
struct Word {
  std::string key, value;  // value "": a word without a value
};

/// Why the inputs of a case may miss the events (NumericEvent) that a glob matches.
struct Excuse {
  std::string glob, why;
  bool shared = false;  // from the suite's `misses`, which excuses several cases at once
};

struct Case {
  std::string name;  // model/layer, unique in its suite
  std::string suite, operation;
  std::vector<Word> words;    // of its spec line, without operation and dtype
  std::vector<DType> dtypes;  // one problem for each
  std::vector<DType> quick;   // those of the --quick selection; empty: none
  Inputs inputs;
  std::string source;  // the upstream project and files that the shape comes from
  std::string note;
  std::vector<std::string> only_impls;  // globs; empty: all
  std::vector<Excuse> misses;           // events that its inputs may miss
  std::vector<std::string>
      fills;  // judged only on these; kAllFills: on all; empty: on the default fills

  /// Whether a size is the number of tokens.
  bool sized_by_tokens() const;
  /// The problem in that dtype. Throws Error as parse_problem does. `token_count` is ignored unless
  /// sized_by_tokens().
  Problem problem(DType dtype, int64_t token_count) const;
};

/// A problem at many sizes, for `attest scale`.
struct Scaling {
  Case base;                      // its words give a size to every field of `over`
  std::vector<std::string> over;  // "seq_len_q=1k..256k": the fields that grow, each by itself
  std::string threads;            // "1..n": the numbers of threads; empty: the session's
  // Budgets of one run; 0: none. The largest size within them is looked for.
  double deadline_s = 0;
  uint64_t memory_bytes = 0;  // tensors and measured peak together
};

}  // namespace attest::core
