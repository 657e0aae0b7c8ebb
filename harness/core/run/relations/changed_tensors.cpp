#include "core/run/relations/changed_tensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <list>

#include "core/judge/check.hpp"
#include "core/judge/guess.hpp"
#include "core/judge/locate.hpp"
#include "core/measure/time.hpp"
#include "core/run/memory_room.hpp"
#include "core/run/outputs.hpp"
#include "core/run/relations/relations.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

constexpr std::string_view kRandom = "random";
// Limits for problems that are not quick: the seconds of all changes, of all where timed runs have
// a small budget, and of one change.
constexpr double kMost_s = 0.4, kMostOfSmall_s = 0.15, kMostOfOne_s = 2;

bool is_input(const Problem& problem, const Role& role) {
  return role.access == ATTEST_READ && problem.has(role.index);
}

uint64_t hash_of(const PreparedInputs& inputs, int32_t role) {
  return hash_tensor(inputs.shared().tensors()[size_t(role)]);
}

}  // namespace

ChangedTensors::ChangedTensors(const Problem& problem, const PreparedInputs& first, uint64_t seed,
                               double budget_ns, GoldenStore& goldens)
    : problem_(problem),
      first_(first),
      seed_(seed),
      most_s_(is_small_budget(budget_ns) ? kMostOfSmall_s : kMost_s),
      goldens_(goldens) {}
ChangedTensors::~ChangedTensors() = default;

bool ChangedTensors::differs(int32_t role, const PreparedInputs& contents) const {
  return hash_of(*base_, role) != hash_of(contents, role);
}

void ChangedTensors::add(std::vector<int32_t> roles, const PreparedInputs& contents) {
  std::vector<std::string_view> names;
  for (const int32_t role : roles) names.push_back(find_role(*problem_.operation, role)->name);
  changes_.push_back({fmt::format("{}", fmt::join(names, ", ")), std::move(roles), &contents});
}

// Lengths change one by one. If two tensors have the same lengths, or others follow from lengths,
// all integers change together.
void ChangedTensors::add_lengths(const std::vector<int32_t>& lengths, bool others_follow) {
  bool agree = others_follow;
  for (size_t n = 1; n < lengths.size(); ++n)
    agree = agree || hash_of(*base_, lengths[n]) == hash_of(*base_, lengths[n - 1]);
  std::vector<int32_t> together;
  for (const Role& role : problem_.operation->roles())
    if (is_input(problem_, role) && role.dtype == ATTEST_I32 &&
        differs(role.index, *other_lengths_))
      together.push_back(role.index);
  if (together.empty()) return;
  if (agree) return add(std::move(together), *other_lengths_);
  for (const int32_t role : together) add({role}, *other_lengths_);
}

// Lengths are the integers of rank 1. An order and pages follow from lengths, even where another
// seed happens to give the same.
void ChangedTensors::prepare() {
  if (base_) return;
  const Stopwatch watch(inputs_s_);
  const bool any_inputs = first_.fill().name == kRandom || first_.fill().name == kTokensFill;
  if (!any_inputs)
    own_base_ =
        std::make_unique<PreparedInputs>(problem_, Fill{std::string(kRandom), seed_}, nullptr);
  base_ = any_inputs ? &first_ : own_base_.get();
  const Fill other{std::string(kRandom), seed_ + 1};
  same_lengths_ = std::make_unique<PreparedInputs>(problem_, other, nullptr);
  std::vector<int32_t> lengths;
  bool others_follow = false;
  for (const Role& role : problem_.operation->roles()) {
    if (!is_input(problem_, role) || problem_.operation->follows(role.index)) continue;
    const bool is_integer = role.dtype == ATTEST_I32;
    if (differs(role.index, *same_lengths_)) add({role.index}, *same_lengths_);
    if (is_integer && problem_.tensor[size_t(role.index)].rank > 1)
      others_follow = true;
    else if (is_integer)
      lengths.push_back(role.index);
  }
  if (lengths.empty()) return;
  other_lengths_ =
      std::make_unique<PreparedInputs>(problem_, Fill{other.name, other.seed, true}, nullptr);
  add_lengths(lengths, others_follow);
}

// Sets how many changes this trial has room for. If the outcome is not a pass, there is no room.
Outcome ChangedTensors::fits(const Trial& trial, bool all, size_t& count) {
  const double golden_s = goldens_.of(first_).seconds(),
               one_s = golden_s + 2e-9 * trial.quickest_run_ns();
  if (!all && one_s > kMostOfOne_s)
    return {ReasonCode::kSkippedTime,
            fmt::format("two runs and a golden take {:.3g} s; the limit is {:g} s", one_s,
                        kMostOfOne_s)};
  const auto room_for = [&](double sets) {
    const double bytes = sets * min_bytes(problem_) + double(trial.workspace_bytes);
    return fits_in_memory(bytes, kSharedMemory, trial.plugin.options().limits.memory_bytes,
                          "needs " + print_memory(bytes));
  };
  if (Outcome room = room_for(4 + 2); !room.passes()) return room;
  prepare();
  count = changes_.size();
  if (count == 0) return {};
  if (!all) {
    const double change_s = golden_seconds(*some(1)[0]) + 2e-9 * trial.quickest_run_ns();
    count = std::min(count, size_t(std::max(1.0, most_s_ / std::max(change_s, 1e-9))));
  }
  while (count > 1 && !room_for(4 + 2 * double(count)).passes()) --count;
  return {};
}

// Computes the golden of changed inputs, and keeps it for judging. It takes longer than that of the
// first fill if that has a closed form.
double ChangedTensors::golden_seconds(const Change& change) {
  const Stopwatch watch(judging_s_);
  KeptGolden& golden = goldens_.of(*change.inputs);
  golden.use([](const Golden&) {});
  return golden.seconds();
}

// Returns that many changes, and makes their inputs. The seed decides where they begin.
std::vector<ChangedTensors::Change*> ChangedTensors::some(size_t count) {
  std::vector<Change*> chosen;
  for (size_t n = 0; n < count; ++n)
    chosen.push_back(&changes_[size_t((seed_ + n) % changes_.size())]);
  const Stopwatch watch(inputs_s_);
  for (Change* change : chosen)
    if (!change->inputs)
      change->inputs = std::make_unique<PreparedInputs>(*base_, *change->contents, change->roles);
  return chosen;
}

Judgement ChangedTensors::judge_by_golden(const Trial& trial, const Change& change,
                                          const SharedTensors& outputs) {
  return goldens_.of(*change.inputs).use([&](const Golden& golden) {
    return core::judge(problem_, golden, trial.arithmetic, outputs.tensors(),
                       &change.inputs->shared().tensors());
  });
}

// The inputs that have changed because another one did: " (and o, lse, which follow)".
std::string ChangedTensors::followers(const Change& change) const {
  std::vector<std::string_view> names;
  for (const Role& role : problem_.operation->roles())
    if (problem_.operation->follows(role.index) && differs(role.index, *change.inputs))
      names.push_back(role.name);
  return names.empty() ? "" : fmt::format(" (and {}, which follow)", fmt::join(names, ", "));
}

// The plan has remembered something if its output is wrong here and right in a process of its own.
Outcome ChangedTensors::judge(const Trial& trial, const Change& change,
                              const SharedTensors& outputs, RelationRecord& record) {
  const Stopwatch watch(judging_s_);
  Judgement& judgement = record.judgement;
  const std::string where = fmt::format(
      "after a run of the same plan with other contents of {} alone{}, at the same addresses",
      change.names, followers(change));
  if (const std::string canary = outputs.broken_canary(); !canary.empty()) {
    return judgement.outcome = {ReasonCode::kCrashCanary, fmt::format("{} ({})", canary, where)};
  }
  judgement.exact_elements += element_count(main_output(problem_));
  Judgement judged = judge_by_golden(trial, change, outputs);
  if (!is_far_off(judged)) {
    judgement.max_ratio = std::max(judgement.max_ratio, judged.max_ratio);
    return {};
  }
  Plugin fresh(trial.plugin.path(), trial.plugin.options());
  SharedTensors alone(problem_, ATTEST_WRITE, trial.workspace_bytes);
  alone.poison();
  const RunResult run = fresh.run(trial.implementation, problem_, change.inputs->shared(), alone);
  trial.plugin.count_calls_of(fresh);
  if (!run.failure && !is_far_off(judge_by_golden(trial, change, alone))) {
    judged.outcome = {ReasonCode::kFailChangedTensor,
                      fmt::format("changed-tensor: {} ({}; right in a process of its own)",
                                  judged.outcome.reason, where)};
    judgement = judged;
    return judged.outcome;
  }
  judged.outcome.reason +=
      fmt::format(" ({}, {})", where,
                  run.failure ? "a process of its own fails too: " + run.failure->reason
                              : "and in a process of its own too");
  set_locations(judged, goldens_.of(*change.inputs).use([&](const Golden& golden) {
    return locate_all(problem_, golden, trial.arithmetic, outputs.tensors());
  }));
  judgement = judged;
  return judged.outcome;
}

RelationRecord ChangedTensors::run(const Trial& trial, bool all) {
  RelationRecord record{.relation = std::string(kChangedTensor)};
  size_t count = 0;
  const Outcome room = fits(trial, all, count);
  record.judgement.outcome = room;
  if (!room.passes() || count == 0) return record;
  const std::vector<Change*> changes = some(count);
  Script script;
  script.plans = {&problem_};
  const int32_t unchanged = script.add(base_->shared()), first = script.add(*trial.outputs);
  trial.outputs->place(Side::kEnd);
  trial.outputs->poison();
  std::list<SharedTensors> outputs;
  script.create(0);
  for (const Change* change : changes) {
    SharedTensors& made = outputs.emplace_back(problem_, ATTEST_WRITE);
    made.poison();
    script.run(0, 0, unchanged, first);
    script.run(0, 0, script.add(change->inputs->shared()), script.add(made));
  }
  script.destroy(0);
  const ScriptResult result = trial.plugin.script(trial.implementation, script,
                                                  2 * double(count) * trial.quickest_run_ns());
  if (result.failure) {
    record.judgement.outcome = {result.failure->code,
                                result.failure->reason + " (in a run for changed-tensor)"};
    return record;
  }
  for (const double ns : result.run_ns) record.run_ns += ns;
  auto made = outputs.begin();
  std::vector<std::string_view> names;
  for (const Change* change : changes) {
    if (judge(trial, *change, *made++, record).is_bad()) return record;
    names.push_back(change->names);
  }
  record.judgement.method =
      fmt::format("{} of {} changes{}, by their goldens: {}", count, changes_.size(),
                  all ? "" : fmt::format(" in up to {:g} s", most_s_), fmt::join(names, "; "));
  return record;
}

}  // namespace attest::core
