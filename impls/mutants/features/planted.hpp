// planted.hpp: the frame of a plugin whose implementations are right but for one planted bug each.
//
//   enum class Bug { kNone, kLastKey };
//   constexpr mutants::PlantedBug kBugs[] = {{"mine_none", "plain attention, healthy"},
//                                            {"mine_last_key", "the last key is lost"}};
//   // Returns whether the bug can change an output of the problem. If it cannot, the
//   // implementation refuses the problem.
//   bool does_something(Bug bug, const attest_problem& problem);
//
//   template <size_t kIndex>
//   struct Mine : mutants::Planted<Bug{kIndex}, kBugs, does_something, ATTEST_WITH_MASK> {
//     template <class T>
//     void run(void* const* data, void* workspace, void* stream) const;  // with this->kBug
//   };
//
//   extern "C" const attest_impl* attest_plugin_v1(size_t index) {
//     return mutants::table_at<Mine, std::size(kBugs)>(index);
//   }
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "attest.hpp"
#include "mutants/all_of_softmax.hpp"
#include "mutants/table_at.hpp"

namespace mutants {

struct PlantedBug {
  const char *name, *summary;
};

/// The base of an implementation of softmax that has one planted bug. A derived class adds run().
/// kBugs has the name and the summary of each bug, in the order of its enumerators.
template <auto kPlanted, const auto& kBugs, auto& kDoesSomething, uint64_t kFeatures,
          uint64_t kDtypes = kFloats>
struct Planted {
  static constexpr auto kBug = kPlanted;
  static constexpr attest::Info kInfo{.name = kBugs[size_t(kBug)].name,
                                      .version = "1",
                                      .summary = kBugs[size_t(kBug)].summary,
                                      .dtypes = kDtypes,
                                      .features = kFeatures};
  const attest_problem& problem;

  static const char* query(const attest_problem& asked, attest_support&) {
    return kDoesSomething(kBug, asked) ? nullptr : "the bug does nothing here";
  }
};

}  // namespace mutants
