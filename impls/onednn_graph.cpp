// onednn_graph: attention as users of oneDNN's Graph API write it: one graph of all of it, which
// oneDNN fuses where it can (onednn/graph.hpp). What query says goes into the record: whether it is
// fused.
#include <oneapi/dnnl/dnnl_debug.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>

#include "attest.hpp"
#include "onednn/graph.hpp"
#include "onednn/library.hpp"
#include "onednn/terms.hpp"

namespace {

bool adds(const attest_problem& problem) { return (problem.features & onednn::kWithTerms) != 0; }

onednn::Graph graph_of(const attest_problem& problem) {
  const onednn::Threads threads(problem.threads);
  if (!adds(problem)) return {problem, nullptr};
  const attest_tensor terms = onednn::terms_of(problem);
  return {problem, &terms};
}

class OneDnnGraph {
 public:
  static constexpr attest::Info kInfo{
      .name = "onednn_graph",
      .version = "",  // with_version
      .summary = "oneDNN's Graph API: one graph of attention, fused where oneDNN fuses it",
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      .features = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_STRIDES |
                  ATTEST_WITH_DIAGONAL | onednn::kWithTerms};

  static const char* query(const attest_problem& problem, attest_support& support) {
    static thread_local std::string why;
    try {
      const onednn::Graph graph = graph_of(problem);
      support.workspace_bytes = graph.workspace_bytes() + terms_bytes(problem);
      support.stage[ATTEST_SOFTMAX_SCORE].dtype = graph.score_dtype();
      std::snprintf(support.reason, sizeof support.reason, "%s %s",
                    onednn::version_and_isa().c_str(), graph.partitions().c_str());
    } catch (const dnnl::error& error) {
      why = onednn::version_and_isa() + ": " + error.message + " (" +
            dnnl_status2str(error.status) + ")";
      return why.c_str();
    } catch (const std::runtime_error& error) {
      why = onednn::version_and_isa() + " " + error.what();
      return why.c_str();
    }
    for (const int stage : {ATTEST_SOFTMAX_QK, ATTEST_SOFTMAX_PV, ATTEST_SOFTMAX_PROBABILITY})
      support.stage[stage].dtype = problem.tensor[ATTEST_Q].dtype;
    support.arithmetic = ATTEST_P_NORMALISED_FIRST;
    return nullptr;
  }

  explicit OneDnnGraph(const attest_problem& given) : problem(given), graph_(graph_of(given)) {}

  const attest_problem& problem;

  template <class T>
  void run(void* const* data, void* workspace, void* /*stream*/) {
    const onednn::Threads threads(problem.threads);
    const auto memory = static_cast<char*>(workspace);
    std::optional<onednn::Terms<T>> terms;
    if (adds(problem)) terms.emplace(problem, data, memory + graph_.workspace_bytes());
    graph_.run(data, terms ? terms->added() : nullptr, memory, stream_);
    if (terms) terms->right();
  }

 private:
  static uint64_t terms_bytes(const attest_problem& problem) {
    if (!adds(problem)) return 0;
    return problem.tensor[ATTEST_Q].dtype == ATTEST_F32
               ? onednn::Terms<float>::bytes(problem)
               : onednn::Terms<attest::Half>::bytes(problem);
  }

  const onednn::Graph graph_;
  dnnl::stream stream_{onednn::cpu()};
};

}  // namespace

ATTEST_PLUGIN(onednn::with_version(*attest::table<OneDnnGraph>()))
