// The memory of the tensors in timed runs.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "core/measure/machine/affinity.hpp"

namespace attest::core {

/// Pieces of memory of this process alone, which hold anything at first. Large ones lie in huge
/// pages where there are any.
///
/// New pages can cost more than a short run: the kernel clears them, and a virtual machine may have
/// to get them from its host. So the process keeps the memory for the next object, a 64th of the
/// machine's and 256 MiB at most, and puts it out of reach until then. One object exists at a time.
class PrivateMemory {
 public:
  struct Piece {
    size_t bytes;
    size_t offset;  // of the piece's first byte, from a page
    bool sparse;    // few of its pages will be used: they stay ordinary and are not kept
  };
  /// Throws Error: out of memory.
  explicit PrivateMemory(std::span<const Piece> pieces);
  ~PrivateMemory();
  PrivateMemory(const PrivateMemory&) = delete;
  PrivateMemory& operator=(const PrivateMemory&) = delete;

  char* data(size_t i) const { return data_[i]; }
  /// Gets the pages of these pieces, of which none is sparse, on all CPUs at once. For pieces that
  /// are about to be filled: one thread that fills them would wait for each new page in turn, and
  /// get all of them from its own NUMA node (page_placement.hpp).
  /// `nodes`: with the CPUs of the run. Where there are several, all pieces but sparse ones first
  /// lose the pages that were kept, and what they hold: those lie where an earlier object had them.
  void populate(std::span<const size_t> pieces,
                const Nodes& nodes = cpus_by_node(allowed_cpus())) const;
  /// Bytes that this process keeps and that no object uses.
  static size_t kept_bytes();

 private:
  struct Sparse {
    void* base;
    size_t bytes;
  };

  std::vector<char*> data_;
  std::vector<Piece> pieces_;
  std::vector<Sparse> sparse_;
};

}  // namespace attest::core
