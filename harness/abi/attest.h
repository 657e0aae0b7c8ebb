// attest.h: the contract between attest, the host, and an implementation of attention in a plugin.
// C11 and C++, self-contained.
//
// A plugin is a shared library with one visible symbol, attest_plugin_v1, which returns the
// plugin's tables one by one. A table describes one implementation.
//
// Calls. The host by itself refuses a problem whose operation, device, dtypes or features a table
//   does not list. For any other problem it calls
//       query -> create -> run ... run -> destroy
//   one after another, on one thread. Several plans may be alive at once, of one problem or of
//   several, and their runs may come in any order, as in a program that uses kernels. Whatever a
//   plugin keeps beyond a plan (a cache, for example) must therefore be looked up by everything
//   that makes a problem: scale, strides, dtypes, features, sizes.
//
// Ownership. The host owns everything that it passes.
//   problem, params and tensor[] stay unchanged from create to destroy, so a plan may keep pointers
//   to them. Those that query gets are gone when query returns.
//   The array data[] lives until run returns. The tensors that it points to, and the workspace,
//   live until run returns as well; on CUDA they live until the stream is done. Copy the pointers
//   of data[] into the kernel's arguments there.
//
// Space. Every struct that the host passes lies in ATTEST_ROOM zeroed bytes. tensor[] and data[]
//   have ATTEST_ROLES entries. A plugin may therefore read and write every field of its own header
//   without looking at struct_size, whichever side is newer.
//
// Growth. Structs grow at their end; enums and roles grow by new values. Nothing is ever changed or
//   reused. In every addition 0 is neutral. An addition (field, role, enumerator) whose meaning an
//   old plugin would miss comes with a new ATTEST_WITH_ bit.
//
// example/plugin.c is a complete plugin in C. In C++, attest.hpp makes the table from a class.
#ifndef ATTEST_H
#define ATTEST_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum {
  ATTEST_MINOR = 0,    // additions to version 1 so far; nobody has to look at it
  ATTEST_ROOM = 1024,  // bytes reserved for each struct of the host; zero beyond its fields
  ATTEST_ROLES = 64,   // entries of tensor[] and data[]
  ATTEST_STAGES = 16   // entries of attest_support.stage
};

// What the functions of a table return. Any status but ATTEST_OK ends the work on this problem, and
// goes into the record.
typedef int32_t attest_status;
enum {
  ATTEST_OK = 0,
  ATTEST_UNSUPPORTED = 1,      // valid, but not taken by this implementation; see support.reason
  ATTEST_INVALID_PROBLEM = 2,  // the problem is malformed: a bug of the host
  ATTEST_OUT_OF_MEMORY = 3,
  ATTEST_RUNTIME_ERROR = 4  // last_error() describes it
};

// Devices. They say where the tensors and the workspace lie, and what `stream` is.
enum { ATTEST_CPU = 0, ATTEST_CUDA = 1 };

// Element types of tensors and of declared arithmetic.
enum {
  ATTEST_NONE = 0,  // of a tensor: it is absent; of declared arithmetic: f32
  ATTEST_F32,
  ATTEST_F16,   // IEEE binary16
  ATTEST_BF16,  // the upper 16 bits of an f32
  ATTEST_F64,
  ATTEST_I32,
  ATTEST_I64,
  ATTEST_BOOL,  // one byte, 0 or 1
  // Two formats of 8 bits (OCP 8-bit floating point, 2023), for declared arithmetic and for Q, K
  // and V of softmax attention. f8e4m3 has no infinity, and 0x7f and 0xff are NaN; its largest
  // number is 448. f8e5m2 has infinities and NaN as IEEE formats do; its largest number is 57,344.
  ATTEST_F8E4M3,
  ATTEST_F8E5M2,
  ATTEST_TF32,   // for declared arithmetic only: an f32 with a mantissa of 10 bits
  ATTEST_3XTF32  // for declared arithmetic only: three tf32 products, nearly an f32 product
};
#define ATTEST_BIT(dtype) (UINT64_C(1) << (dtype))

// Roles: the index of a tensor in tensor[] and data[]. Each comes with the dims of its tensor.
//   [a|1]: the dim is a, or it is 1 with stride 0, so that an index below a is always valid
//     (broadcast).
//   seq_len_q and seq_len_kv are the lengths of the longest sequence.
//   A position is a token's number in its sequence: i of a query, j of a key.
enum {
  // [batch, num_heads, seq_len_q, head_dim]
  // packed: [1, num_heads, all tokens, head_dim]
  ATTEST_Q,
  // [batch, num_kv_heads, seq_len_kv, head_dim]
  // packed: [1, num_kv_heads, all tokens, head_dim]
  // paged: [pages, num_kv_heads, page_size, head_dim]
  ATTEST_K,
  // As K, but the last dim is head_dim_v.
  ATTEST_V,
  // As Q, but the last dim is head_dim_v. Every element must be written.
  ATTEST_O,
  // As Q without the last dim, f32: the natural logarithm of the sum of exp(logit); -inf for a row
  // that sees no key.
  ATTEST_LSE,
  // [batch|1, num_heads|1, seq_len_q|1, seq_len_kv|1]: added to the logit of positions i and j of
  // sequence b; on a grid, of tokens i and j. Any finite number is allowed; -inf hides the pair.
  ATTEST_BIAS,
  // The same dims, bool: 1 = attend.
  ATTEST_MASK,
  // [batch + 1] i32: the tokens of Q, O and LSE are packed, and sequence b has rows cu[b] ..
  // cu[b + 1] - 1. cu[0] = 0 and cu[batch] = all tokens. Equal neighbours: an empty sequence. DO
  // and DQ are packed as Q is.
  ATTEST_CU_SEQLENS_Q,
  // [batch + 1] i32: the same for K and V, and so for DK and DV.
  ATTEST_CU_SEQLENS_KV,
  // [batch] i32, dense problems: how many positions of sequence b count. Beyond them o = 0 and
  // lse = -inf.
  ATTEST_SEQ_LENS_Q,
  // [batch] i32, dense or paged problems: how many key positions of sequence b count. Whatever lies
  // beyond them is never used.
  ATTEST_SEQ_LENS_KV,
  // [batch, ceil(seq_len_kv / page_size)] i32: key j of sequence b is row j % page_size of page
  // table[b, j / page_size]. Entries beyond the length of sequence b may be anything, -1 included.
  ATTEST_PAGE_TABLE,
  // [batch|1, tokens] i32: a permutation of the rows of Q, K, V, O and LSE, and so of DO, DQ, DK
  // and DV. A position that would lie in row r without ORDER lies in row order[r]. (Packed:
  // position i of sequence b has r = cu[b] + i.)
  ATTEST_ORDER,
  // [num_heads, 2 * window_height - 1, 2 * window_width - 1]: added to the logit. The index is
  // (dy + window_height - 1, dx + window_width - 1), where dy and dx are the query's coordinates in
  // the window minus the key's.
  ATTEST_REL_BIAS,
  // The gradient by O, as O: read by ATTEST_SOFTMAX_BACKWARD, as Q, K, V, O and LSE are.
  ATTEST_DO,
  ATTEST_DQ,     // as Q, written
  ATTEST_DK,     // as K, written
  ATTEST_DV,     // as V, written
  ATTEST_DBIAS,  // as BIAS, written: summed over the dims along which BIAS is broadcast
  // [batch|1, num_heads] f32: slope * |p - j| is subtracted from the logit of positions i and j. p
  // is that of the band, below.
  ATTEST_ALIBI_SLOPES,
  // [num_heads] f32: one more logit of each head, without a value. In every row that sees a key,
  // its exp is added to the sum that divides, and so to the LSE.
  ATTEST_SINKS,
  // [batch|1, num_heads|1, ceil(seq_len_q / block_q), ceil(seq_len_kv / block_kv)], bool: which
  // blocks of pairs are seen. The pair of positions i and j belongs to block [i / block_q,
  // j / block_kv]; on a grid, tokens count instead. The last blocks may be short. What lies in
  // hidden blocks is never used.
  ATTEST_BLOCK_MASK,
  // f32 factors of Q, K and V stored in 8 bits. The kernel attends to the stored number times its
  // factor. Each is finite and above 0.
  // [batch|1, num_heads|1, ceil(seq_len_q / descale_block_q)|1]: the query of position i has factor
  // i / descale_block_q; on a grid, tokens count instead. descale_block_q 0: the last dim is 1.
  ATTEST_Q_DESCALE,
  // [batch|1, num_kv_heads|1, ceil(seq_len_kv / descale_block_kv)|1]: likewise of keys. With pages
  // the first and the last dim are 1.
  ATTEST_K_DESCALE,
  ATTEST_V_DESCALE,  // as K_DESCALE
  // Roles 0 .. 31 are shared by the operations. Roles 32 .. 63 are private to one operation and
  // stand beside its params.
  ATTEST_OWN = 32
};

// Where the elements of one tensor lie. The host has checked it against the params, so a plugin
// need not. The first element is aligned to 64 bytes unless the problem has ATTEST_WITH_UNALIGNED;
// the workspace is aligned to 256. A plugin never writes to inputs, nor to gaps between elements.
enum { ATTEST_READ = 1, ATTEST_WRITE = 2 };
typedef struct attest_tensor {
  int32_t dtype;      // 0: the tensor is absent, and its data is NULL
  int32_t rank;       // how many entries of dim and stride count: 1 .. 6
  int32_t access;     // ATTEST_READ, ATTEST_WRITE or both. The host has filled outputs with NaN.
  int32_t reserved_;  // 0
  int64_t dim[6];     // elements, >= 1
  int64_t stride[6];  // elements from one index to the next, >= 0; 0 exactly where dim is 1
  int64_t reserved2_[2];
} attest_tensor;  // 128 bytes for ever

// Features: what a problem needs beyond the plain one (dense, contiguous, one dtype, every key
// seen), and what an implementation takes. Each feature is independent of the others. Bits 0 .. 31
// are shared by the operations.
enum {
  // num_kv_heads < num_heads: query head h reads key head h / (num_heads / num_kv_heads).
  ATTEST_WITH_GQA = 1 << 0,
  ATTEST_WITH_HEAD_DIM_V = 1 << 1,  // head_dim_v != head_dim
  ATTEST_WITH_CAUSAL = 1 << 2,      // window_right == 0
  ATTEST_WITH_WINDOW = 1 << 3,      // window_left >= 0 or window_right > 0
  ATTEST_WITH_DIAGONAL = 1 << 4,    // diagonal or diagonal_offset is not 0
  ATTEST_WITH_SOFTCAP = 1 << 5,
  ATTEST_WITH_BIAS = 1 << 6,
  ATTEST_WITH_MASK = 1 << 7,
  ATTEST_WITH_LSE = 1 << 8,        // LSE must be written; as an input of backward it needs no bit
  ATTEST_WITH_VARLEN = 1 << 9,     // any CU_SEQLENS
  ATTEST_WITH_SEQ_LENS = 1 << 10,  // any SEQ_LENS
  ATTEST_WITH_PAGES = 1 << 11,
  ATTEST_WITH_ORDER = 1 << 12,
  ATTEST_WITH_PATCHES = 1 << 13,
  ATTEST_WITH_GRID = 1 << 14,
  ATTEST_WITH_REL_BIAS = 1 << 15,
  ATTEST_WITH_STRIDES = 1 << 16,  // some tensor is not dense in the order of its dims
  // Q K V O (DO DQ DK DV) BIAS REL_BIAS LOCATIONS WEIGHTS differ in dtype
  ATTEST_WITH_MIXED_DTYPE = 1 << 17,
  ATTEST_WITH_UNALIGNED = 1 << 18,  // some tensor is aligned to its element only
  ATTEST_WITH_ALIBI = 1 << 19,      // ALIBI_SLOPES
  ATTEST_WITH_SINKS = 1 << 20,
  ATTEST_WITH_BLOCK_MASK = 1 << 21,
  ATTEST_WITH_GLOBAL = 1 << 22,  // global_tokens > 0
  ATTEST_WITH_TOP_K = 1 << 23,   // top_k > 0
  ATTEST_WITH_DESCALE = 1 << 24  // Q_DESCALE, K_DESCALE or V_DESCALE
};
// Bits private to an operation, n 0 .. 30. Bit 63 is kept for "see further words".
#define ATTEST_OWN_BIT(n) (UINT64_C(1) << (32 + (n)))
// The same of attest_support.arithmetic, n 0 .. 15.
#define ATTEST_OWN_WAY(n) (UINT32_C(1) << (16 + (n)))

// ATTEST_SOFTMAX and ATTEST_SOFTMAX_BACKWARD:
//
//   o = softmax(softcap(softmax_scale q.k) + bias + rel_bias - slope |p - j|) v
//
// The softmax runs over the keys j that position i of sequence b may see. A key is seen if all of
// these allow it:
//   - mask, block mask and bias (see the roles);
//   - the band p - window_left <= j <= p + window_right, where p = i + diagonal_offset, plus
//     length_kv(b) - length_q(b) if diagonal is ATTEST_BOTTOM_RIGHT; p is not clamped. The band
//     also allows every pair of which i or j is below global_tokens;
//   - the patch and the grid window.
// With top_k > 0 the softmax then runs over the top_k keys of the row with the largest logits: all
// that it sees, if these are fewer. If several keys share the top_k-th largest logit, top_k_ties
// says which of them count. Keys that do not count are hidden. A logit that is NaN is the largest,
// so its row is NaN. The sink is no key.
// A row that sees no key has o = 0 and lse = -inf, with sinks too. What is hidden never leaks into
// a result, NaN and Inf included. Without CU_SEQLENS and SEQ_LENS every sequence has seq_len_q and
// seq_len_kv tokens.
//
// Q, K and V may be stored in 8 bits: all three in f8e4m3 or all three in f8e5m2. All other tensors
// have other dtypes, so that the problem has ATTEST_WITH_MIXED_DTYPE. Only then there may be
// factors: Q_DESCALE, K_DESCALE, V_DESCALE. q, k and v are then stored numbers times factors, and
// so dq, dk and dv are the gradients by these products, not by what is stored. Transformer Engine's
// FP8 attention does the same; it may also store DO, DQ, DK and DV in 8 bits: that is not judged.
//
// ATTEST_SOFTMAX_BACKWARD has the gradients of the sum of do * o by q, k, v and bias, as functions
// of Q, K, V, DO and of O and LSE as they are given (Dao et al., "FlashAttention", NeurIPS 2022,
// algorithm 4):
//
//   p = exp(logit - lse), delta = do.o, ds = p (do.v - delta) c
//   dq = softmax_scale * sum over keys of ds k
//   dk = softmax_scale * sum over queries of ds q, dv = sum over queries of p do
//   dbias = p (do.v - delta), summed over the dims along which BIAS is broadcast
//   drel_bias = p (do.v - delta), summed over all sequences and all pairs with that offset
//   dsinks = - sum over sequences and over queries that see a key of exp(sink - lse) delta
//
// c is 1, or 1 - tanh(softmax_scale q.k / softcap)^2. The sums run over the pairs that are seen; dk
// and dv sum over all query heads of a key head. A query that sees no key has dq = 0, a key that no
// query sees dk = dv = 0, a hidden pair adds 0 to dbias. A row beyond a length of SEQ_LENS, which
// belongs to no position, has gradients of 0. Packed rows all belong to a sequence; if it has no
// keys, or no queries, their gradients are 0. Nothing hidden leaks, not even NaN. Not judged: paged
// problems (generation has no gradients), top_k with NaN logits, f64, DBIAS that all keys share.
enum {
  ATTEST_DREL_BIAS = ATTEST_OWN,  // as REL_BIAS, written by ATTEST_SOFTMAX_BACKWARD
  ATTEST_DSINKS                   // as SINKS, f32, likewise
};
// Of ATTEST_SOFTMAX_BACKWARD.
#define ATTEST_WITH_DBIAS ATTEST_OWN_BIT(0)
#define ATTEST_WITH_DREL_BIAS ATTEST_OWN_BIT(1)
#define ATTEST_WITH_DSINKS ATTEST_OWN_BIT(2)
enum { ATTEST_TOP_LEFT = 0, ATTEST_BOTTOM_RIGHT = 1 };
// Of the keys that share the top_k-th largest logit, those count that come first, so that top_k
// keys count in all; or all of them do.
enum { ATTEST_TOP_K_FIRST = 0, ATTEST_TOP_K_ALL_TIES = 1 };
typedef struct attest_softmax_params {
  uint32_t struct_size;  // sizeof of the host's struct
  int32_t diagonal;      // where the band of each sequence is anchored: one of the two values above

  int64_t batch;         // sequences
  int64_t num_heads;     // query heads
  int64_t num_kv_heads;  // key and value heads; divides num_heads
  // Tokens of the longest sequence. The length of each sequence is data, which create does not see.
  int64_t seq_len_q, seq_len_kv;
  int64_t head_dim, head_dim_v;  // channels of Q and K, and of V and O

  int64_t window_left;      // keys seen before the diagonal; -1: unbounded
  int64_t window_right;     // keys seen after the diagonal; 0: causal; -1: unbounded
  int64_t diagonal_offset;  // keys by which the diagonal is moved to the right; may be negative
  float softmax_scale;      // of q.k, final: 1 / sqrt(head_dim) unless the problem says otherwise
  float softcap;            // c > 0: a score s becomes c tanh(s / c), before bias; 0: none
  int64_t page_size;        // keys in a page; 0: no pages

  // P > 0: positions [n P, (n + 1) P) see one another. A short last patch sees the last
  // min(P, length) positions. Queries and keys are the same tokens. 0: no patches.
  int64_t patch_size;
  // > 0: each sequence is a grid, whose point (y, x) is token y * grid_width + x. The grid consists
  // of whole windows, and there is no band. 0: no grid.
  int64_t grid_height, grid_width;
  int64_t window_height, window_width;  // of a window of the grid, in tokens
  // Swin, 0 .. window - 1: token (y, x) is in the window of
  // ((y - shift_y) mod grid_height, (x - shift_x) mod grid_width).
  int64_t shift_y, shift_x;
  float shift_bias;  // added between tokens that rolling brought into one window (Swin: -100)
  float reserved_;   // 0

  int64_t block_q, block_kv;  // positions in a block of BLOCK_MASK; 0: no block mask
  // The first global_tokens positions of each sequence are global, as in Longformer: they see every
  // key, and every query sees them, even where the band would hide the pair. Queries and keys are
  // the same tokens, and there is a band. 0: no position is global.
  int64_t global_tokens;
  int64_t top_k;       // how many keys of each row count, at most seq_len_kv; 0: all that it sees
  int32_t top_k_ties;  // one of the two values above; 0 without top_k
  int32_t reserved2_;  // 0
  // How many positions share a factor: of Q_DESCALE, and of K_DESCALE and V_DESCALE. 0 means that
  // all positions of a sequence share one.
  int64_t descale_block_q, descale_block_kv;
} attest_softmax_params;
// The stages of softmax attention, for attest_support.
enum {
  ATTEST_SOFTMAX_QK,           // what Q and K are rounded to before they are multiplied
  ATTEST_SOFTMAX_PV,           // what P and V are rounded to before they are multiplied
  ATTEST_SOFTMAX_SCORE,        // in what scores are kept
  ATTEST_SOFTMAX_PROBABILITY,  // in what exp(logit - max) is kept; rel_error is that of exp
  ATTEST_SOFTMAX_ACCUMULATOR   // in what sums over keys are kept
};
// The stages of ATTEST_SOFTMAX_BACKWARD.
enum {
  ATTEST_SOFTMAX_BACKWARD_SCORE,        // in what scores and do.v are kept
  ATTEST_SOFTMAX_BACKWARD_PROBABILITY,  // in what p is kept; rel_error is that of exp
  ATTEST_SOFTMAX_BACKWARD_PRODUCT,      // what p and ds are rounded to before they are multiplied
  ATTEST_SOFTMAX_BACKWARD_ACCUMULATOR,  // in what sums over keys and over queries are kept
  ATTEST_SOFTMAX_BACKWARD_QK,           // what Q and K are rounded to before q.k is computed
  // What Q, K, V and DO are rounded to before do.v, p do, ds k and ds q are computed.
  ATTEST_SOFTMAX_BACKWARD_OPERAND,
  // What DO, O and their products are rounded to, and in what delta is kept.
  ATTEST_SOFTMAX_BACKWARD_DELTA
};
// How softmax attention may compute besides: bits of attest_support.arithmetic.
// p is divided by its sum, or is exp(x - lse), before it is rounded to its stage's dtype.
#define ATTEST_P_NORMALISED_FIRST ATTEST_OWN_WAY(0)
// p is truncated, not rounded.
#define ATTEST_P_TRUNCATED ATTEST_OWN_WAY(1)
// The normaliser sums the rounded p.
#define ATTEST_SUMS_ROUNDED_P ATTEST_OWN_WAY(2)
// p, or the factor that merges parts of the keys, is exp(x - lse) with lse rounded to f32, and the
// result is not divided by its sum: split keys merged by their lse, softmax in two passes.
#define ATTEST_WEIGHS_BY_LSE ATTEST_OWN_WAY(3)

// ATTEST_LINEAR: o = phi(q) (sum phi(k)^T v) / (phi(q) sum phi(k) + eps), with phi = elu + 1.
// Dense tensors as above. MASK, of dims [batch|1, 1, 1, seq_len_kv], multiplies phi(k), and
// QUERY_MASK multiplies phi(q). What they hide never leaks.
enum { ATTEST_QUERY_MASK = ATTEST_OWN };  // [batch|1, 1, seq_len_q, 1] bool
#define ATTEST_WITH_QUERY_MASK ATTEST_OWN_BIT(0)
typedef struct attest_linear_params {
  uint32_t struct_size;
  int32_t feature_map;  // 0: elu + 1
  // As for softmax.
  int64_t batch, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim, head_dim_v;
  float eps;        // added to the normaliser, > 0 (LoFTR: 1e-6)
  float reserved_;  // 0
} attest_linear_params;
// The stages of linear attention, for attest_support.
enum {
  ATTEST_LINEAR_FEATURES,    // what phi(q) and phi(k) are rounded to; rel_error is that of exp
  ATTEST_LINEAR_STATE,       // what V and the state are rounded to before they are multiplied
  ATTEST_LINEAR_ACCUMULATOR  // in what sums over keys are kept
};
// How linear attention may compute besides: without a state, but with a weight phi(q) phi(k) for
// each pair of a query and a key. sum_chain is then that of the weighted values.
#define ATTEST_WEIGHS_PAIRS ATTEST_OWN_WAY(0)

// ATTEST_DEFORMABLE, multi-scale deformable attention:
//
//   o = sum of weight(level, point) * sample(V of the level, location(level, point))
//
// V is [batch, num_heads, sum of level_height * level_width, head_dim_v], O is [batch, num_heads,
// seq_len_q, head_dim_v]. A location (x, y) is the pixel coordinate (x * width - 0.5, y * height -
// 0.5) of a level, or (x * (width - 1), y * (height - 1)) if align_corners is 1; a whole coordinate
// is the centre of a pixel. A sample is bilinear between the four pixels around it, and pixels
// outside the level count as 0. A point whose coordinates are not both above -1 and below width and
// height lies outside and adds nothing, whatever its weight is; so do NaN and infinite locations.
// Pixels that no point inside touches never leak into a result.
enum {
  // [batch, num_heads, seq_len_q, num_levels, num_points, 2], x then y: 0 .. 1 is the level
  ATTEST_LOCATIONS = ATTEST_OWN,
  // [batch, num_heads, seq_len_q, num_levels, num_points], any numbers; not normalised. A weight
  // that is NaN or infinite counts only if its point lies inside.
  ATTEST_WEIGHTS
};
#define ATTEST_WITH_ALIGN_CORNERS ATTEST_OWN_BIT(0)
typedef struct attest_deformable_params {
  uint32_t struct_size;
  int32_t num_levels;  // 1 .. 8
  int64_t batch, num_heads, seq_len_q, head_dim_v;
  int64_t num_points;  // of each level, head and query
  // In pixels; 0 beyond num_levels. V's tokens hold level after level, each row by row.
  int32_t level_height[8], level_width[8];
  // What the locations 0 and 1 are. 0: the edges of the level; 1: the centres of its first and last
  // pixels.
  int32_t align_corners;
  int32_t reserved_;  // 0
} attest_deformable_params;
// The stages of deformable attention, for attest_support.
enum {
  ATTEST_DEFORMABLE_LOCATION,    // what locations are rounded to; pixel coordinates are kept in it
  ATTEST_DEFORMABLE_WEIGHT,      // what weights and the bilinear factors are kept in
  ATTEST_DEFORMABLE_PRODUCT,     // what V is rounded to; products and samples are kept in it
  ATTEST_DEFORMABLE_ACCUMULATOR  // in what the sum over levels and points is kept
};
// A way of deformable attention: the kernel first turns a location x into 2 x - 1, which is what
// grid_sample takes.
#define ATTEST_LOCATES_ON_GRID ATTEST_OWN_WAY(0)

// Operations, each with its params struct.
enum {
  ATTEST_SOFTMAX = 1,           // attest_softmax_params
  ATTEST_SOFTMAX_BACKWARD = 2,  // attest_softmax_params
  ATTEST_LINEAR = 3,            // attest_linear_params
  ATTEST_DEFORMABLE = 4,        // attest_deformable_params
  ATTEST_PRIVATE = 1000         // from here on: never used by attest
};
typedef struct attest_problem {
  uint32_t struct_size;  // sizeof of the host's struct
  int32_t operation;
  // The operation's struct: what the sizes mean. It is authoritative: take loop bounds from it.
  const void* params;
  // By role: where the elements lie. The host has checked that it agrees with params.
  const attest_tensor* tensor;
  uint64_t features;  // the ATTEST_WITH_ bits that this problem needs
  int32_t device_id;  // CUDA ordinal; 0 on the CPU
  int32_t threads;    // threads that run may use, its caller included, >= 1; the host pins them
} attest_problem;

// Declared arithmetic: the tolerance follows from it, and the record shows it. A support that is
// all 0 is judged as f32, rounded and fused. An implementation that computes in less must say so.
//
// An operation computes in stages, which are listed beside its params. Each entry of stage[] says
// what the implementation does in the stage of that number. Entries of stages that the operation
// does not have stay 0.
typedef struct attest_stage {
  // What the stage's numbers are rounded to, or kept in; 0: f32. Dtypes of tensors do not count. A
  // QK in the 8 bits of Q and K multiplies the stored numbers; factors are applied to the product.
  int32_t dtype;
  // The largest relative error of the stage's function (exp) where it is coarser than the dtype;
  // else 0. Stages without a function have none. An implementation that declares less than 0 or
  // more than 2^-8 is not judged: its record is an error.
  float rel_error;
} attest_stage;
// How any operation may compute. Bits 0 .. 15 are shared by the operations; an operation's own
// stand beside its stages.
enum {
  // Subnormals become 0 when rounded to a stage's dtype. Linear attention has to keep them in sums.
  ATTEST_FLUSHES_SUBNORMALS = 1 << 0,
  // A second run may differ in its last bits (atomics, split sums).
  ATTEST_NONDETERMINISTIC = 1 << 1
};
// What query fills in. The host has zeroed everything but struct_size.
typedef struct attest_support {
  uint32_t struct_size;
  uint32_t arithmetic;  // the bits above and the operation's own
  attest_stage stage[ATTEST_STAGES];
  // The longest sequential chain of additions in the sum over keys; 0: seq_len_kv. Of deformable
  // attention, in the sum over levels and points; 0: 4 num_levels num_points, one for each pixel.
  // Of gradients, in the sums over keys and over queries; 0: as many as are summed.
  int64_t sum_chain;
  // What run gets as its workspace. All memory of run that grows with the problem belongs there.
  uint64_t workspace_bytes;
  char reason[256];  // one line, which ends with 0: why not; of ATTEST_OK, a note for the record
} attest_support;

// The table of one implementation: constant data of the plugin, valid while the plugin is loaded.
typedef struct attest_impl {
  uint32_t struct_size;       // sizeof(attest_impl) of the plugin
  int32_t operation, device;  // a table is for one operation on one device
  int32_t reserved_;          // 0
  uint64_t dtypes;            // ATTEST_BIT(dtype) of the float tensors that it takes (LSE apart)
  // The ATTEST_WITH_ bits that it takes, each alone and all together. query refuses exceptions.
  uint64_t features;
  const char* name;     // [a-z0-9_]+, <method>_<arch>: "flash_cpu"; a second one is name@plugin.so
  const char* version;  // any text that changes with the results
  const char* summary;  // one line for people

  // Whether the implementation takes the problem, and with which arithmetic and workspace. It has
  // no side effects and sees no data.
  attest_status (*query)(const attest_problem*, attest_support*);

  // Compiles and tunes; never timed. *plan may stay NULL. Other plans may be alive. If this one
  // cannot exist beside them, return ATTEST_UNSUPPORTED or ATTEST_OUT_OF_MEMORY, and let
  // last_error() say why. That is noted and is no failure; plans are then tried one by one.
  attest_status (*create)(const attest_problem*, void** plan);

  // Timed. Each run of a plan may come with other addresses and other data.
  //   data: by role, NULL where the tensor is absent.
  //   workspace: its content is undefined at the start of each run, later runs of a plan included.
  //   stream: a cudaStream_t to enqueue on without waiting; it may be capturing a graph, whose
  //     replays are runs. NULL on the CPU.
  attest_status (*run)(void* plan, void* const* data, void* workspace, void* stream);

  // Called once for every create that returned ATTEST_OK, in any order; other plans live on.
  void (*destroy)(void* plan);

  // The last error of this thread; valid until the thread's next call.
  const char* (*last_error)(void);
} attest_impl;

// The table of that index, the same one at each call; NULL past the last table.
// clang-format off
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const attest_impl* attest_plugin_v1(size_t index);
// clang-format on

#ifdef __cplusplus
}
#endif
#endif
