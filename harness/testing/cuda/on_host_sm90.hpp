// The instructions of sm90.cuh on the host. A box of a tensor is copied some time before its
// barrier's phase is over; a product is made when it is waited for, from what shared memory has
// then, so that a tile that is given back too early shows, and so do sums that are read too early.
// What a thread stores is there for them once it is published. Registers of a left operand count as
// they are when the product is issued.
#pragma once
#include "cuda/sm90_layout.hpp"
#include "testing/cuda/on_host_products.hpp"

namespace sm90 {

/// Stands for CUtensorMap: a tensor [batch, heads, rows, channels] of 16-bit elements, of which
/// boxes of kColumn channels of `box_rows` rows are copied.
struct TensorMap {
  const char* data = nullptr;
  int64_t channels = 0, rows = 0, heads = 0, batch = 0;
  int64_t row_bytes = 0, head_bytes = 0, batch_bytes = 0;
  int box_rows = 0;
};

inline TensorMap tensor_map(const attest_tensor& tensor, void* data, int box_rows) {
  return {static_cast<const char*>(data),
          tensor.dim[3],
          tensor.dim[2],
          tensor.dim[1],
          tensor.dim[0],
          tensor.stride[2] * 2,
          tensor.stride[1] * 2,
          tensor.stride[0] * 2,
          box_rows};
}

/// Where the swizzle puts a byte: bits 4 to 6 of its address are exchanged by bits 7 to 9.
inline uint32_t swizzled(uint32_t address) { return address ^ (address >> 7 & 7) << 4; }

/// An operand in shared memory, by its descriptor; `summed`: its tile's rows are what is summed
/// over.
class Operand {
 public:
  Operand(uint64_t descriptor, bool summed)
      : memory_(cuda::on_host::block().shared()),
        first_(field(descriptor, 0)),
        eight_rows_(field(descriptor, 32)),
        next_column_(field(descriptor, 16)),
        summed_(summed) {
    if (descriptor >> 61 != 2) {
      std::fprintf(stderr, "a descriptor without the swizzle of 128 bytes\n");
      std::abort();
    }
  }
  /// The 16 bits of element k of row or column `index`.
  uint16_t element(int index, int k) const {
    const auto row = static_cast<uint32_t>(summed_ ? k : index),
               channel = static_cast<uint32_t>(summed_ ? index : k);
    uint16_t bits;
    std::memcpy(&bits,
                memory_ + swizzled(first_ + row / 8 * eight_rows_ + row % 8 * kRowBytes +
                                   channel / kColumn * next_column_ + channel % kColumn * 2),
                sizeof bits);
    return bits;
  }

 private:
  static uint32_t field(uint64_t descriptor, int first) {
    return static_cast<uint32_t>(descriptor >> first & 0x3fff) << 4;
  }
  const char* memory_;
  uint32_t first_, eight_rows_, next_column_;
  bool summed_;
};

inline void init_barrier(uint32_t barrier, int arrivals) {
  cuda::on_host::block().make_barrier(barrier, arrivals);
}
inline void publish_barriers() {}
inline void arrive(uint32_t barrier) { cuda::on_host::block().arrive_at(barrier, 0); }
inline void arrive_and_expect(uint32_t barrier, uint32_t bytes) {
  cuda::on_host::block().arrive_at(barrier, bytes);
}
inline void wait(uint32_t barrier, uint32_t parity) {
  cuda::on_host::block().wait_for_phase(barrier, parity);
}
inline void wait_named(int barrier, int threads) {
  cuda::on_host::block().wait_named(barrier, threads);
}
inline void come_by_named(int barrier, int threads) {
  cuda::on_host::block().come_by_named(barrier, threads);
}
inline void store_zeros(uint32_t to) {
  cuda::on_host::block().copy_later({cuda::on_host::block().shared() + to, nullptr, 0, 16});
}
inline void publish_stores() {
  cuda::on_host::block().commit();
  cuda::on_host::block().wait_for_copies(0);
}
template <int kCount>
void give_registers() {}
template <int kCount>
void take_registers() {}

inline void load_box(uint32_t to, const TensorMap& map, uint32_t barrier, int channel, int row,
                     int head, int batch) {
  cuda::on_host::Block& block = cuda::on_host::block();
  char* memory = block.shared();
  const auto copy = [=] {
    for (int r = 0; r < map.box_rows; ++r)
      for (int c = 0; c < kColumn; ++c) {
        const int64_t at_row = row + r, at_channel = channel + c;
        uint16_t element = 0;
        if (at_row >= 0 && at_row < map.rows && at_channel < map.channels && head < map.heads &&
            batch < map.batch)
          std::memcpy(&element,
                      map.data + batch * map.batch_bytes + head * map.head_bytes +
                          at_row * map.row_bytes + at_channel * int64_t{sizeof element},
                      sizeof element);
        std::memcpy(memory + swizzled(to + static_cast<uint32_t>(r * kRowBytes + c * 2)), &element,
                    sizeof element);
      }
  };
  block.copy_box_later(copy, barrier, int64_t{map.box_rows} * kColumn * 2);
}

inline void begin_products() { cuda::on_host::block().wait_for_warp(); }
inline void commit_products() { cuda::on_host::block().products().emplace_back(); }
template <int kLeft>
void wait_products() {
  cuda::on_host::block().pause();
  auto& groups = cuda::on_host::block().products();
  while (groups.size() > kLeft + 1) {
    for (const auto& product : groups.front()) product();
    groups.erase(groups.begin());
  }
  cuda::on_host::block().wait_for_warp();
}
template <class Registers>
void pin(Registers&) {}
inline void settle(float, uint32_t) {}
inline void renew(uint32_t&) {}

template <class Type, int kColumns>
struct Products {
  static constexpr int kSums = kColumns / 2;
  /// A thread's two rows of the left operand, as floats.
  struct Rows {
    float at[2][16];
  };

  static void of_shared(float (&c)[kSums], uint64_t a, uint64_t b, int adds) {
    const int thread = static_cast<int>(threadIdx.x) % kWarpgroup,
              row = thread / 32 * 16 + thread % 32 / 4;
    later([=, &c] {
      const Operand left(a, false);
      Rows rows;
      for (int half = 0; half < 2; ++half)
        for (int k = 0; k < 16; ++k)
          rows.at[half][k] = cuda::as_float(left.element(row + 8 * half, k), Type());
      multiply(c, rows, b, false, adds);
    });
  }
  /// Fragments as of m16n8k16: lane l has columns 2 (l % 4), the next, and those 8 further on, of
  /// rows l / 4 and l / 4 + 8.
  static void of_registers(float (&c)[kSums], const uint32_t (&weights)[4], uint64_t b, int adds) {
    struct Fragment {
      uint32_t a[4];
    };
    const Fragment* all =
        cuda::on_host::block().exchange(Fragment{{weights[0], weights[1], weights[2], weights[3]}});
    const int lane = cuda::on_host::block().lane();
    Rows rows;
    for (int half = 0; half < 2; ++half)
      for (int k = 0; k < 16; ++k) {
        const uint32_t pair = all[lane / 4 * 4 + k % 8 / 2].a[k / 8 * 2 + half];
        rows.at[half][k] = cuda::as_float(pair >> 16 * (k % 2) & 0xffff, Type());
      }
    later([=, &c] { multiply(c, rows, b, true, adds); });
  }

 private:
  static void later(const std::function<void()>& product) {
    cuda::on_host::block().products().back().push_back(product);
  }
  static void multiply(float (&c)[kSums], const Rows& rows, uint64_t b, bool summed, int adds) {
    const int lane = cuda::on_host::block().lane();
    const Operand columns(b, summed);
    double left[2][2][8];  // of each step, two rows
    for (int k = 0; k < 16; ++k)
      for (int which = 0; which < 2; ++which)
        left[k / 8][which][k % 8] = static_cast<double>(rows.at[which][k]);
    for (int first = 0; first < kSums; first += 4) {
      float sums[4];
      for (int e = 0; e < 4; ++e) sums[e] = adds ? c[first + e] : 0;
      for (int step = 0; step < 2; ++step) {
        double right[2][8];
        for (int which = 0; which < 2; ++which)
          for (int k = 0; k < 8; ++k)
            right[which][k] = static_cast<double>(cuda::as_float(
                columns.element(first * 2 + lane % 4 * 2 + which, 8 * step + k), Type()));
        cuda::add_products(sums, left[step], right);
      }
      for (int e = 0; e < 4; ++e) c[first + e] = sums[e];
    }
  }
};

}  // namespace sm90
