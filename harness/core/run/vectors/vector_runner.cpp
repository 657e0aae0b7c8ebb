#include "core/run/vectors/vector_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/inputs/golden_store.hpp"
#include "core/judge/guess.hpp"
#include "core/judge/locate.hpp"
#include "core/judge/reference.hpp"
#include "core/problem/spec.hpp"
#include "core/run/outputs.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/stopwatch.hpp"
#include "core/vectors/onnx/scores.hpp"
#include "core/vectors/other_readings.hpp"

namespace attest::core {
namespace {

// `prepared` may be null where the output is of no role.
Judgement judge_output(const VectorOutput& output, const PreparedInputs* prepared,
                       GoldenStore& goldens, double tolerance) {
  switch (output.kind) {
    case VectorOutput::Kind::kRole:
      return goldens.of(*prepared).use([&](const Golden& golden) {
        return compare_golden(prepared->problem(), golden, output.role, output.expected, tolerance,
                              output.partial);
      });
    case VectorOutput::Kind::kScores:
      return compare_values(
          softmax_scores(prepared->problem(), prepared->shared().tensors(), output.score_mode),
          output.expected, output.name, tolerance);
    case VectorOutput::Kind::kValues: break;
  }
  return compare_values(output.values, output.expected, output.name, tolerance);
}

/// The problem and the inputs that the reference gets: nothing is rounded that was given in f64.
struct Unrounded {
  std::optional<Problem> problem;
  Tensors given{};
  std::unique_ptr<PreparedInputs> inputs;

  explicit Unrounded(const TestVector& vector) : problem(vector.problem), given(vector.given) {
    if (!problem) return;
    for (size_t role = 0; role < given.size(); ++role) {
      if (!vector.exact[role]) continue;
      given[role] = vector.exact[role];
      problem->tensor[role] =
          dense_tensor(given[role].spec.dtype, ATTEST_READ, dims(given[role].spec));
    }
    finish_problem(*problem);
    inputs = std::make_unique<PreparedInputs>(*problem, given);
  }
};

Record reference_record(const std::string& suite, const std::string& name) {
  Record record;
  record.suite = suite;
  record.case_name = name;
  record.inputs = kGivenFill;
  record.impl = kReference;
  record.spec = "none";
  record.device = "cpu";
  record.outcome = {};
  return record;
}

}  // namespace

std::variant<TestVector, Record> vector_or_record(const std::string& suite,
                                                  const VectorPlace& place) {
  Record none = reference_record(suite, place.name);
  try {
    TestVector vector = read_vector(place);
    if (vector.unsupported.empty()) return vector;
    none.source = vector.source;
    none.outcome = {ReasonCode::kUnsupportedVector, vector.unsupported};
  } catch (const Error& error) {
    none.outcome = {ReasonCode::kErrorVector, error.what()};
  }
  return none;
}

VectorRunner::VectorRunner(const TestVector& vector, std::string suite, const RunOptions& options,
                           Rates& rates)
    : vector_(vector), suite_(std::move(suite)), spec_(vector.operation), options_(options) {
  if (!vector.problem) return;
  spec_ = print_problem(*vector.problem);
  const CaseLabel label{suite_, vector.name, std::string(kGivenFill), vector.source};
  runner_ = std::make_unique<CaseRunner>(*vector.problem, spec_, label, nullptr, options, rates,
                                         &vector.given);
}

// All outputs together, as those of an implementation.
void VectorRunner::judge_given(Record& record) const {
  const Problem& problem = *vector_.problem;
  PreparedInputs prepared(problem, vector_.given);
  Tensors outputs{};
  Arithmetic arithmetic = *vector_.arithmetic;
  for (const VectorOutput& output : vector_.outputs) outputs[size_t(output.role)] = output.expected;
  arithmetic.output = outputs[ATTEST_O].spec.dtype;
  FillRecord fill{.fill = std::string(kGivenFill),
                  .seed = "",
                  .inputs_hash = prepared.hash(),
                  .outputs_hash = "",
                  .judgement = {}};
  GoldenStore goldens(options_.golden_device);
  fill.judgement = goldens.of(prepared).use([&](const Golden& golden) {
    return judge(problem, golden, arithmetic, outputs, &prepared.shared().tensors());
  });
  record.arithmetic = print(*problem.operation, arithmetic);
  record.max_ratio = fill.judgement.max_ratio;
  record.rms_ratio = fill.judgement.rms_ratio;
  record.outcome = fill.judgement.outcome;
  record.fills.push_back(std::move(fill));
}

void VectorRunner::judge_outputs(Record& record) const {
  const Unrounded unrounded(vector_);
  const PreparedInputs* prepared = unrounded.inputs.get();
  GoldenStore goldens(nullptr);
  Outcome first_wrong;
  for (const VectorOutput& output : vector_.outputs) {
    const double tolerance =
        vector_.tolerance.value_or(reference_tolerance(output.expected.spec.dtype));
    FillRecord fill{.fill = output.name,
                    .seed = "",
                    .inputs_hash = prepared ? prepared->hash() : "",
                    .outputs_hash = "",
                    .judgement = {}};
    const auto start = Clock::now();
    fill.judgement = judge_output(output, prepared, goldens, tolerance);
    fill.golden_ns = nanoseconds_since(start);
    record.max_ratio = std::max(record.max_ratio, fill.judgement.max_ratio);
    record.rms_ratio = std::max(record.rms_ratio, fill.judgement.rms_ratio);
    if (first_wrong.passes()) first_wrong = fill.judgement.outcome;
    record.fills.push_back(std::move(fill));
  }
  record.outcome = std::move(first_wrong);
  // Without a role among its outputs the golden is made all the same: what it refuses must not
  // reach an implementation.
  if (prepared) goldens.of(*prepared).use([](const Golden&) {});
}

Record VectorRunner::reference() const {
  Record record = reference_record(suite_, vector_.name);
  if (vector_.arithmetic) record.impl = kGiven;
  record.source = vector_.source;
  record.spec = spec_;
  record.operation = vector_.operation;
  record.dtype = vector_.dtype;
  record.notes = vector_.notes;
  record.threads = options_.limits.threads;
  if (vector_.problem) {
    record.features = print_features(vector_.problem->features);
    record.flops = vector_.problem->operation->flops(*vector_.problem);
    record.min_bytes = min_bytes(*vector_.problem);
  }
  if (options_.dry_run) return record;
  try {
    if (vector_.arithmetic)
      judge_given(record);
    else
      judge_outputs(record);
  } catch (const Error& error) {
    record.outcome = {ReasonCode::kErrorVector, error.what()};
  }
  return record;
}

void VectorRunner::explain(Record& record) const {
  FillRecord* const bad = first_bad_fill(record);
  if (!vector_.problem || !bad) return;
  const Problem& problem = *vector_.problem;
  Tensors outputs{};
  for (const VectorOutput& output : vector_.outputs)
    if (output.kind == VectorOutput::Kind::kRole && !output.partial &&
        output.expected.spec.dtype == problem.tensor[size_t(output.role)].dtype)
      outputs[size_t(output.role)] = output.expected;
  for (const Role& role : problem.operation->roles())
    if (is_output(role) && role.required && !outputs[size_t(role.index)]) return;
  Arithmetic arithmetic = vector_.arithmetic.value_or(Arithmetic{});
  arithmetic.output = main_output(problem).dtype;
  const PreparedInputs prepared(problem, vector_.given);
  const Tensors& inputs = prepared.shared().tensors();
  if (vector_.arithmetic)
    set_locations(bad->judgement, GoldenStore(nullptr).of(prepared).use([&](const Golden& golden) {
      return locate_all(problem, golden, arithmetic, outputs);
    }));
  bad->judgement.guess = guess_mistake(problem, arithmetic, inputs, outputs);
}

std::optional<std::string> words_to_pass(const VectorPlace& place, const RunOptions& options) {
  constexpr double kMostOfGolden = 1e9;  // of one golden; there are five
  try {
    for (const OtherReading& reading : other_readings(place)) {
      try {
        const TestVector vector = read_vector(place, reading.keys);
        if (!vector.problem || vector.outputs.empty()) continue;
        if (vector.problem->operation->flops(*vector.problem) > kMostOfGolden) return std::nullopt;
        Rates rates;
        if (VectorRunner(vector, "", options, rates).reference().outcome.passes())
          return reading.words;
      } catch (const Error&) {  // the tensors do not fit each other so
      }
    }
  } catch (const Error&) {  // its files are damaged
  }
  return std::nullopt;
}

Record VectorRunner::run(Plugin& plugin, const Implementation& implementation) {
  try {
    return runner_->run(plugin, implementation);
  } catch (const Error& error) {  // the inputs as an implementation gets them cannot be made: no
                                  // memory for them
    Record none = runner_->blank_record(implementation);
    none.outcome = {ReasonCode::kErrorVector, error.what()};
    return none;
  }
}

}  // namespace attest::core
