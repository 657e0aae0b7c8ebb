#include "reports/html/decide_data.hpp"

#include <nlohmann/json.hpp>

#include "reports/choice/measuring.hpp"
#include "reports/choice/why.hpp"

namespace attest::reports::html {

void add_decide_data(const core::Results& run, const core::Record& record, nlohmann::json& data) {
  data["processor"] = processor(run, record);
  data["subject"] = subject_of(run, record);
  data["options"] = options_of(record);
  if (record.outcome.verdict() == core::Verdict::kSkipped) data["estimated"] = record.estimated_ns;
  if (!record.outcome.passes()) return;
  if (const Judging judging = judging_of(record); judging.is_partial())
    data["in_part"] = judging_words(judging);
}

}  // namespace attest::reports::html
