// The shared library behind attest_conformance.hpp: the runner of the core, one test at a time.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <variant>

#include "attest_conformance.hpp"
#include "core/device/device.hpp"
#include "core/inputs/tokens.hpp"
#include "core/isolation/installation.hpp"
#include "core/measure/affinity.hpp"
#include "core/problem/glob.hpp"
#include "core/problem/spec.hpp"
#include "core/problem/suite.hpp"
#include "core/run/registry.hpp"
#include "core/run/vectors/vector_runner.hpp"
#include "core/tensor/error.hpp"

namespace attest::conformance {
namespace {

using core::Record;

/// What every implementation is judged on: a case of a suite in one dtype, or a vector.
struct Place {
  std::string suite;
  const core::Case* wanted = nullptr;  // or a vector
  core::DType dtype = ATTEST_F32;
  core::VectorPlace vector;
};

std::string plain(const std::string& text) {
  std::string name;
  for (const char c : text)
    name += std::isalnum(static_cast<unsigned char>(c)) || c == '/' ? c : '_';
  return name;
}

/// The vectors or the case that is being judged, with what is shared by its implementations.
class Current {
 public:
  Current(const Place& place, const core::RunOptions& options, core::Rates& rates)
      : place_(place), options_(options) {
    if (place.wanted)
      make_case(rates);
    else
      read_vector(rates);
  }

  /// `entry` null: the reference.
  Record run(const core::Registry::Entry* entry) {
    if (case_) return case_->run(*entry->plugin, *entry->implementation);
    if (!entry) return reference_;
    if (vector_runner_ && vector_runner_->has_problem() && reference_.code != "error:vector")
      return vector_runner_->run(*entry->plugin, *entry->implementation);
    Record none = reference_;
    none.verdict = core::Verdict::kUnsupported, none.code = "unsupported:vector";
    if (none.reason.empty()) none.reason = "only the reference knows this operation";
    return none;
  }

 private:
  void make_case(core::Rates& rates) {
    options_.fills = place_.wanted->fills;
    core::CaseLabel label{place_.suite, place_.wanted->name, "random", place_.wanted->source};
    if (place_.wanted->inputs.from_tokens) {
      label.inputs = place_.wanted->inputs.source;
      tokens_.emplace(core::load_tokens(core::parse_token_source(label.inputs)));
    }
    problem_.emplace(place_.wanted->problem(place_.dtype, tokens_ ? tokens_->count : 0));
    case_ = std::make_unique<core::CaseRunner>(*problem_, core::print_problem(*problem_), label,
                                               tokens_ ? &*tokens_ : nullptr, options_, rates);
  }

  void read_vector(core::Rates& rates) {
    vector_ = core::vector_or_record(place_.suite, place_.vector);
    if (const auto* none = std::get_if<Record>(&vector_)) {
      reference_ = *none;
      return;
    }
    vector_runner_ = std::make_unique<core::VectorRunner>(std::get<core::VectorCase>(vector_),
                                                          place_.suite, options_, rates);
    reference_ = vector_runner_->reference();
  }

  const Place& place_;
  core::RunOptions options_;
  std::optional<core::Tokens> tokens_;
  std::optional<core::Problem> problem_;
  std::unique_ptr<core::CaseRunner> case_;
  std::variant<core::VectorCase, Record> vector_;
  std::unique_ptr<core::VectorRunner> vector_runner_;
  Record reference_;
};

Outcome outcome_of(const Record& record) {
  Outcome outcome{.kind = Outcome::Kind::kNotRun,
                  .verdict = std::string(name(record.verdict)),
                  .code = record.code,
                  .reason = record.reason,
                  .spec = record.spec,
                  .arithmetic = record.arithmetic,
                  .max_ratio = record.max_ratio,
                  .rms_ratio = record.rms_ratio};
  if (record.verdict == core::Verdict::kPass) outcome.kind = Outcome::Kind::kPass;
  if (core::is_bad(record.verdict)) outcome.kind = Outcome::Kind::kBad;
  return outcome;
}

}  // namespace

struct Conformance::State {
  Options options;
  core::RunOptions run_options;
  std::unique_ptr<core::Registry> registry;
  std::vector<core::Registry::Entry> chosen;
  std::vector<core::Suite> suites;
  std::vector<Place> places;

  struct Asked {
    size_t place;
    std::optional<core::Registry::Entry> entry;  // none: the reference
  };
  std::vector<Test> tests;
  std::vector<Asked> asked;  // of each test
  std::set<std::pair<std::string, std::string>> names;

  core::Rates rates;
  size_t current_place = 0;
  std::unique_ptr<Current> current;

  void load() {
    run_options.threads =
        options.threads > 0 ? options.threads : int32_t(core::allowed_cpus().size());
    run_options.timeout_s = options.timeout_s, run_options.timed = false,
    run_options.golden_device = core::find_golden_device();
    run_options.least = core::parse_min_arithmetic(options.min_arithmetic);
    const core::WorkerOptions workers{
        .executable = core::find_worker(),
        .cpus = core::cpu_list(core::choose_cpus(size_t(run_options.threads))),
        .threads = run_options.threads,
        .timeout_s = options.timeout_s};
    const std::vector<std::filesystem::path> named(options.plugins.begin(), options.plugins.end());
    const bool only_named = !named.empty() && options.impls.empty();
    registry = std::make_unique<core::Registry>(
        only_named ? std::vector<std::filesystem::path>{} : core::find_plugins(), named, workers);
    std::vector<std::string> known;
    for (const core::Registry::Entry& entry : registry->entries()) {
      known.push_back(entry.implementation->name);
      if (core::matches(known.back(), options.impls)) chosen.push_back(entry);
    }
    core::require_matches("impls:", options.impls, known);
    if (chosen.empty()) throw core::Error("no implementation found; name a library in `plugins`");
  }

  void find_places() {
    std::vector<std::string> known, dtypes;
    const auto wanted_name = [&](const std::string& suite, const std::string& name) {
      known.push_back(name), known.push_back(suite + "/" + name);
      return core::matches(name, options.cases) || core::matches(suite + "/" + name, options.cases);
    };
    for (const std::string& name : options.suites)
      suites.push_back(core::read_suite(core::find_suite(name)));
    for (const core::Suite& suite : suites)
      for (const core::Case& one : suite.cases) {
        if ((options.quick && !one.quick) || !wanted_name(suite.name, one.name)) continue;
        for (const core::DType dtype : one.dtypes) {
          dtypes.emplace_back(core::dtype_name(dtype));
          if (core::matches(dtypes.back(), options.dtypes))
            places.push_back({suite.name, &one, dtype, {}});
        }
      }
    for (const std::string& folder : options.vectors) {
      const std::string suite = core::suite_of_vectors(folder);
      for (core::VectorPlace& place : core::find_vectors(folder))
        if (wanted_name(suite, place.name))
          places.push_back({suite, nullptr, ATTEST_F32, std::move(place)});
    }
    core::require_matches("cases:", options.cases, known);
    if (!suites.empty()) core::require_matches("dtypes:", options.dtypes, dtypes);
    if (places.empty()) throw core::Error("no case is left to judge: name suites or vectors");
  }

  void add_test(size_t place, const std::string& group, const std::string& name,
                std::optional<core::Registry::Entry> entry) {
    std::string unique = name;
    for (int n = 2; !names.emplace(group, unique).second; ++n)
      unique = fmt::format("{}_{}", name, n);
    tests.push_back({group, unique}), asked.push_back({place, entry});
  }

  void name_tests() {
    for (size_t i = 0; i < places.size(); ++i) {
      const Place& place = places[i];
      const std::string group =
          plain(place.wanted ? fmt::format("{}/{}/{}", place.suite, place.wanted->name,
                                           core::dtype_name(place.dtype))
                             : fmt::format("{}/{}", place.suite, place.vector.name));
      if (!place.wanted) add_test(i, group, std::string(core::kReference), {});
      for (const core::Registry::Entry& entry : chosen)
        if (!place.wanted || core::matches(entry.implementation->name, place.wanted->only_impls))
          add_test(i, group, plain(entry.implementation->name), entry);
    }
  }
};

Conformance::Conformance(Options options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->find_places();
  state_->load();
  state_->name_tests();
}

Conformance::~Conformance() = default;

const std::vector<Test>& Conformance::tests() const { return state_->tests; }

Outcome Conformance::run(size_t test) {
  const State::Asked& asked = state_->asked.at(test);
  try {
    if (!state_->current || state_->current_place != asked.place) {
      state_->current.reset();
      state_->current = std::make_unique<Current>(state_->places[asked.place], state_->run_options,
                                                  state_->rates);
      state_->current_place = asked.place;
    }
    return outcome_of(state_->current->run(asked.entry ? &*asked.entry : nullptr));
  } catch (const core::Error& error) {  // inputs that cannot be made, no memory for them
    return {.verdict = "error",
            .code = "error:inputs",
            .reason = error.what(),
            .spec = "",
            .arithmetic = ""};
  }
}

}  // namespace attest::conformance
