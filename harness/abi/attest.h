/* attest.h: the contract between the attest harness and one implementation of attention. C11 and C++, self-contained.
 *
 * A plugin is a shared library with one visible symbol, attest_plugin_v1. The host walks its tables, and for a problem it
 *   refuses by itself what a table does not list (operation, device, dtypes, features), then calls
 *   query -> create -> run ... run -> destroy. Calls come one after another on one thread, but plans live side by side: several
 *   plans, of one problem or of several, may be alive at once, with their runs in any order, as in a program that uses kernels.
 *   So what a plugin keeps beyond a plan has to be kept by all that a problem is: scale, strides, dtypes, features, sizes.
 * Who owns what: the host owns everything it passes. problem, params and tensor[] stay as they are from create to destroy, so a
 *   plan may keep the pointers; query's are gone when it returns. The array data[] lives until run returns; what it points to
 *   and the workspace until run returns (CUDA: until the stream is done, so copy data[] into the kernel's arguments).
 * Room: every struct that the host hands over lies in ATTEST_ROOM zeroed bytes, tensor[] and data[] have ATTEST_ROLES
 *   entries. So a plugin reads and writes any field of its own header without looking at struct_size, whoever is newer.
 * Growth: structs at their end, enums and roles by new values, nothing is changed or reused; 0 is neutral in whatever is
 *   added; a new meaning (field, role, enumerator) that an old plugin would miss comes with a new ATTEST_WITH_ bit.
 * A complete plugin in C is example/plugin.c; in C++, attest.hpp makes the table from a class. */
#ifndef ATTEST_H
#define ATTEST_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum {
  ATTEST_MINOR = 2,   /* additions to version 1 so far; nobody has to look at it */
  ATTEST_ROOM = 1024, /* bytes that every struct of the host has to itself, zero beyond what the host fills in */
  ATTEST_ROLES = 64   /* entries of tensor[] and data[] */
};

/* What the functions of a table return. Anything but ATTEST_OK ends the work on this problem, and goes into the record. */
typedef int32_t attest_status;
enum {
  ATTEST_OK = 0,
  ATTEST_UNSUPPORTED = 1,     /* a valid problem that this implementation does not take; support.reason says why */
  ATTEST_INVALID_PROBLEM = 2, /* a malformed problem: a bug of the host */
  ATTEST_OUT_OF_MEMORY = 3,
  ATTEST_RUNTIME_ERROR = 4    /* last_error() says what */
};

/* Devices: where the tensors and the workspace lie, and what stream is. */
enum { ATTEST_CPU = 0, ATTEST_CUDA = 1 };

/* Element types. */
enum {
  ATTEST_NONE = 0,  /* no tensor; of declared arithmetic: f32 */
  ATTEST_F32,
  ATTEST_F16,       /* IEEE binary16 */
  ATTEST_BF16,      /* upper 16 bits of an f32 */
  ATTEST_F64,
  ATTEST_I32,
  ATTEST_I64,
  ATTEST_BOOL,      /* one byte, 0 or 1 */
  ATTEST_F8E4M3,    /* declared arithmetic; tensors of it are not judged yet */
  ATTEST_F8E5M2,    /* likewise */
  ATTEST_TF32,      /* declared arithmetic only: f32 with a mantissa of 10 bits */
  ATTEST_3XTF32     /* declared arithmetic only: three tf32 products for nearly an f32 one */
};
#define ATTEST_BIT(dtype) (UINT64_C(1) << (dtype))

/* Roles: the index of a tensor in tensor[] and data[], with its dims. [a|1]: either a, or 1 with stride 0, so that the full index
 * may be used (broadcast). seq_len_q, seq_len_kv: of the longest sequence. Place: a token's number i or j in its sequence. */
enum {
  ATTEST_Q,             /* [batch, num_heads, seq_len_q, head_dim];     packed: [1, num_heads, all tokens, head_dim] */
  ATTEST_K,             /* [batch, num_kv_heads, seq_len_kv, head_dim]; packed: [1, num_kv_heads, all tokens, head_dim];
                           paged: [pages, num_kv_heads, page_size, head_dim] */
  ATTEST_V,             /* as K, head_dim_v last */
  ATTEST_O,             /* as Q, head_dim_v last; every element is to be written */
  ATTEST_LSE,           /* as Q without its last dim, f32: natural log of the sum of exp(logit); -inf where no key */
  ATTEST_BIAS,          /* [batch|1, num_heads|1, seq_len_q|1, seq_len_kv|1], added to the logit of places i and j of sequence b
                           (on a grid: of tokens); any finite number is one, -inf hides the pair */
  ATTEST_MASK,          /* same shape, bool, 1 = attend */
  ATTEST_CU_SEQLENS_Q,  /* [batch + 1] i32: tokens of Q, O, LSE are packed; sequence b has rows cu[b] .. cu[b + 1] - 1.
                           cu[0] = 0, cu[batch] = all tokens, equal neighbours are an empty sequence */
  ATTEST_CU_SEQLENS_KV, /* [batch + 1] i32: the same for K, V */
  ATTEST_SEQ_LENS_Q,    /* [batch] i32: places of sequence b that count (dense); beyond: o = 0, lse = -inf */
  ATTEST_SEQ_LENS_KV,   /* [batch] i32: key places of sequence b that count (dense or paged); what lies beyond is never used */
  ATTEST_PAGE_TABLE,    /* [batch, ceil(seq_len_kv / page_size)] i32: key j is row j % page_size of page table[b, j / page_size];
                           entries beyond the length of sequence b may be anything, -1 too */
  ATTEST_ORDER,         /* [batch|1, tokens] i32: row of Q, K, V, O, LSE that stands at a place, counted as rows are without it
                           (packed: place i of sequence b is entry cu[b] + i). A permutation of the rows */
  ATTEST_REL_BIAS,      /* [num_heads, 2 * window_height - 1, 2 * window_width - 1]: added at (dy + window_height - 1,
                           dx + window_width - 1), dy and dx: query's place in the window less the key's */
  ATTEST_DO,            /* backward, which is not judged yet: as O, read. Q, K, V, O, LSE are read too */
  ATTEST_DQ,            /* as Q, written; so are the next three */
  ATTEST_DK,            /* as K */
  ATTEST_DV,            /* as V */
  ATTEST_DBIAS,         /* as BIAS, summed over what it is broadcast along */
  ATTEST_ALIBI_SLOPES,  /* [batch|1, num_heads] f32: slope * |p - j| is taken off the logit of places i and j, p as for the band */
  ATTEST_SINKS,         /* [num_heads] f32: one more logit a head, which has no value: exp of it joins the sum that divides, and the LSE,
                           of every row that sees a key */
  ATTEST_OWN = 32       /* 0 .. 31: words that operations share; 32 .. 63: private to an operation, beside its params */
};

/* Where the elements of one tensor lie. The host has checked it against the params; a plugin has no need to. */
enum { ATTEST_READ = 1, ATTEST_WRITE = 2 };
typedef struct attest_tensor { /* 128 bytes for ever */
  int32_t dtype;      /* 0: absent, its data is NULL */
  int32_t rank;       /* how many of dim and stride count, 1 .. 6 */
  int32_t access;     /* ATTEST_READ: an input, never to be written; ATTEST_WRITE: an output, filled with NaN before; or both */
  int32_t reserved_;  /* 0 */
  int64_t dim[6];     /* elements, >= 1 */
  int64_t stride[6];  /* elements from one index to the next, >= 0, and 0 exactly where dim is 1; gaps are not written */
  int64_t reserved2_[2];
} attest_tensor;      /* the first element lies on 64 bytes unless ATTEST_WITH_UNALIGNED, the workspace on 256 */

/* Features: what a problem needs beyond the plain one (dense, contiguous, one dtype, every key), and what an implementation
 * takes. Bits 0 .. 31 are words that operations share; each is independent of the others. */
enum {
  ATTEST_WITH_GQA = 1 << 0,          /* num_kv_heads < num_heads: query head h reads h / (num_heads / num_kv_heads) */
  ATTEST_WITH_HEAD_DIM_V = 1 << 1,   /* head_dim_v != head_dim */
  ATTEST_WITH_CAUSAL = 1 << 2,       /* window_right == 0 */
  ATTEST_WITH_WINDOW = 1 << 3,       /* window_left >= 0 or window_right > 0 */
  ATTEST_WITH_DIAGONAL = 1 << 4,     /* diagonal or diagonal_offset not 0 */
  ATTEST_WITH_SOFTCAP = 1 << 5,
  ATTEST_WITH_BIAS = 1 << 6,
  ATTEST_WITH_MASK = 1 << 7,
  ATTEST_WITH_LSE = 1 << 8,          /* LSE is to be written (as an input of backward it does not set the bit) */
  ATTEST_WITH_VARLEN = 1 << 9,       /* any CU_SEQLENS */
  ATTEST_WITH_SEQ_LENS = 1 << 10,    /* any SEQ_LENS */
  ATTEST_WITH_PAGES = 1 << 11,
  ATTEST_WITH_ORDER = 1 << 12,
  ATTEST_WITH_PATCHES = 1 << 13,
  ATTEST_WITH_GRID = 1 << 14,
  ATTEST_WITH_REL_BIAS = 1 << 15,
  ATTEST_WITH_STRIDES = 1 << 16,     /* some tensor is not dense in the order of its dims */
  ATTEST_WITH_MIXED_DTYPE = 1 << 17, /* Q K V O (DO DQ DK DV) BIAS REL_BIAS are not all of one dtype */
  ATTEST_WITH_UNALIGNED = 1 << 18,   /* some tensor is aligned to its element only */
  ATTEST_WITH_ALIBI = 1 << 19,       /* ALIBI_SLOPES */
  ATTEST_WITH_SINKS = 1 << 20
};
/* Bits private to an operation, n 0 .. 30. Bit 63 is kept for "see further words". */
#define ATTEST_OWN_BIT(n) (UINT64_C(1) << (32 + (n)))

/* ATTEST_SOFTMAX and ATTEST_SOFTMAX_BACKWARD: o = softmax(softcap(softmax_scale q.k) + bias + rel_bias - slope |p - j|) v over the keys
 * j that place i of sequence b may see, which is where all of these say so:
 *   mask and bias (see the roles);
 *   the band p - window_left <= j <= p + window_right with p = i + diagonal_offset, plus length_kv(b) - length_q(b) if
 *   diagonal is ATTEST_BOTTOM_RIGHT, not clamped;
 *   the patch, the grid window.
 * No key: o = 0, lse = -inf, with sinks too. What is hidden never leaks, NaN and Inf included. Without CU_SEQLENS and SEQ_LENS every sequence has
 * seq_len_q and seq_len_kv tokens. */
#define ATTEST_WITH_DBIAS ATTEST_OWN_BIT(0) /* of ATTEST_SOFTMAX_BACKWARD */
enum { ATTEST_TOP_LEFT = 0, ATTEST_BOTTOM_RIGHT = 1 };
typedef struct attest_softmax_params {
  uint32_t struct_size;            /* sizeof of the host's struct */
  int32_t diagonal;                /* ATTEST_TOP_LEFT or ATTEST_BOTTOM_RIGHT: where the band is anchored, in each sequence */
  int64_t batch;                   /* sequences */
  int64_t num_heads;               /* query heads */
  int64_t num_kv_heads;            /* key and value heads; divides num_heads */
  int64_t seq_len_q, seq_len_kv;   /* tokens of the longest sequence; single lengths are data, which create does not see */
  int64_t head_dim, head_dim_v;    /* channels of Q and K, of V and O */
  int64_t window_left;             /* keys before the diagonal that are seen; -1: unbounded */
  int64_t window_right;            /* keys after it, 0: causal; -1: unbounded */
  int64_t diagonal_offset;         /* keys that the diagonal is moved to the right; may be negative */
  float softmax_scale;             /* factor of q.k, final: 1 / sqrt(head_dim) unless the problem says otherwise */
  float softcap;                   /* c > 0: a score s becomes c tanh(s / c), before bias; 0: none */
  int64_t page_size;               /* keys a page; 0: no pages */
  int64_t patch_size;              /* P > 0: places [n P, (n + 1) P) see one another; a short last patch sees the last
                                      min(P, length) places; queries and keys are the same tokens */
  int64_t grid_height, grid_width; /* > 0: one sequence is a grid, token y * grid_width + x; multiples of the window; no band */
  int64_t window_height, window_width; /* of a grid window, in tokens */
  int64_t shift_y, shift_x;        /* Swin: token (y, x) is in the window of ((y - shift_y) mod grid_height,
                                      (x - shift_x) mod grid_width); 0 .. window - 1 */
  float shift_bias;                /* added between tokens of one window that rolling brought together (Swin: -100) */
  float reserved_;                 /* 0 */
} attest_softmax_params;

/* ATTEST_LINEAR: o = phi(q) (sum phi(k)^T v) / (phi(q) sum phi(k) + eps), phi = elu + 1. Dense tensors as above. MASK
 * [batch|1, 1, 1, seq_len_kv] and QUERY_MASK multiply phi; what they hide never leaks. */
enum { ATTEST_QUERY_MASK = ATTEST_OWN }; /* [batch|1, 1, seq_len_q, 1] bool */
#define ATTEST_WITH_QUERY_MASK ATTEST_OWN_BIT(0)
typedef struct attest_linear_params {
  uint32_t struct_size;
  int32_t feature_map; /* 0: elu + 1 */
  int64_t batch, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim, head_dim_v; /* as for softmax */
  float eps;           /* added to the normaliser, > 0 (LoFTR: 1e-6) */
  float reserved_;     /* 0 */
} attest_linear_params;

/* ATTEST_DEFORMABLE, not judged yet: V [batch, num_heads, sum of level_height * level_width, head_dim_v], O [batch, num_heads, seq_len_q,
 * head_dim_v]: V read bilinearly at pixel loc * size - 0.5 of each level, zero outside, times the given weights, summed. */
enum {
  ATTEST_LOCATIONS = ATTEST_OWN, /* [batch, num_heads, seq_len_q, num_levels, num_points, 2], x then y in [0, 1] */
  ATTEST_WEIGHTS                 /* [batch, num_heads, seq_len_q, num_levels, num_points] */
};
typedef struct attest_deformable_params {
  uint32_t struct_size;
  int32_t num_levels;  /* 1 .. 8 */
  int64_t batch, num_heads, seq_len_q, head_dim_v;
  int64_t num_points;  /* a level, head and query */
  int32_t level_height[8], level_width[8]; /* pixels; level after level along V's tokens, row by row */
} attest_deformable_params;

/* Operations, and the params struct that goes with each. */
enum {
  ATTEST_SOFTMAX = 1,          /* attest_softmax_params */
  ATTEST_SOFTMAX_BACKWARD = 2, /* attest_softmax_params; not judged yet */
  ATTEST_LINEAR = 3,           /* attest_linear_params */
  ATTEST_DEFORMABLE = 4,       /* attest_deformable_params; not judged yet */
  ATTEST_PRIVATE = 1000        /* and up: not ours */
};
typedef struct attest_problem {
  uint32_t struct_size;        /* sizeof of the host's struct */
  int32_t operation;
  const void* params;          /* of the operation: what the sizes mean; authoritative, loop bounds come from here */
  const attest_tensor* tensor; /* by role: where the elements lie; the host has checked that it agrees with params */
  uint64_t features;           /* ATTEST_WITH_ bits that this problem needs */
  int32_t device_id;           /* CUDA ordinal; 0 on the CPU */
  int32_t threads;             /* threads that run may use, the caller's included, >= 1; the host pins them */
} attest_problem;

/* Declared arithmetic: the tolerance follows from it, and the record shows it. 0 is judged as f32, rounded, fused: whoever
 * computes in less has to say so. */
enum {
  ATTEST_P_NORMALISED_FIRST = 1 << 0, /* p is divided by its sum, or is exp(x - lse), before it is rounded to probability_dtype */
  ATTEST_P_TRUNCATED = 1 << 1,        /* p is cut, not rounded */
  ATTEST_SUMS_ROUNDED_P = 1 << 2,     /* the normaliser sums the rounded p */
  ATTEST_FLUSHES_SUBNORMALS = 1 << 3, /* of probability_dtype and pv_operand_dtype */
  ATTEST_NONDETERMINISTIC = 1 << 4,   /* a second run may differ in its last bits (atomics, split sums) */
  ATTEST_WEIGHS_BY_LSE = 1 << 5,      /* p, or what merges parts of the keys, is exp(x - lse) with lse rounded to f32, and nothing
                                       * divides by the sum of that: split keys merged by their lse, softmax of two passes */
  ATTEST_WEIGHS_PAIRS = 1 << 6        /* linear attention without a state: a weight phi(q) phi(k) for each pair of a query and a
                                       * key; sum_chain is that of the weighed values */
};
/* What query fills in; zeroed by the host but for struct_size. */
typedef struct attest_support {
  uint32_t struct_size;
  int32_t qk_operand_dtype;     /* what Q and K are rounded to before they are multiplied; 0: f32. Storage does not count */
  int32_t pv_operand_dtype;     /* what P and V are rounded to before they are multiplied */
  int32_t score_dtype;          /* what scores are kept in */
  int32_t probability_dtype;    /* what exp(logit - max) is kept in */
  int32_t accumulator_dtype;    /* of sums over keys */
  uint32_t arithmetic;          /* ATTEST_P_... bits */
  float probability_rel_error;  /* largest relative error of exp, where coarser than probability_dtype; else 0 */
  int64_t sum_chain;            /* longest sequential chain of additions in the sum over keys; 0: seq_len_kv */
  uint64_t workspace_bytes;     /* what run gets as its workspace; all of its memory that grows with the problem belongs here */
  char reason[256];             /* of ATTEST_UNSUPPORTED: one line, ends with 0 */
} attest_support;

/* One implementation: constant data of the plugin, valid as long as it is loaded. */
typedef struct attest_impl {
  uint32_t struct_size;        /* sizeof(attest_impl) of the plugin */
  int32_t operation, device;   /* one operation and one device a table */
  int32_t reserved_;           /* 0 */
  uint64_t dtypes;             /* ATTEST_BIT(dtype) of the float tensors it takes (LSE apart) */
  uint64_t features;           /* ATTEST_WITH_ bits it takes, each alone and together; less than that is for query to refuse */
  const char* name;            /* [a-z0-9_]+, <method>_<arch>: "flash_cpu" */
  const char* version;         /* any text that changes with the results */
  const char* summary;         /* one line for people */
  attest_status (*query)(const attest_problem*, attest_support*); /* whether, and with what; no side effects, no data */
  attest_status (*create)(const attest_problem*, void** plan);    /* compile, tune: never timed; *plan may stay NULL. Other plans
                                  may be alive. One that cannot be beside them: ATTEST_UNSUPPORTED or ATTEST_OUT_OF_MEMORY, and
                                  last_error() says why; that is noted, no failure, and plans are then tried one by one */
  attest_status (*run)(void* plan, void* const* data, void* workspace, void* stream); /* timed. Runs of one plan may have
                                  other addresses and other data each time. data: by role, NULL where absent; workspace: its
                                  content is undefined at each run, of the same plan too; stream: a cudaStream_t to enqueue on without
                                  waiting (it may be capturing a graph, whose replays are runs), NULL on the CPU */
  void (*destroy)(void* plan);    /* after every create that gave ATTEST_OK, in any order; other plans go on */
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
