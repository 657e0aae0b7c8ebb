#include "core/session/open_job.hpp"

#include "core/problem/spec.hpp"
#include "core/run/vectors/vector_runner.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

RunOptions options_of(const Job& job, RunOptions options) {
  options.fills = job.fills;
  if (job.budget_s > 0) options.limits.budget_s = job.budget_s;
  return options;
}

class OpenCase : public OpenJob {
 public:
  OpenCase(const Job& job, const SuiteJob& source, TokenStore& store, const RunOptions& options,
           Rates& rates)
      : OpenCase(job, options) {
    const Case& wanted = *source.wanted;
    if (wanted.inputs.from_tokens) load(wanted.inputs.source, store);
    problem_ = wanted.problem(source.dtype, tokens_ ? tokens_->count : 0);
    start(job, wanted.source, rates);
  }
  OpenCase(const Job& job, const SpecJob& source, TokenStore& store, const RunOptions& options,
           Rates& rates)
      : OpenCase(job, options) {
    if (source.inputs != "random") load(source.inputs, store);
    problem_ = parse_problem(source.spec);
    start(job, "", rates);
  }

  Record run(const Registry::Entry& entry) override {
    Record record = run_or_explain(entry);
    if (tokens_) record.notes.push_back(tokens_->source);
    return record;
  }
  double inputs_s() const override { return runner_->inputs_s(); }
  double judging_s() const override { return runner_->judging_s(); }
  double pacing_s() const override { return runner_->pacing_s(); }

 private:
  OpenCase(const Job& job, const RunOptions& options) : options_(options_of(job, options)) {}

  Record run_or_explain(const Registry::Entry& entry) {
    try {
      return runner_->run(*entry.plugin, *entry.implementation);
    } catch (const Error& error) {  // the inputs cannot be made: no memory for them
      Record record = runner_->blank_record(*entry.implementation);
      record.outcome = {ReasonCode::kErrorInputs, error.what()};
      return record;
    }
  }
  void load(const std::string& line, TokenStore& store) {
    tokens_ = &store.take(line);
    inputs_ = print(store.source(line));
  }
  void start(const Job& job, const std::string& source, Rates& rates) {
    runner_ = std::make_unique<CaseRunner>(problem_, print_problem(problem_),
                                           CaseLabel{job.suite, job.case_name, inputs_, source},
                                           tokens_, options_, rates);
  }

  RunOptions options_;
  std::string inputs_ = "random";
  const Tokens* tokens_ = nullptr;
  Problem problem_;
  std::unique_ptr<CaseRunner> runner_;
};

class OpenVector : public OpenJob {
 public:
  OpenVector(const Job& job, const VectorJob& source, const RunOptions& options, Rates& rates)
      : options_(options_of(job, options)),
        place_(source.place),
        read_(vector_or_record(job.suite, source.place)) {
    vector_ = std::get_if<TestVector>(&read_);
    if (vector_) runner_ = std::make_unique<VectorRunner>(*vector_, job.suite, options_, rates);
    key_ = {.suite = job.suite,
            .case_name = job.case_name,
            .dtype = vector_ ? vector_->dtype : "",
            .impl = std::string(vector_ && vector_->arithmetic ? kGiven : kReference),
            .plugin_hash = "",
            .threads = vector_ ? options.limits.threads : 1};
  }

  std::optional<CaseKey> reference_key() const override { return key_; }
  Record reference() override {
    Record record = runner_ ? runner_->reference() : std::get<Record>(read_);
    if (record.outcome.is_bad()) explain(record);
    return record;
  }
  bool has_problem() const override { return runner_ && runner_->has_problem(); }
  Record run(const Registry::Entry& entry) override {
    return runner_->run(*entry.plugin, *entry.implementation);
  }
  double inputs_s() const override { return runner_ ? runner_->inputs_s() : 0; }
  double judging_s() const override { return runner_ ? runner_->judging_s() : 0; }
  double pacing_s() const override { return runner_ ? runner_->pacing_s() : 0; }

 private:
  // A vector that its description fits badly is more frequent than one that is wrong.
  void explain(Record& record) const {
    const std::optional<std::string> words = words_to_pass(place_, options_);
    if (!words && runner_) return runner_->explain(record);
    if (!words) return;
    const std::string sentence = "it would pass with " + *words;
    if (FillRecord* const bad = first_bad_fill(record))
      bad->judgement.guess = sentence;
    else
      record.outcome.reason += "; " + sentence;
  }

  RunOptions options_;
  const VectorPlace& place_;
  std::variant<TestVector, Record> read_;
  const TestVector* vector_ = nullptr;  // in read_
  CaseKey key_;
  std::unique_ptr<VectorRunner> runner_;
};

}  // namespace

std::unique_ptr<OpenJob> open_job(const Job& job, TokenStore& tokens, const RunOptions& options,
                                  Rates& rates) {
  if (const auto* wanted = std::get_if<SuiteJob>(&job.source))
    return std::make_unique<OpenCase>(job, *wanted, tokens, options, rates);
  if (const auto* spec = std::get_if<SpecJob>(&job.source))
    return std::make_unique<OpenCase>(job, *spec, tokens, options, rates);
  return std::make_unique<OpenVector>(job, std::get<VectorJob>(job.source), options, rates);
}

}  // namespace attest::core
