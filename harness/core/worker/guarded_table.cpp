#include "core/worker/guarded_table.hpp"

#include <cxxabi.h>

#include <exception>

#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

// C functions carry no state of their own, and a worker does one thing at a time.
struct Guarded {
  attest_impl table;
  StatusPage* page = nullptr;
  Watch* watch = nullptr;
  std::string exception;
} guarded_now;

// One beat when a call begins and one when it ends, by an exception too.
class Beat {
 public:
  Beat() { beat(); }
  Beat(const Beat&) = delete;
  ~Beat() { beat(); }

 private:
  static void beat() {
    std::atomic<uint64_t>& pulse = guarded_now.page->pulse;
    pulse.store(pulse.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

// Adds the time of its life to the page. Not for run, which is timed by its caller.
class PlanTime {
 public:
  PlanTime() = default;
  PlanTime(const PlanTime&) = delete;
  ~PlanTime() {
    std::atomic<uint64_t>& ns = guarded_now.page->plan_ns;
    ns.store(ns.load(std::memory_order_relaxed) + uint64_t(nanoseconds_since(start_)),
             std::memory_order_relaxed);
  }

 private:
  Clock::time_point start_ = Clock::now();
};

template <class Body>
attest_status stop_exceptions(const char* name, const Body& body) {
  const Beat beat;
  try {
    return body();
#ifdef __GLIBCXX__
  } catch (abi::__forced_unwind&) {  // a thread that is cancelled or exits has to go
    throw;
#endif
  } catch (const std::exception& error) {
    guarded_now.exception = std::string(name) + " threw: " + error.what();
  } catch (...) {
    guarded_now.exception = std::string(name) + " threw something that is no std::exception";
  }
  return ATTEST_RUNTIME_ERROR;
}

attest_status query(const attest_problem* problem, attest_support* support) {
  const PlanTime time;
  return stop_exceptions("query", [&] { return guarded_now.table.query(problem, support); });
}
attest_status create(const attest_problem* problem, void** plan) {
  const attest_status status = stop_exceptions("create", [&] {
    const PlanTime time;
    return guarded_now.table.create(problem, plan);
  });
  guarded_now.watch->before_runs();
  return status;
}
attest_status run(void* plan, void* const* data, void* workspace, void* stream) {
  std::atomic<uint32_t>& runs = guarded_now.page->runs;
  runs.store(runs.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return stop_exceptions("run",
                         [&] { return guarded_now.table.run(plan, data, workspace, stream); });
}
void destroy(void* plan) {
  guarded_now.watch->after_runs(guarded_now.page->runs);
  const PlanTime time;
  stop_exceptions("destroy", [&] {
    guarded_now.table.destroy(plan);
    return ATTEST_OK;
  });
}
const char* last_error() {
  const char* text = nullptr;
  stop_exceptions("last_error", [&] {
    text = guarded_now.table.last_error();
    return ATTEST_OK;
  });
  return text;
}

}  // namespace

attest_impl guarded(const attest_impl& table, StatusPage& page, Watch& watch) {
  guarded_now = {table, &page, &watch, {}};
  page.runs = 0;
  attest_impl outside = table;
  outside.query = query;
  outside.create = create;
  outside.run = run;
  outside.destroy = destroy;
  outside.last_error = last_error;
  return outside;
}

const std::string& escaped_exception() { return guarded_now.exception; }

}  // namespace attest::core
