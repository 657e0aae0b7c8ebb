/* attest.h: the contract between the attest harness and one implementation of attention. C11 and C++, self-contained.
 *
 * A plugin is a shared library with one visible symbol, attest_plugin_v1. The host walks its tables and for a problem
 *   refuses by itself what a table does not list (operation, device, dtypes, features), then calls
 *   query -> create -> run ... run -> destroy, all on one thread, for one problem at a time.
 * Who owns what: the host owns everything it passes. problem, params and tensor[] stay as they are from create to destroy
 *   (a plan may keep the pointers); the array data[] lives until run returns, what it points to and the workspace until
 *   run returns (CUDA: until the stream is done, so copy data[] into the kernel's arguments).
 * Room: every struct that the host hands over lies in ATTEST_ROOM zeroed bytes, tensor[] and data[] have ATTEST_ROLES
 *   entries. So a plugin reads and writes any field of its own header without looking at struct_size, whoever is newer.
 * Growth: structs at their end, enums and roles by new values, nothing is changed or reused; 0 is neutral in whatever is
 *   added; a new meaning (field, role, enumerator) that an old plugin would miss comes with a new ATTEST_WITH_ bit. */
#ifndef ATTEST_H
#define ATTEST_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { ATTEST_MINOR = 0, ATTEST_ROOM = 1024, ATTEST_ROLES = 64 };

typedef int32_t attest_status;
enum {
  ATTEST_OK = 0,
  ATTEST_UNSUPPORTED = 1,     /* a valid problem that this implementation does not take; support.reason says why */
  ATTEST_INVALID_PROBLEM = 2, /* a malformed problem: a bug of the host */
  ATTEST_OUT_OF_MEMORY = 3,
  ATTEST_RUNTIME_ERROR = 4    /* last_error() says what */
};
enum { ATTEST_CPU = 0, ATTEST_CUDA = 1 };
enum { ATTEST_NONE = 0, ATTEST_F32, ATTEST_F16, ATTEST_BF16, ATTEST_F64, ATTEST_I32, ATTEST_I64, ATTEST_BOOL /* byte, 0 or 1 */,
       ATTEST_F8E4M3, ATTEST_F8E5M2, ATTEST_TF32, ATTEST_3XTF32 /* the last two: arithmetic only */ };
#define ATTEST_BIT(dtype) (UINT64_C(1) << (dtype))

/* Roles: the index of a tensor. [a|1]: either a, or 1 with stride 0, so that the full index may be used (broadcast). */
enum {
  ATTEST_Q,             /* [batch, num_heads, seq_len_q, head_dim];     packed: [1, num_heads, all tokens, head_dim] */
  ATTEST_K,             /* [batch, num_kv_heads, seq_len_kv, head_dim]; paged: [pages, num_kv_heads, page_size, head_dim] */
  ATTEST_V,             /* as K, head_dim_v last */
  ATTEST_O,             /* as Q, head_dim_v last */
  ATTEST_LSE,           /* as Q without its last dim, f32: natural log of the sum of exp(logit); -inf where no key */
  ATTEST_BIAS,          /* [batch|1, num_heads|1, seq_len_q|1, seq_len_kv|1], added; -inf allowed */
  ATTEST_MASK,          /* same shape, bool, 1 = attend */
  ATTEST_CU_SEQLENS_Q,  /* [batch + 1] i32: tokens of Q, O, LSE are packed; sequence b has rows cu[b] .. cu[b + 1] - 1 */
  ATTEST_CU_SEQLENS_KV, /* [batch + 1] i32: the same for K, V */
  ATTEST_SEQ_LENS_Q,    /* [batch] i32: rows of sequence b that count (dense); rows beyond: o = 0, lse = -inf */
  ATTEST_SEQ_LENS_KV,   /* [batch] i32: keys of sequence b that count (dense or paged) */
  ATTEST_PAGE_TABLE,    /* [batch, ceil(seq_len_kv / page_size)] i32: page of key j is table[b, j / page_size] */
  ATTEST_ORDER,         /* [batch|1, tokens] i32: row that stands at place i; i and j below then count places */
  ATTEST_REL_BIAS,      /* [num_heads, 2 * window_height - 1, 2 * window_width - 1]: at (dy + window_height - 1, dx + ...), query - key */
  ATTEST_DO, ATTEST_DQ, ATTEST_DK, ATTEST_DV, ATTEST_DBIAS, /* backward: shapes of O, Q, K, V, BIAS; Q K V O LSE DO are read */
  ATTEST_OWN = 32       /* 0 .. 31: words that operations share; 32 .. 63: private to an operation, beside its params */
};

enum { ATTEST_READ = 1, ATTEST_WRITE = 2 };
typedef struct attest_tensor { /* 128 bytes for ever */
  int32_t dtype, rank;         /* dtype 0: absent, its data is NULL */
  int32_t access, reserved_;   /* ATTEST_READ, ATTEST_WRITE or both */
  int64_t dim[6], stride[6];   /* dim >= 1; stride in elements, >= 0, and 0 exactly where dim is 1; gaps are not written */
  int64_t reserved2_[2];
} attest_tensor;               /* the first element lies on 64 bytes unless ATTEST_WITH_UNALIGNED, the workspace on 256 */

/* What a problem needs beyond the plain one (dense, contiguous, one dtype, every key) and what an implementation has. */
enum {
  ATTEST_WITH_GQA = 1 << 0,          /* num_kv_heads < num_heads: query head h reads h / (num_heads / num_kv_heads) */
  ATTEST_WITH_HEAD_DIM_V = 1 << 1,   /* head_dim_v != head_dim */
  ATTEST_WITH_CAUSAL = 1 << 2,       /* window_right == 0 */
  ATTEST_WITH_WINDOW = 1 << 3,       /* window_left >= 0 or window_right > 0 */
  ATTEST_WITH_DIAGONAL = 1 << 4,     /* diagonal or diagonal_offset not 0 */
  ATTEST_WITH_SOFTCAP = 1 << 5, ATTEST_WITH_BIAS = 1 << 6, ATTEST_WITH_MASK = 1 << 7, ATTEST_WITH_LSE = 1 << 8,
  ATTEST_WITH_VARLEN = 1 << 9,       /* any CU_SEQLENS */
  ATTEST_WITH_SEQ_LENS = 1 << 10,    /* any SEQ_LENS */
  ATTEST_WITH_PAGES = 1 << 11, ATTEST_WITH_ORDER = 1 << 12, ATTEST_WITH_PATCHES = 1 << 13, ATTEST_WITH_GRID = 1 << 14,
  ATTEST_WITH_REL_BIAS = 1 << 15,
  ATTEST_WITH_STRIDES = 1 << 16,     /* some tensor is not dense in the order of its dims */
  ATTEST_WITH_MIXED_DTYPE = 1 << 17, /* Q K V O (DO DQ DK DV) BIAS REL_BIAS are not all of one dtype */
  ATTEST_WITH_UNALIGNED = 1 << 18    /* some tensor is aligned to its element only */
};
#define ATTEST_OWN_BIT(n) (UINT64_C(1) << (32 + (n))) /* n 0 .. 30: private to an operation; bit 63 is kept for "see further words" */

/* ATTEST_SOFTMAX and ATTEST_SOFTMAX_BACKWARD: o = softmax(softcap(scale q.k) + bias + rel_bias) v over the keys j that place i
 * of sequence b may see: the mask says so; p - window_left <= j <= p + window_right with p = i + diagonal_offset, plus
 * length_kv(b) - length_q(b) if BOTTOM_RIGHT; same patch; same grid window. No key: o = 0, lse = -inf. Masked data never leak. */
#define ATTEST_WITH_DBIAS ATTEST_OWN_BIT(0) /* of ATTEST_SOFTMAX_BACKWARD */
enum { ATTEST_TOP_LEFT = 0, ATTEST_BOTTOM_RIGHT = 1 };
typedef struct attest_softmax_params {
  uint32_t struct_size;
  int32_t diagonal;
  int64_t batch, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim, head_dim_v; /* seq_len: longest of the batch */
  int64_t window_left, window_right; /* inclusive; -1: unbounded */
  int64_t diagonal_offset;
  float softmax_scale, softcap;      /* softcap c > 0: c tanh(s / c) */
  int64_t page_size;                 /* 0: no pages */
  int64_t patch_size;                /* > 0: places [n P, (n + 1) P) see one another; a short last patch sees the last min(P, length) places */
  int64_t grid_height, grid_width;   /* > 0: token y * grid_width + x; multiples of the window */
  int64_t window_height, window_width, shift_y, shift_x; /* Swin: token (y, x) is in the window of ((y - shift_y) mod height, ...) */
  float shift_bias, reserved_;       /* added between tokens of one window that rolling brought together (Swin: -100) */
} attest_softmax_params;

/* ATTEST_LINEAR: o = phi(q) (sum phi(k)^T v) / (phi(q) sum phi(k) + eps), phi = elu + 1; MASK [batch|1, 1, 1, seq_len_kv] and
 * QUERY_MASK [batch|1, 1, seq_len_q, 1] multiply phi. */
enum { ATTEST_QUERY_MASK = ATTEST_OWN };
#define ATTEST_WITH_QUERY_MASK ATTEST_OWN_BIT(0)
typedef struct attest_linear_params {
  uint32_t struct_size;
  int32_t feature_map; /* 0: elu + 1 */
  int64_t batch, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim, head_dim_v;
  float eps, reserved_;
} attest_linear_params;

/* ATTEST_DEFORMABLE: V [batch, num_heads, sum of level_height * level_width, head_dim_v], O [batch, num_heads, seq_len_q, head_dim_v];
 * bilinear at loc * size - 0.5, zero outside, times the given weights. */
enum { ATTEST_LOCATIONS = ATTEST_OWN, /* [batch, num_heads, seq_len_q, num_levels, num_points, 2], x then y in [0, 1] */
       ATTEST_WEIGHTS };              /* [batch, num_heads, seq_len_q, num_levels, num_points] */
typedef struct attest_deformable_params {
  uint32_t struct_size;
  int32_t num_levels;
  int64_t batch, num_heads, seq_len_q, head_dim_v, num_points;
  int32_t level_height[8], level_width[8];
} attest_deformable_params;

enum { ATTEST_SOFTMAX = 1, ATTEST_SOFTMAX_BACKWARD = 2, ATTEST_LINEAR = 3, ATTEST_DEFORMABLE = 4, ATTEST_PRIVATE = 1000 /* and up: not ours */ };
typedef struct attest_problem {
  uint32_t struct_size;
  int32_t operation;
  const void* params;          /* sizes that mean something: authoritative */
  const attest_tensor* tensor; /* by role; where the elements lie: the host has checked that it agrees with params */
  uint64_t features;           /* ATTEST_WITH_ bits */
  int32_t device_id, threads;  /* threads that run may use, the caller's included; the host pins them */
} attest_problem;

/* Declared arithmetic: the tolerance follows. 0 is judged as f32, rounded, fused: whoever computes in less has to say so. */
enum {
  ATTEST_P_NORMALISED_FIRST = 1 << 0, /* p is divided by its sum before it is rounded to probability_dtype */
  ATTEST_P_TRUNCATED = 1 << 1,        /* p is cut, not rounded */
  ATTEST_SUMS_ROUNDED_P = 1 << 2,     /* the normaliser sums the rounded p */
  ATTEST_FLUSHES_SUBNORMALS = 1 << 3,
  ATTEST_NONDETERMINISTIC = 1 << 4    /* a second run may differ in its last bits (atomics, split sums) */
};
typedef struct attest_support {
  uint32_t struct_size;
  int32_t qk_operand_dtype, pv_operand_dtype, score_dtype, probability_dtype, accumulator_dtype;
  uint32_t arithmetic;          /* ATTEST_P_... bits */
  float probability_rel_error;  /* of exp, where coarser than probability_dtype; else 0 */
  int64_t sum_chain;            /* longest sequential chain of the sum over keys; 0: seq_len_kv */
  uint64_t workspace_bytes;
  char reason[256];
} attest_support;

typedef struct attest_impl {
  uint32_t struct_size;        /* sizeof(attest_impl) of the plugin */
  int32_t operation, device;   /* one operation and one device a table */
  int32_t reserved_;
  uint64_t dtypes, features;   /* what it takes, each alone and together; less than that is for query to refuse:
                                  ATTEST_BIT(dtype) of float tensors (LSE apart), ATTEST_WITH_ bits */
  const char *name, *version, *summary;
  attest_status (*query)(const attest_problem*, attest_support*); /* no side effects, no data */
  attest_status (*create)(const attest_problem*, void** plan);    /* compile, tune: never timed */
  attest_status (*run)(void* plan, void* const* data, void* workspace, void* stream); /* timed; CUDA: enqueue on the cudaStream_t, do not wait */
  void (*destroy)(void* plan);
  const char* (*last_error)(void); /* of this thread; valid until its next call */
} attest_impl;

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const attest_impl* attest_plugin_v1(size_t index); /* NULL past the last; each time the same table */

#ifdef __cplusplus
}
#endif
#endif
