#include "core/session/session.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/device/device_kinds.hpp"
#include "core/isolation/installation.hpp"
#include "core/isolation/memory/shared_memory.hpp"
#include "core/measure/machine/board/board.hpp"
#include "core/measure/machine/environment.hpp"
#include "core/measure/machine/memory.hpp"
#include "core/problem/glob.hpp"
#include "core/problem/hint.hpp"
#include "core/run/vectors/vector_runner.hpp"
#include "core/session/draw_tokens.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

// The inputs, outputs and relations of one case may take a GiB. For memory that is not kept, the
// next case gets new pages.
constexpr int64_t kMostKept_bytes = int64_t{2} << 30;

double timed_seconds(const TimeRecord& time) {
  double ns = time.warmup_ns + time.audits_ns.value_or(0);
  for (const double sample : time.samples_ns) ns += sample * double(time.iterations_per_sample);
  for (const double sample : time.cold_samples_ns) ns += sample;
  return ns * 1e-9;
}

// What a record that was kept says of speed, as if it had been made now.
void note_speed(const Record& record, Rates& rates) {
  for (const FillRecord& fill : record.fills)
    if (fill.judgement.outcome.passes())
      rates.note(record.impl, Rates::kind_of(record), record.flops, fill.run_ns);
}

// "flash" is near flash_cpu, though no slip of the pen makes the one of the other. Of several names
// that begin so, the shortest is meant.
std::string near_name(const std::string& word, const std::vector<std::string>& names) {
  const std::string* shortest = nullptr;
  for (const std::string& name : names)
    if (name.starts_with(word) && (!shortest || name.size() < shortest->size())) shortest = &name;
  return shortest ? fmt::format(", did you mean '{}'?", *shortest) : did_you_mean(word, names);
}

std::string describe(const Job& job, const std::string& dtype, const std::string& impl) {
  return fmt::format("{}{}{}{}{} {}", job.suite, job.suite.empty() ? "" : "/", job.case_name,
                     dtype.empty() ? "" : " ", dtype, impl);
}

// The record of a job that cannot be opened: tokens that cannot be read or do not fit the problem.
Record without_inputs(const Job& job, const Registry::Entry* entry, int32_t threads,
                      const std::string& why) {
  Record record;
  if (entry)
    describe_implementation(record, *entry->implementation);
  else
    record.impl = std::string(kReference);
  record.suite = job.suite;
  record.case_name = job.case_name;
  record.dtype = job.dtype;
  const auto* spec = std::get_if<SpecJob>(&job.source);
  record.spec = spec ? spec->spec : "none";
  const std::string line = job.token_line();
  record.inputs = line.empty() ? "random" : line;
  record.threads = threads;
  record.outcome = {ReasonCode::kErrorInputs, why};
  return record;
}

}  // namespace

void Shares::add(const Shares& other) {
  total_s += other.total_s;
  implementations_s += other.implementations_s;
  judging_s += other.judging_s;
  inputs_s += other.inputs_s;
  pacing_s += other.pacing_s;
}

double Shares::harness_s() const {
  return std::max(0.0, total_s - implementations_s - judging_s - inputs_s - pacing_s);
}

Session::Session(Plan plan, const Implementations& implementations, const RunOptions& options,
                 const std::vector<std::string>& token_files, bool (*cancelled)())
    : plan_(std::move(plan)),
      implementations_(implementations),
      options_(options),
      tokens_(token_files),
      cancelled_(cancelled ? cancelled : [] { return false; }) {
  SharedMemory::keep_at_most(std::min(kMostKept_bytes, int64_t(read_memory().total_bytes / 16)));
  check_impls();
}

// A case that is for implementations which are not loaded would drop out of the run unseen.
void Session::check_impls() {
  const std::vector<Registry::Entry>& entries = implementations_.registry().entries();
  std::vector<std::string> names;
  for (const Registry::Entry& entry : entries) names.push_back(entry.implementation->name);
  for (const Job& job : plan_.jobs) {
    const std::vector<std::string> wanted = job.only_impls();
    const auto* source = std::get_if<SuiteJob>(&job.source);
    const std::string where =
        fmt::format("{}: case '{}': impls:", source ? source->file : job.suite, job.case_name);
    if (std::ranges::any_of(entries, [&](const auto& entry) { return entry.called(wanted); })) {
      for (const std::string& glob : wanted)
        if (std::ranges::none_of(entries, [&](const auto& entry) { return entry.called({glob}); }))
          note_warning(fmt::format("{} '{}' is not loaded{}", where, glob, near_name(glob, names)));
      continue;
    }
    require_matches(where, wanted, names);
  }
}

// A case with several dtypes is several jobs.
void Session::note_warning(std::string text) {
  if (std::ranges::find(warnings_, text) == warnings_.end()) warnings_.push_back(std::move(text));
}

size_t Session::most_records() const {
  const size_t chosen = implementations_.chosen().size();
  size_t count = 0;
  for (const Job& job : plan_.jobs) count += chosen + job.is_vector();
  return count;
}

Identity Session::identity() const {
  const Limits& limits = options_.limits;
  Identity identity = plan_.identity;
  identity["options"] =
      fmt::format("threads {} timeout {:g} memory {} budget {:g} case-limit {:g} relations {}{}{}",
                  limits.threads, limits.timeout_s, limits.memory_bytes, limits.budget_s,
                  limits.case_limit_s, int(options_.relations), options_.timed ? "" : " judge-only",
                  options_.golden_device ? "" : " host-golden");
  identity["attest"] = hash_files({"/proc/self/exe"}) + " " + hash_files({find_worker().string()});
  std::string& all = identity["implementations"];
  for (const Registry::Entry& entry : implementations_.chosen())
    all += fmt::format("{}{}:{}", all.empty() ? "" : " ", entry.implementation->name,
                       hex(entry.implementation->binary_hash));
  Environment environment = read_environment();
  const Facts& cpu = environment["cpu"];
  const auto model = cpu.find("model");
  identity["cpu"] = model == cpu.end() ? "unknown" : model->second;
  for (const DeviceKind& kind : device_kinds())
    if (kind.own_memory)
      identity[kind.name] =
          environment.contains(kind.name) ? environment[kind.name]["name"] : "none";
  if (const std::optional<BoardState> board = read_board())
    identity["power mode"] = power_mode(*board).value.value_or("unknown");
  return identity;
}

// Asked where there is work left.
bool Session::stops(const Sink& sink) {
  const bool stop = cancelled_() || !sink.wants_more();
  if (stop) completed_ = false;
  return stop;
}

bool Session::add_earlier(const CaseKey& key, Sink& sink) {
  const Record* record = sink.earlier(key);
  if (!record) return false;
  note_speed(*record, rates_);
  races_.note(*record);
  records_.push_back(*record);
  return true;
}

void Session::add(const Job& job, const Registry::Entry* entry, Record record, Sink& sink) {
  if (stops(sink)) return;  // the record at hand was cut short
  record.sweep = job.point;
  record = without_luck(std::move(record));
  sink.finished(job, entry, record);
  if (entry) shares_.implementations_s += entry->plugin->take_calls_s();
  if (record.time) shares_.implementations_s += timed_seconds(*record.time);
  records_.push_back(std::move(record));
}

// Those that have no record yet; records that there are count as if they had been made now.
std::vector<Registry::Entry> Session::left_to_do(const Job& job, const std::string& dtype,
                                                 Sink& sink) {
  const std::vector<std::string> wanted = job.only_impls();
  std::vector<Registry::Entry> left;
  for (const Registry::Entry& entry : implementations_.chosen()) {
    const Implementation& i = *entry.implementation;
    if (!entry.called(wanted)) continue;
    if (!add_earlier({.suite = job.suite,
                      .case_name = job.case_name,
                      .dtype = dtype,
                      .impl = i.name,
                      .plugin_hash = hex(i.binary_hash),
                      .threads = options_.limits.threads},
                     sink))
      left.push_back(entry);
  }
  return left;
}

void Session::run_entries(const Job& job, const std::string& dtype,
                          const std::vector<Registry::Entry>& entries, OpenJob& open, Sink& sink) {
  for (const Registry::Entry& entry : entries) {
    if (stops(sink)) return;
    sink.starting(describe(job, dtype, entry.implementation->name));
    add(job, &entry, open.run(entry), sink);
  }
}

void Session::run_case(const Job& job, Sink& sink) {
  const std::vector<Registry::Entry> entries = left_to_do(job, job.dtype, sink);
  if (entries.empty() || stops(sink)) return;
  if (const std::string line = job.token_line(); !line.empty()) sink.starting(line);
  std::unique_ptr<OpenJob> open;
  try {
    open = open_job(job, tokens_, options_, rates_);
  } catch (const Error& error) {  // the run goes on: later cases may have other inputs
    for (const Registry::Entry& entry : entries)
      add(job, &entry, without_inputs(job, &entry, options_.limits.threads, error.what()), sink);
    return;
  }
  if (const std::string line = job.token_line(); !line.empty()) show_tokens(line, sink);
  run_entries(job, job.dtype, entries, *open, sink);
  note_shares(*open);
}

void Session::show_tokens(const std::string& line, Sink& sink) {
  const std::string inputs = print(tokens_.source(line));
  if (!shown_tokens_.insert(inputs).second) return;
  if (const std::optional<TokenPicture> picture = draw_tokens(inputs, tokens_.take(line)))
    sink.tokens(*picture);
}

void Session::run_vector(const Job& job, Sink& sink) {
  const std::unique_ptr<OpenJob> open = open_job(job, tokens_, options_, rates_);
  const CaseKey key = open->reference_key().value();
  if (!add_earlier(key, sink)) {
    sink.starting(describe(job, "", key.impl));
    add(job, nullptr, open->reference(), sink);
  }
  // An implementation cannot be judged by inputs that make no sense.
  if (open->has_problem() && !stops(sink) &&
      records_.back().outcome.code != ReasonCode::kErrorVector)
    run_entries(job, key.dtype, left_to_do(job, key.dtype, sink), *open, sink);
  note_shares(*open);
}

void Session::note_shares(const OpenJob& open) {
  shares_.inputs_s += open.inputs_s();
  shares_.judging_s += open.judging_s();
  shares_.pacing_s += open.pacing_s();
}

void Session::read_users_files() {
  for (const Job& job : plan_.jobs)
    if (const std::string line = job.token_line(); !line.empty() && tokens_.takes_users_file(line))
      tokens_.take(line);
}

void Session::extend(Plan&& more) {
  plan_.append(std::move(more));
  check_impls();
}

void Session::run(Sink& sink) {
  const auto start = Clock::now();
  const double loaded_s = tokens_.seconds();
  completed_ = true;
  read_users_files();
  for (; next_job_ < plan_.jobs.size(); ++next_job_) {
    if (stops(sink)) break;
    const Job& job = plan_.jobs[next_job_];
    if (job.is_vector())
      run_vector(job, sink);
    else
      run_case(job, sink);
  }
  shares_.inputs_s += tokens_.seconds() - loaded_s;
  shares_.total_s += seconds_since(start);
}

NeverJudged Session::never_judged() const {
  return core::never_judged(implementations_.chosen(), records_);
}

Record Session::without_luck(Record record) {
  races_.note(record);
  races_.overrule(record);
  return record;
}

Record Session::run_one(size_t index, const Registry::Entry* entry) {
  const Job& job = plan_.jobs.at(index);
  try {
    if (!open_ || open_index_ != index) {
      open_.reset();
      open_reference_.reset();
      open_ = open_job(job, tokens_, options_, rates_);
      open_index_ = index;
    }
    if (job.is_vector() && !open_reference_) open_reference_ = open_->reference();
    if (!entry) return open_reference_.value();
    if (open_->has_problem() &&
        !(open_reference_ && open_reference_->outcome.code == ReasonCode::kErrorVector))
      return without_luck(open_->run(*entry));
    Record none = open_reference_.value();
    none.impl = entry->implementation->name;
    none.outcome.code = ReasonCode::kUnsupportedVector;
    if (none.outcome.reason.empty())
      none.outcome.reason = "only the reference knows this operation";
    return none;
  } catch (const Error& error) {
    return without_inputs(job, entry, options_.limits.threads, error.what());
  }
}

}  // namespace attest::core
