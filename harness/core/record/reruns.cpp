#include "core/record/reruns.hpp"

#include <fmt/format.h>

namespace attest::core {
namespace {

// "passes", "fails".
std::string_view verb(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass: return "passes";
    case Verdict::kFail: return "fails";
    case Verdict::kCrash: return "crashes";
    case Verdict::kTimeout: return "does not end in time";
    default: return "is suspect";
  }
}

std::string cause(const RerunRecord& reruns) {
  if (!reruns.differs_with_one_thread) return "race or uninitialised memory";
  return *reruns.differs_with_one_thread
             ? "uninitialised memory, since runs with one thread differ too"
             : "a race between threads, since all runs with one thread agree";
}

}  // namespace

int64_t RerunRecord::differing() const {
  int64_t count = unjudged;
  for (const Other& other : others) count += other.runs;
  return count;
}

std::string print_reruns(const RerunRecord& reruns) {
  if (reruns.workspace)
    return fmt::format(
        "it gives other bits if its workspace held {} before the run: it reads memory that it has "
        "not written",
        *reruns.workspace);
  const int64_t differing = reruns.differing();
  if (differing == 0)
    return reruns.runs == 1 ? "a rerun gives the same bits"
                            : fmt::format("{} reruns give the same bits", reruns.runs);
  const std::string which =
      reruns.runs == 1
          ? fmt::format("a rerun gives other bits and {}", verb(reruns.others[0].outcome.verdict()))
      : differing == 1 ? fmt::format("one of {} reruns gives other bits and {}", reruns.runs,
                                     verb(reruns.others[0].outcome.verdict()))
                       : fmt::format("{} of {} reruns give other bits", differing, reruns.runs);
  return which + (reruns.apart ? ": " + cause(reruns) : ", within what its arithmetic explains");
}

}  // namespace attest::core
