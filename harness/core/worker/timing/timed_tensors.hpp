// The tensors of timed runs, in memory of the worker alone: what the audit changes in them, and how
// it finds out what became of it.
#pragma once
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "core/worker/device_tensors.hpp"
#include "core/worker/mapped.hpp"
#include "core/worker/private_memory.hpp"

namespace attest::core {

using Dice = std::mt19937_64;
/// A random number below `end`, which is at least 1.
inline size_t below(Dice& dice, size_t end) { return size_t(dice() % end); }

/// Ordinary pages, huge where the system has them. The inputs are one of two sets, at the same
/// addresses.
class TimedTensors {
 public:
  /// `second` may be null: there is one set alone. `tensor`: by role. All must outlive this. Notes
  /// the addresses on the page.
  TimedTensors(const attest_tensor* tensor, const MappedTensors& first, const MappedTensors* second,
               const MappedTensors& outputs, StatusPage& status);

  const Arguments& arguments() const { return arguments_; }
  /// The tensors one by one, for a device that has copies of them.
  std::vector<DeviceTensors::Source> sources() const;
  bool has_second() const { return second_ != nullptr; }

  /// Makes the inputs those of the second set, or of the first.
  void load(bool second);
  /// Whether the inputs are those of the first set, as they were loaded.
  bool inputs_unchanged() const;

  /// Chooses up to 64 elements of the inputs for `flip`.
  void choose_flips(Dice& dice);
  /// Changes one of the chosen elements, within its binade; `restore_flips` undoes all.
  /// Where, or null where there are none.
  const char* flip(Dice& dice) {
    if (flips_.empty()) return nullptr;
    Flip& one = flips_[below(dice, flips_.size())];
    *one.byte ^= one.mask;
    one.flipped = !one.flipped;
    return one.byte;
  }
  void restore_flips();

  /// Writes poison, or other values of the same output, at some places of the outputs: NaN shows,
  /// and a value that could be right deceives an implementation that looks whether there is
  /// anything to do.
  void scramble(Dice& dice);
  /// Whether a scrambled place still is what `scramble` made of it.
  bool scramble_left() const;

  /// Copies the outputs to a mapping of the same slots.
  void copy_outputs(const MappedTensors& to) const;
  /// Whether the outputs equal those of `as`, bit for bit.
  bool same_outputs(const MappedTensors& as) const;
  /// A hash of the elements of all outputs.
  uint64_t hash_outputs() const;
  /// Writes poison into every element of the outputs.
  void poison_outputs();
  /// Whether every element of the outputs still is poison.
  bool all_poison() const;

 private:
  struct Piece {  // where the two sets differ
    char* to;
    const char *first, *second;
    size_t bytes;
  };
  struct Flip {
    char* byte;
    char mask;
    bool flipped = false;
  };
  struct Span {
    const char* at;
    std::vector<char> scrambled;
  };
  void find_pieces();
  double load_element(size_t i, int64_t element) const;
  void scramble_span(Dice& dice, const attest_tensor& spec, char* data);
  char* output(size_t i) const { return memory_->data(first_.slots.size() + i); }

  const attest_tensor* tensor_;
  const MappedTensors &first_, *second_, &outputs_;
  std::optional<PrivateMemory> memory_;  // of the inputs, then of the outputs
  Arguments arguments_;
  std::vector<Piece> pieces_;
  std::vector<Flip> flips_;
  std::vector<Span> spans_;
};

}  // namespace attest::core
