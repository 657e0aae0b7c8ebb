#include "core/run/relations/plan_reuse.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <list>
#include <utility>

#include "core/judge/check.hpp"
#include "core/judge/guess.hpp"
#include "core/judge/locate.hpp"
#include "core/judge/relation_check.hpp"
#include "core/measure/time.hpp"
#include "core/operations/declaration.hpp"
#include "core/operations/relation.hpp"
#include "core/problem/spec.hpp"
#include "core/run/outputs.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

// Limits of one check, unless all relations are asked for. Variants beyond them are left for a
// smaller case.
constexpr double kMostFlops = 1.6e10;                // of all goldens
constexpr int64_t kMostElements = int64_t{1} << 24;  // of all tensors
constexpr double kFreshSeconds = 1;                  // of all processes of their own
// At most so many dismissed processes end while others work; each takes a millisecond or two.
constexpr size_t kMostLeaving = 2;

}  // namespace

/// Processes with the plugin that have run nothing before. One is started ahead, while the one
/// before it runs: starting takes longer than most runs.
class PlanReuse::FreshProcesses {
 public:
  explicit FreshProcesses(Plugin& plugin) : plugin_(plugin) {}
  /// Waits for the end of all: timed runs may come next.
  ~FreshProcesses() {
    if (now_) plugin_.count_calls_of(*now_);
    for (Plugin* process : {now_.get(), ahead_.get()})
      if (process) process->dismiss();
  }
  FreshProcesses(const FreshProcesses&) = delete;

  /// The next process; the one before it ends. `another`: whether one more will be wanted.
  Plugin& next(bool another) {
    drop(std::exchange(now_, ahead_ ? std::move(ahead_) : start()));
    if (another) ahead_ = start();
    return *now_;
  }

 private:
  std::unique_ptr<Plugin> start() const {
    return std::make_unique<Plugin>(plugin_.path(), plugin_.options());
  }
  void drop(std::unique_ptr<Plugin> process) {
    if (!process) return;
    plugin_.count_calls_of(*process);
    process->dismiss();
    leaving_.push_back(std::move(process));
    if (leaving_.size() > kMostLeaving) leaving_.pop_front();
  }

  Plugin& plugin_;
  std::list<std::unique_ptr<Plugin>> leaving_;  // dismissed
  std::unique_ptr<Plugin> now_, ahead_;
};

/// The problem, or one of its variants, with inputs that all implementations share.
struct PlanReuse::Member {
  std::string name;
  Problem problem;
  std::function<void(const Tensors&)> change;
  std::unique_ptr<SharedTensors> inputs{};
  std::unique_ptr<Golden> golden{};
};

/// What one implementation makes of a member.
struct PlanReuse::Part {
  Member& member;
  Arithmetic arithmetic;
  uint64_t workspace_bytes = 0;
  std::list<SharedTensors> outputs{};
  std::unique_ptr<SharedTensors> alone{};  // of a process of its own, if one was tried
  std::optional<Outcome> alone_failure{};
};

PlanReuse::PlanReuse(const Problem& problem, uint64_t seed, bool diagnosed)
    : seed_(seed), diagnosed_(diagnosed) {
  members_.push_back(std::make_unique<Member>(Member{"the problem itself", problem, {}}));
  members_.push_back(std::make_unique<Member>(Member{"a second plan of the problem", problem, {}}));
  for (Variant& variant : problem.operation->variants(problem))
    members_.push_back(std::make_unique<Member>(
        Member{"its variant '" + variant.name + "'", variant.problem, variant.change}));
}
PlanReuse::~PlanReuse() = default;

void PlanReuse::make_inputs(Member& member) {
  if (member.inputs) return;
  const auto start = Clock::now();
  member.inputs = std::make_unique<SharedTensors>(member.problem, ATTEST_READ);
  const auto index = uint64_t(std::find_if(members_.begin(), members_.end(),
                                           [&](const auto& one) { return one.get() == &member; }) -
                              members_.begin());
  member.problem.operation->fill(member.problem, Fill{"random", seed_ + index},
                                 member.inputs->tensors(), false);
  if (member.change) member.change(member.inputs->tensors());
  member.inputs->seal();
  inputs_s_ += seconds_since(start);
}

// What the implementation takes; alone, the problem has nothing to be mixed up with.
PlanReuse::Parts PlanReuse::parts(Plugin& plugin, const Implementation& implementation,
                                  bool again) {
  Parts parts;
  double flops = 0;
  int64_t elements = 0;
  for (const std::unique_ptr<Member>& member : members_) {
    if (!refuses(implementation, member->problem).empty()) continue;
    const bool itself = member == members_.front();
    const std::string key = implementation.name + " " + member->name + " " +
                            std::string(dtype_name(members_[0]->problem.dtype));
    if (!itself && !again && plugin.has_tried(key)) continue;
    const QueryResult query = plugin.query(implementation, member->problem);
    if (query.failure || query.status != ATTEST_OK ||
        !wrong_declaration(*member->problem.operation, query.support).empty())
      continue;
    flops += member->problem.operation->flops(member->problem);
    elements += tensor_elements(member->problem);
    if (!itself && !again && (flops > kMostFlops || elements > kMostElements)) break;
    if (!itself) plugin.note_tried(key);
    const DType dtype = main_output(member->problem).dtype;
    parts.push_back(std::make_unique<Part>(
        Part{*member, declared_arithmetic(query.support, dtype), query.support.workspace_bytes}));
  }
  const bool has_itself = !parts.empty() && &parts[0]->member == members_.front().get();
  return has_itself && parts.size() > 1 ? std::move(parts) : Parts{};
}

// One process: each plan is created and run, then each runs again in the opposite order, then, plan
// by plan, one is destroyed and the next one runs. Where plans may not be alive at once, one after
// another. Not a pass: the record says so, too.
Outcome PlanReuse::play(Plugin& process, const Implementation& implementation, Parts& parts,
                        bool forward, bool alive_at_once, RelationRecord& record) {
  Script script;
  const int count = int(parts.size());
  std::vector<Part*> order;
  for (const auto& part : parts) order.insert(forward ? order.end() : order.begin(), part.get());
  std::vector<int32_t> inputs;
  for (const Part* part : order) {
    script.plans.push_back(&part->member.problem);
    inputs.push_back(script.add(*part->member.inputs));
  }
  std::vector<bool> has_run(parts.size());
  const auto run = [&](int plan) {
    Part& part = *order[size_t(plan)];
    // The workspace of a plan's first run stays in the later ones.
    SharedTensors& outputs = part.outputs.emplace_back(
        part.member.problem, ATTEST_WRITE, has_run[size_t(plan)] ? 0 : part.workspace_bytes);
    has_run[size_t(plan)] = true;
    outputs.poison();
    script.run(plan, 0, inputs[size_t(plan)], script.add(outputs));
  };
  for (int plan = 0; plan < count; ++plan) {
    script.create(plan);
    run(plan);
    if (!alive_at_once) {
      run(plan);
      script.destroy(plan);
    }
  }
  for (int plan = count; alive_at_once && plan-- > 0;) run(plan);
  for (int plan = 0; alive_at_once && plan < count; ++plan) {
    script.destroy(plan);
    if (plan + 1 < count) run(plan + 1);
  }
  const ScriptResult played = process.script(implementation, script, 0);
  for (const double ns : played.run_ns) record.run_ns += ns;
  std::vector<std::string_view> names;
  for (const Part* part : order) names.push_back(part->member.name);
  if (played.failure)
    return record.judgement.outcome = {played.failure->code,
                                       fmt::format("{} (in a run for plan-reuse, of {})",
                                                   played.failure->reason, fmt::join(names, ", "))};
  if (played.refusal)
    return record.judgement.outcome = {
               ReasonCode::kUnsupportedPlans,
               "create refuses a second plan while one is alive; tried one after another: " +
                   *played.refusal};
  return {};
}

// Runs a part in a process of its own, in which nothing came before.
void PlanReuse::run_alone(Plugin& process, const Implementation& implementation, Part& part) {
  part.alone =
      std::make_unique<SharedTensors>(part.member.problem, ATTEST_WRITE, part.workspace_bytes);
  part.alone->poison();
  part.alone_failure =
      process.run(implementation, part.member.problem, *part.member.inputs, *part.alone).failure;
}

// Outputs that are the same to the bit are judged once. Where one is wrong, the process of its own
// says whether reuse made it so.
Outcome PlanReuse::judge(FreshProcesses& fresh, const Implementation& implementation, Part& part,
                         RelationRecord& record) {
  const Problem& problem = part.member.problem;
  const Stopwatch watch(judging_s_);
  std::vector<std::string> hashes;
  std::vector<const SharedTensors*> different;
  for (const SharedTensors& outputs : part.outputs) {
    if (const std::string canary = outputs.broken_canary(); !canary.empty()) {
      return record.judgement.outcome = {ReasonCode::kCrashCanary,
                                         canary + " (in a run for plan-reuse)"};
    }
    const std::string hash = hash_outputs(problem, outputs.tensors());
    if (std::ranges::find(hashes, hash) == hashes.end()) different.push_back(&outputs);
    hashes.push_back(hash);
  }
  record.judgement.exact_elements += int64_t(hashes.size()) * element_count(main_output(problem));
  const Tensors& inputs = part.member.inputs->tensors();
  if (!part.member.golden) part.member.golden = problem.operation->golden(problem, Fill{}, inputs);
  const auto judged = [&](const SharedTensors& outputs) {
    return core::judge(problem, *part.member.golden, part.arithmetic, outputs.tensors(), &inputs);
  };
  Judgement worst;
  const SharedTensors* wrong = nullptr;
  for (const SharedTensors* outputs : different) {
    const Judgement one = judged(*outputs);
    if (is_far_off(one) && !wrong) {
      worst = one;
      wrong = outputs;
    }
    if (!is_far_off(one))
      record.judgement.max_ratio = std::max(record.judgement.max_ratio, one.max_ratio);
  }
  if (!wrong) {
    if (part.arithmetic.has(ATTEST_NONDETERMINISTIC)) return {};
    return compare(part, different, record);
  }
  if (!part.alone) run_alone(fresh.next(false), implementation, part);
  if (!part.alone_failure && !is_far_off(judged(*part.alone)))
    worst.outcome = {ReasonCode::kFailPlanReuse,
                     fmt::format("plan-reuse: {} of {}, which is right in a process of its own",
                                 worst.outcome.reason, part.member.name)};
  else
    explain(part, *wrong, worst);
  record.judgement = worst;
  return worst.outcome;
}

// The part fails by itself, so reuse is not the cause. Names its problem and, if asked, says where
// its output is wrong, and guesses the mistake.
void PlanReuse::explain(const Part& part, const SharedTensors& outputs,
                        Judgement& judgement) const {
  const Problem& problem = part.member.problem;
  judgement.outcome.reason +=
      &part.member == members_.front().get() || part.member.change
          ? fmt::format(" (of {}, in a process of its own too)", part.member.name)
          : fmt::format(" (of {}, which fails by itself: '{}')", part.member.name,
                        print_problem(problem));
  if (!diagnosed_) return;
  set_locations(judgement,
                locate_all(problem, *part.member.golden, part.arithmetic, outputs.tensors()));
  if (judgement.location)
    judgement.guess =
        guess_mistake(problem, part.arithmetic, part.member.inputs->tensors(), outputs.tensors());
}

// Outputs within their gates must agree to the bit, with those of the process of its own if there
// is one, else with each other.
Outcome PlanReuse::compare(const Part& part, const std::vector<const SharedTensors*>& different,
                           RelationRecord& record) const {
  const Problem& problem = part.member.problem;
  if (part.alone_failure) {
    return record.judgement.outcome = {part.alone_failure->code,
                                       fmt::format("{} (in a run for plan-reuse, of {} alone)",
                                                   part.alone_failure->reason, part.member.name)};
  }
  const SharedTensors& first = part.alone ? *part.alone : *different.front();
  const std::string hash = hash_outputs(problem, first.tensors());
  for (const SharedTensors* outputs : different) {
    if (outputs == &first || hash_outputs(problem, outputs->tensors()) == hash) continue;
    const Tensors& inputs = part.member.inputs->tensors();
    const RelationRun base{problem, inputs, first.tensors(), nullptr},
        again{problem, inputs, outputs->tensors(), nullptr};
    const Judgement one = judge_relation(*repetition(problem, inputs), base, {&again, 1}, true);
    if (!one.outcome.is_bad()) continue;  // they differ in the payload of a NaN
    record.judgement.worst = one.worst;
    return record.judgement.outcome = {
               ReasonCode::kFailPlanReuse,
               fmt::format("plan-reuse: {} of {} ({})", one.outcome.reason, part.member.name,
                           part.alone ? "in a process of its own, and beside other plans"
                                      : "beside the same plans, created in opposite orders")};
  }
  return {};
}

std::optional<RelationRecord> PlanReuse::run(Plugin& plugin, const Implementation& implementation,
                                             bool again) {
  Parts mine = parts(plugin, implementation, again);
  if (mine.empty()) return std::nullopt;
  RelationRecord record{.relation = std::string(kPlanReuse)};
  for (const auto& part : mine) make_inputs(part->member);
  FreshProcesses fresh(plugin);
  bool is_refused = false;  // a second plan while one is alive
  for (const bool forward : {true, false}) {
    const Outcome played = play(fresh.next(true), implementation, mine, forward, true, record);
    if (played.passes()) continue;
    if (played.verdict() != Verdict::kUnsupported) return record;
    for (const auto& part : mine) part->outputs.clear();
    is_refused = true;
    break;
  }
  if (is_refused)
    for (const bool forward : {true, false}) {
      const Outcome played = play(fresh.next(true), implementation, mine, forward, false, record);
      if (!played.passes()) return record;
    }
  int alone = 0;
  double fresh_s = 0;
  for (const auto& part : mine) {
    if (!part->arithmetic.has(ATTEST_NONDETERMINISTIC) && (again || fresh_s < kFreshSeconds)) {
      const Stopwatch watch(fresh_s);
      run_alone(fresh.next(part != mine.back()), implementation, *part);
      ++alone;
    }
    if (judge(fresh, implementation, *part, record).is_bad()) break;
  }
  record.judgement.method = fmt::format(
      "{} plans, {} of them bit for bit against a process of their own", mine.size(), alone);
  return record;
}

}  // namespace attest::core
