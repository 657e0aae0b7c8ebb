// A golden that keeps the expectations that it has computed. Several implementations may declare
// the same arithmetic, and each of them is judged by the same expectations. Goldens gain that
// compute expectations anew each time: those of gradients, of linear and deformable attention, and
// closed forms. The other goldens of softmax keep sigmas themselves.
//
//   const RememberingGolden golden(problem.operation->golden(problem, fill, inputs));
//   golden.expect(arithmetic, sink);        // computes
//   golden.expect(arithmetic, other_sink);  // passes the same chunks, in one thread
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/operations/golden.hpp"

namespace attest::core {

class RememberingGolden final : public Golden {
 public:
  /// How many numbers of 8 bytes it keeps, of all arithmetics together: 4 MiB.
  static constexpr size_t kMostNumbers = size_t(1) << 19;

  explicit RememberingGolden(std::unique_ptr<const Golden> golden) : golden_(std::move(golden)) {}

  void expect(const Arithmetic& arithmetic, const Sink& sink) const override;
  std::vector<int64_t> exact_rows(const Arithmetic& arithmetic, int32_t role) const override {
    return golden_->exact_rows(arithmetic, role);
  }
  int64_t distinct_rows() const override { return golden_->distinct_rows(); }
  int64_t independent_rows(const Arithmetic& arithmetic, int32_t role) const override {
    return golden_->independent_rows(arithmetic, role);
  }
  std::string method() const override { return golden_->method(); }
  void confirm(const Arithmetic& arithmetic, int64_t row) const override {
    golden_->confirm(arithmetic, row);
  }
  std::string device() const override { return golden_->device(); }

 private:
  /// A copy of a chunk.
  struct Chunk {
    Expected layout;  // its arrays are empty
    std::vector<int64_t> rows;
    std::vector<double> value_or_low, sigma_or_high;
    bool is_exact;  // it has value and sigma
  };
  // What a chunk takes beside its arrays, as numbers: itself, and what the allocator adds to its
  // three arrays.
  static constexpr size_t kNumbersOfChunk = sizeof(Chunk) / sizeof(double) + 12;
  struct Expectations {
    Arithmetic arithmetic;
    size_t numbers = 0;  // what `chunks` takes, as numbers of 8 bytes
    std::vector<Chunk> chunks;
  };

  static Chunk copy_of(const Expected& chunk);
  static Expected view_of(const Chunk& chunk);
  std::shared_ptr<const Expectations> known(const Arithmetic& arithmetic) const;
  void keep(std::shared_ptr<const Expectations> computed) const;

  const std::unique_ptr<const Golden> golden_;
  mutable std::mutex lock_;
  mutable std::deque<std::shared_ptr<const Expectations>> kept_;  // the oldest first
  mutable size_t numbers_ = 0;                                    // of all in kept_
};

}  // namespace attest::core
