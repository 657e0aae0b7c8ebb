// Random problems: every feature alone and with the others that it goes with.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numeric>

#include "testing/reference.hpp"

namespace abi_test {
namespace {

class Maker {
 public:
  Maker(Trial& trial, uint64_t seed, uint64_t allowed, uint64_t dtypes)
      : t(trial), p(trial.p()), engine_(seed), allowed_(allowed), dtypes_(dtypes) {}

  void make() {
    sizes();
    const bool grid = with(ATTEST_WITH_GRID, 20);
    if (grid) set_grid();
    if (!grid) {
      with(ATTEST_WITH_ORDER, 25);
      with(ATTEST_WITH_PATCHES, 25);
    }
    bool self = (t.features & (ATTEST_WITH_ORDER | ATTEST_WITH_PATCHES)) != 0;
    if (self) p.seq_len_kv = p.seq_len_q;
    if (t.features & ATTEST_WITH_PATCHES) p.patch_size = upto(p.seq_len_q + 3);
    if (!grid) set_band();
    const bool band = p.window_left >= 0 || p.window_right >= 0;
    const bool globals = band && p.patch_size == 0 && with(ATTEST_WITH_GLOBAL, 40);
    if (globals) {
      p.seq_len_kv = p.seq_len_q;
      p.global_tokens = upto(p.seq_len_q);
      self = true;
    }
    if (!grid && with(ATTEST_WITH_ALIBI, 20)) set_slopes();
    if (with(ATTEST_WITH_SINKS, 20)) set_sinks();
    set_top_k();
    if (with(ATTEST_WITH_SOFTCAP, 20)) p.softcap = float(upto(5));
    strided_ = with(ATTEST_WITH_STRIDES, 25);
    unaligned_ = with(ATTEST_WITH_UNALIGNED, 25);
    mixed_ = with(ATTEST_WITH_MIXED_DTYPE, 25);
    const Tokens tokens = set_tokens(self, !grid && with(ATTEST_WITH_VARLEN, 25));
    if (!grid && !tokens.packed_q && !tokens.packed_kv && with(ATTEST_WITH_SEQ_LENS, 25))
      set_lengths(self);
    const bool paged = !grid && !self && !tokens.packed_kv && with(ATTEST_WITH_PAGES, 25);
    choose_f8();
    tensors(tokens, paged);
    if (f8_ != ATTEST_NONE) set_factors(paged);
    if (t.features & ATTEST_WITH_ORDER) set_order(tokens.q, tokens.packed_q);
    pair_tensors();
    fill();
    spoil_hidden();
    if (chance(15)) spoil_one(true);
  }

  void make_gradients() {
    t.problem().operation = ATTEST_SOFTMAX_BACKWARD;
    sizes();
    const bool grid = with(ATTEST_WITH_GRID, 20);
    if (grid) set_grid();
    const bool ordered = !grid && with(ATTEST_WITH_ORDER, 25),
               patches = !grid && with(ATTEST_WITH_PATCHES, 20);
    if (ordered || patches) p.seq_len_kv = p.seq_len_q;
    if (patches) p.patch_size = upto(p.seq_len_q + 3);
    if (!grid) set_band();
    const bool band = p.window_left >= 0 || p.window_right >= 0,
               globals = band && !patches && with(ATTEST_WITH_GLOBAL, 40);
    if (globals) {
      p.seq_len_kv = p.seq_len_q;
      p.global_tokens = upto(p.seq_len_q);
    }
    if (!grid && with(ATTEST_WITH_ALIBI, 20)) set_slopes();
    if (with(ATTEST_WITH_SINKS, 20)) set_sinks();
    set_top_k();
    if (with(ATTEST_WITH_SOFTCAP, 30)) p.softcap = float(upto(5));
    const bool self = globals || patches || ordered;
    const Tokens tokens = set_tokens(self, !grid && with(ATTEST_WITH_VARLEN, 25));
    if (!grid && !tokens.packed_q && !tokens.packed_kv && with(ATTEST_WITH_SEQ_LENS, 25))
      set_lengths(self);
    strided_ = with(ATTEST_WITH_STRIDES, 25);
    unaligned_ = with(ATTEST_WITH_UNALIGNED, 25);
    mixed_ = with(ATTEST_WITH_MIXED_DTYPE, 25);
    if (p.top_k == 0) choose_f8();
    gradient_tensors(tokens);
    if (f8_ != ATTEST_NONE) set_factors(false);
    if (ordered) set_order(tokens.q, tokens.packed_q);
    pair_tensors();
    fill();
    if (chance(15)) spoil_one(false);
    write_forward();
    spoil_hidden();
    spoil_blind();
  }

 private:
  int64_t upto(int64_t n) { return int64_t(engine_() % uint64_t(n)) + 1; }
  bool chance(int percent) { return int(engine_() % 100) < percent; }
  bool with(uint64_t feature, int percent) {
    if (!(allowed_ & feature) || !chance(percent)) return false;
    t.features |= feature;
    return true;
  }
  void set_top_k() {
    if (!with(ATTEST_WITH_TOP_K, 20)) return;
    p.top_k = upto(p.seq_len_kv);
    p.top_k_ties = chance(50) ? ATTEST_TOP_K_ALL_TIES : ATTEST_TOP_K_FIRST;
  }
  int32_t dtype() {
    if (main_ != ATTEST_NONE && !mixed_) return main_;
    for (;;)
      if (const int32_t any = int32_t(upto(4)); dtypes_ & ATTEST_BIT(any)) return any;
  }
  /// Q, K and V in 8 bits, which make any problem one of mixed dtypes.
  void choose_f8() {
    constexpr int32_t kDtypes[] = {ATTEST_F8E4M3, ATTEST_F8E5M2};
    const uint64_t both = ATTEST_BIT(ATTEST_F8E4M3) | ATTEST_BIT(ATTEST_F8E5M2);
    if ((dtypes_ & both) == 0 || !(allowed_ & ATTEST_WITH_MIXED_DTYPE) || !chance(25)) return;
    do f8_ = kDtypes[upto(2) - 1];
    while (!(dtypes_ & ATTEST_BIT(f8_)));
    t.features |= ATTEST_WITH_MIXED_DTYPE;
  }
  int32_t stored_dtype() { return f8_ != ATTEST_NONE ? f8_ : dtype(); }
  void set_factors(bool paged) {
    if (!with(ATTEST_WITH_DESCALE, 75)) return;
    bool of_keys = false;
    for (const int32_t role : {ATTEST_Q_DESCALE, ATTEST_K_DESCALE, ATTEST_V_DESCALE}) {
      if (chance(30) && role != ATTEST_V_DESCALE) continue;
      const bool queries = role == ATTEST_Q_DESCALE, pages = paged && !queries;
      int64_t& block = queries ? p.descale_block_q : p.descale_block_kv;
      const int64_t length = queries ? p.seq_len_q : p.seq_len_kv;
      if (!pages && !(of_keys && !queries) && chance(50)) block = upto(length + 2);
      of_keys |= !queries;
      const int64_t blocks = block > 0 ? (length + block - 1) / block : 1;
      Tensor& factors = t.tensor[role] =
          make(ATTEST_F32, {pages || chance(30) ? 1 : p.batch,
                            chance(30) ? 1 : (queries ? p.num_heads : p.num_kv_heads),
                            chance(20) ? 1 : blocks});
      factors.each([&](const auto& index) { factors.set(index, 0.3 + double(upto(32)) / 16); });
    }
  }
  Tensor make(int32_t dtype, const std::vector<int64_t>& dims) {
    return make_tensor(dtype, dims, strided_ ? upto(5) : 0, !unaligned_);
  }

  void sizes() {
    p.batch = upto(3);
    p.num_kv_heads = upto(2);
    p.num_heads = p.num_kv_heads * (with(ATTEST_WITH_GQA, 30) ? 1 + upto(2) : 1);
    p.seq_len_q = chance(20) ? 1 : upto(chance(20) ? 150 : 40);
    p.seq_len_kv = chance(10) ? 1 : upto(chance(20) ? 200 : 50);
    p.head_dim = upto(chance(20) ? 70 : 20);
    p.head_dim_v = with(ATTEST_WITH_HEAD_DIM_V, 30) ? p.head_dim + upto(9) : p.head_dim;
    p.softmax_scale = float(1 / std::sqrt(double(p.head_dim)));
  }
  void set_grid() {
    p.window_height = upto(4);
    p.window_width = upto(4);
    p.grid_height = p.window_height * upto(3);
    p.grid_width = p.window_width * upto(3);
    p.seq_len_q = p.seq_len_kv = p.grid_height * p.grid_width;
    if (chance(70)) {
      p.shift_y = upto(p.window_height) - 1;
      p.shift_x = upto(p.window_width) - 1;
      p.shift_bias = chance(80) ? -3 : 0;
    }
  }
  void set_band() {
    if (with(ATTEST_WITH_CAUSAL, 30)) p.window_right = 0;
    if (with(ATTEST_WITH_WINDOW, 20)) {
      p.window_left = upto(20) - 1;
      if (!(t.features & ATTEST_WITH_CAUSAL) && chance(50)) p.window_right = upto(20);
    }
    if (with(ATTEST_WITH_DIAGONAL, 25)) {
      if (chance(60)) p.diagonal = ATTEST_BOTTOM_RIGHT;
      if (p.diagonal == ATTEST_TOP_LEFT || chance(50))
        p.diagonal_offset = chance(50) ? upto(20) : -upto(20);
    }
  }
  void set_sinks() {
    Tensor& sinks = t.tensor[ATTEST_SINKS] = make_tensor(ATTEST_F32, {p.num_heads});
    sinks.each([&](const auto& index) { sinks.set(index, double(upto(64)) / 8 - 4); });
  }
  void set_slopes() {
    Tensor& slopes = t.tensor[ATTEST_ALIBI_SLOPES] =
        make_tensor(ATTEST_F32, {chance(50) ? p.batch : 1, p.num_heads});
    slopes.each([&](const auto& index) { slopes.set(index, double(upto(64)) / 128); });
  }
  int64_t pack(int role, int64_t longest) {
    Tensor& cu = t.tensor[role] = make_tensor(ATTEST_I32, {p.batch + 1});
    int64_t total = 0;
    cu.set({0}, 0);
    const int64_t full = upto(p.batch) - 1;  // one sequence is as long as promised
    for (int64_t b = 0; b < p.batch; ++b)
      cu.set({b + 1}, double(total += b == full ? longest : upto(longest + 1) - 1));
    return total;
  }
  /// The rows of Q and of K.
  struct Tokens {
    bool packed_q, packed_kv;
    int64_t q, kv;
  };
  Tokens set_tokens(bool self, bool packed) {
    Tokens tokens{false, false, p.seq_len_q, p.seq_len_kv};
    if (!packed) return tokens;
    tokens.packed_q = self || chance(80);
    tokens.packed_kv = self || !tokens.packed_q || chance(80);
    if (tokens.packed_q) tokens.q = pack(ATTEST_CU_SEQLENS_Q, p.seq_len_q);
    if (tokens.packed_kv && self) {
      t.tensor[ATTEST_CU_SEQLENS_KV] = t.tensor[ATTEST_CU_SEQLENS_Q];
      tokens.kv = tokens.q;
    }
    if (tokens.packed_kv && !self) tokens.kv = pack(ATTEST_CU_SEQLENS_KV, p.seq_len_kv);
    return tokens;
  }
  void set_lengths(bool self) {
    for (const auto& [role, longest] :
         {std::pair{ATTEST_SEQ_LENS_Q, p.seq_len_q}, std::pair{ATTEST_SEQ_LENS_KV, p.seq_len_kv}}) {
      if (!self && role == ATTEST_SEQ_LENS_Q && chance(50)) continue;
      Tensor& lens = t.tensor[role] = make_tensor(ATTEST_I32, {p.batch});
      for (int64_t b = 0; b < p.batch; ++b)
        lens.set({b}, self && role == ATTEST_SEQ_LENS_KV ? t.tensor[ATTEST_SEQ_LENS_Q].at({b})
                                                         : double(upto(longest + 1) - 1));
    }
  }
  void tensors(const Tokens& tokens, bool paged) {
    const int64_t batch_q = tokens.packed_q ? 1 : p.batch;
    main_ = dtype();
    t.tensor[ATTEST_Q] =
        make(f8_ != ATTEST_NONE ? f8_ : main_, {batch_q, p.num_heads, tokens.q, p.head_dim});
    t.tensor[ATTEST_O] = make(dtype(), {batch_q, p.num_heads, tokens.q, p.head_dim_v});
    if (with(ATTEST_WITH_LSE, 60))
      t.tensor[ATTEST_LSE] = make(ATTEST_F32, {batch_q, p.num_heads, tokens.q});
    int64_t batch_kv = tokens.packed_kv ? 1 : p.batch, rows_kv = tokens.kv;
    if (paged) {
      batch_kv = set_pages();
      rows_kv = p.page_size;
    }
    t.tensor[ATTEST_K] = make(stored_dtype(), {batch_kv, p.num_kv_heads, rows_kv, p.head_dim});
    t.tensor[ATTEST_V] = make(stored_dtype(), {batch_kv, p.num_kv_heads, rows_kv, p.head_dim_v});
  }
  void gradient_tensors(const Tokens& tokens) {
    main_ = dtype();
    const int64_t batch_q = tokens.packed_q ? 1 : p.batch,
                  batch_kv = tokens.packed_kv ? 1 : p.batch;
    const auto dtype_of = [this](int role) {
      return role == ATTEST_Q || role == ATTEST_K || role == ATTEST_V ? stored_dtype() : dtype();
    };
    for (const int role : {ATTEST_Q, ATTEST_DQ})
      t.tensor[role] = make(dtype_of(role), {batch_q, p.num_heads, tokens.q, p.head_dim});
    for (const int role : {ATTEST_O, ATTEST_DO})
      t.tensor[role] = make(dtype(), {batch_q, p.num_heads, tokens.q, p.head_dim_v});
    for (const int role : {ATTEST_K, ATTEST_DK})
      t.tensor[role] = make(dtype_of(role), {batch_kv, p.num_kv_heads, tokens.kv, p.head_dim});
    for (const int role : {ATTEST_V, ATTEST_DV})
      t.tensor[role] = make(dtype_of(role), {batch_kv, p.num_kv_heads, tokens.kv, p.head_dim_v});
    t.tensor[ATTEST_LSE] = make(ATTEST_F32, {batch_q, p.num_heads, tokens.q});
  }
  /// Pages of the sequences in random order, some of nobody; entries beyond a sequence's length are
  /// -1.
  int64_t set_pages() {
    p.page_size = upto(9);
    const int64_t entries = (p.seq_len_kv + p.page_size - 1) / p.page_size,
                  pages = p.batch * entries + 2;
    std::vector<int64_t> free(size_t(pages), 0);
    std::iota(free.begin(), free.end(), 0);
    std::shuffle(free.begin(), free.end(), engine_);
    Tensor& table = t.tensor[ATTEST_PAGE_TABLE] = make_tensor(ATTEST_I32, {p.batch, entries});
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t n = 0; n < entries; ++n) {
        const bool used = n * p.page_size < length_kv(t, b);
        table.set({b, n}, used ? double(free.back()) : -1);
        free.pop_back();
      }
    return pages;
  }
  void set_order(int64_t tokens, bool packed) {
    Tensor& order = t.tensor[ATTEST_ORDER] =
        make_tensor(ATTEST_I32, {packed || chance(50) ? 1 : p.batch, tokens});
    std::vector<int64_t> rows(size_t(tokens), 0);
    std::iota(rows.begin(), rows.end(), 0);
    for (int64_t b = 0; b < order.spec.dim[0]; ++b) {
      std::shuffle(rows.begin(), rows.end(), engine_);
      for (int64_t n = 0; n < tokens; ++n) order.set({b, n}, double(rows[size_t(n)]));
    }
  }
  void pair_tensors() {
    const auto or_one = [this](int64_t n) { return chance(60) ? n : 1; };
    const auto dims = [&] {
      return std::vector<int64_t>{or_one(p.batch), or_one(p.num_heads), or_one(p.seq_len_q),
                                  or_one(p.seq_len_kv)};
    };
    if (with(ATTEST_WITH_BIAS, 20)) {
      const std::vector<int64_t> of_bias = dims();
      t.tensor[ATTEST_BIAS] = make(dtype(), of_bias);
      if (t.problem().operation == ATTEST_SOFTMAX_BACKWARD && with(ATTEST_WITH_DBIAS, 60))
        t.tensor[ATTEST_DBIAS] = make(dtype(), of_bias);
    }
    if (with(ATTEST_WITH_MASK, 20)) t.tensor[ATTEST_MASK] = make(ATTEST_BOOL, dims());
    if (with(ATTEST_WITH_BLOCK_MASK, 20)) {
      p.block_q = upto(p.seq_len_q + 2);
      p.block_kv = upto(p.seq_len_kv + 2);
      t.tensor[ATTEST_BLOCK_MASK] =
          make(ATTEST_BOOL,
               {or_one(p.batch), or_one(p.num_heads), (p.seq_len_q + p.block_q - 1) / p.block_q,
                (p.seq_len_kv + p.block_kv - 1) / p.block_kv});
    }
    const bool gradients = t.problem().operation == ATTEST_SOFTMAX_BACKWARD;
    if ((t.features & ATTEST_WITH_GRID) && with(ATTEST_WITH_REL_BIAS, 60)) {
      const std::vector<int64_t> of_offsets{p.num_heads, 2 * p.window_height - 1,
                                            2 * p.window_width - 1};
      t.tensor[ATTEST_REL_BIAS] = make(dtype(), of_offsets);
      if (gradients && with(ATTEST_WITH_DREL_BIAS, 60))
        t.tensor[ATTEST_DREL_BIAS] = make(dtype(), of_offsets);
    }
    if (gradients && t.tensor[ATTEST_SINKS] && with(ATTEST_WITH_DSINKS, 60))
      t.tensor[ATTEST_DSINKS] = make_tensor(ATTEST_F32, {p.num_heads});
  }

  void fill() {
    std::normal_distribution<double> normal;
    const double size = chance(30) ? 4 : 1;
    for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_BIAS, ATTEST_REL_BIAS, ATTEST_DO})
      if (Tensor& x = t.tensor[role])
        x.each([&](const auto& index) {
          x.set(index, role == ATTEST_BIAS && chance(20)
                           ? -kInfinity
                           : normal(engine_) * (role == ATTEST_Q ? size : 1));
        });
    for (const int role : {ATTEST_MASK, ATTEST_BLOCK_MASK})
      if (Tensor& mask = t.tensor[role])
        mask.each([&](const auto& index) { mask.set(index, chance(70)); });
    for (const int role :
         std::initializer_list<int>{ATTEST_O, ATTEST_LSE, ATTEST_DQ, ATTEST_DK, ATTEST_DV,
                                    ATTEST_DBIAS, ATTEST_DREL_BIAS, ATTEST_DSINKS})
      if (Tensor& x = t.tensor[role])
        x.each([&](const auto& index) { x.set(index, std::nan("")); });
  }
  /// K and V that no query sees, pages of nobody included.
  void spoil_hidden() {
    Tensor &k = t.tensor[ATTEST_K], &v = t.tensor[ATTEST_V];
    std::vector<bool> seen(size_t(k.spec.dim[0] * k.spec.dim[1] * k.spec.dim[2]), false);
    const auto place = [&](int64_t batch, int64_t head, int64_t row) {
      return size_t((batch * k.spec.dim[1] + head) * k.spec.dim[2] + row);
    };
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.num_heads; ++h)
        for (int64_t j = 0; j < length_kv(t, b); ++j) {
          const Cell at = key_cell(t, b, j);
          for (int64_t i = 0; i < length_q(t, b) &&
                              !seen[place(at.batch, h / (p.num_heads / p.num_kv_heads), at.row)];
               ++i)
            if (visible(t, b, h, i, j))
              seen[place(at.batch, h / (p.num_heads / p.num_kv_heads), at.row)] = true;
        }
    const double bad[] = {std::nan(""), kInfinity, -kInfinity, 1000};
    for (Tensor* x : {&k, &v})
      x->each([&](const auto& index) {
        if (!seen[place(index[0], index[1], index[2])]) x->set(index, bad[upto(4) - 1]);
      });
  }
  /// O and LSE of the other inputs.
  void write_forward() {
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.num_heads; ++h)
        for (int64_t i = 0; i < (t.tensor[ATTEST_CU_SEQLENS_Q] ? length_q(t, b) : p.seq_len_q);
             ++i) {
          const Reference row = attend(t, b, h, i);
          const Cell at = query_cell(t, b, i);
          t.tensor[ATTEST_LSE].set({at.batch, h, at.row}, row.lse);
          for (int64_t d = 0; d < p.head_dim_v; ++d)
            t.tensor[ATTEST_O].set({at.batch, h, at.row, d}, row.o[size_t(d)]);
        }
  }
  /// Q and dO of queries that see no key.
  void spoil_blind() {
    const double bad[] = {std::nan(""), kInfinity, -kInfinity, 1000};
    for (const int role : {ATTEST_Q, ATTEST_DO}) {
      Tensor& x = t.tensor[role];
      x.each([&](const auto& index) {
        if (t.tensor[ATTEST_LSE].at({index[0], index[1], index[2]}) == -kInfinity)
          x.set(index, bad[upto(4) - 1]);
      });
    }
  }
  /// One element of V that some may see and others not. Gradients multiply it by p, which in
  /// float32 may be 0, so that only NaN is the same in any arithmetic.
  void spoil_one(bool may_be_infinite) {
    Tensor& v = t.tensor[ATTEST_V];
    v.set({upto(v.spec.dim[0]) - 1, upto(v.spec.dim[1]) - 1, upto(v.spec.dim[2]) - 1,
           upto(v.spec.dim[3]) - 1},
          !may_be_infinite || chance(50) ? std::nan("") : kInfinity);
  }

  Trial& t;
  attest_softmax_params& p;
  std::mt19937_64 engine_;
  uint64_t allowed_, dtypes_;
  int32_t main_ = ATTEST_NONE, f8_ = ATTEST_NONE;  // f8_: of Q, K and V
  bool strided_ = false, unaligned_ = false, mixed_ = false;
};

}  // namespace

void randomize(Trial& trial, uint64_t seed, uint64_t allowed, uint64_t dtypes) {
  Maker(trial, seed * 7919 + 1, allowed, dtypes).make();
}
void randomize_gradients(Trial& trial, uint64_t seed, uint64_t allowed, uint64_t dtypes) {
  Maker(trial, seed * 7919 + 1, allowed, dtypes).make_gradients();
}

}  // namespace abi_test
