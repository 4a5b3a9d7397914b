/* Blocks of ticks of the built-in cells, and decoders: what cells/block.py and decoders.py do in torch, for CPUs.
 *
 * Plain C with vectors of a fixed size (gcc, clang). It is compiled once for every instruction set, with SUFFIX, and holds
 * everything twice, for float and for double: the files that it includes. Shapes are (tick, row, feature), contiguous, as in torch. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifndef _WIN32
#include <pthread.h>
#endif

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define VECTORISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define VECTORISE _Pragma("GCC ivdep") /* no entry of a loop reads what another one writes */
#endif
#define UNROLL _Pragma("GCC unroll 16") /* or what a loop holds does not stay in registers */

/* The tile of a product that is held in registers: TILE_ROWS rows of two vectors. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TILE_ROWS 12
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define TILE_ROWS 6
#else
#define VECTOR_BYTES 16
#define TILE_ROWS 6
#endif
#define DEPTH 256 /* rows of a packed panel that are used in one go: they stay in the nearest cache */
#define MOST_THREADS 64

extern void (*hrnn_openmp)(void (*)(void *), void *, unsigned, unsigned); /* see pick.c */

enum { LSTM = 0, GRU = 1, RNN = 2 };

/* What these are told of a block and of its weights; functions.py has the same. */
typedef struct {
  int64_t kind, places, hidden, vocabulary, input, context; /* vocabulary: of tokens, or 0; input: of vectors, or 0 */
  void *gates, *states, *memory; /* memory: an LSTM's c before each tick, and after the last */
  const void *inputs;            /* int64_t tokens, or vectors */
} Block;

typedef struct {
  const void *table;                     /* tokens: (vocabulary, gates), biases included; vectors: the biases */
  const void *input, *context, *hidden;  /* packed, for the way forward */
  const void *back;                      /* packed, for the way back */
} Weights;

#define JOIN3(a, b, c) a##b##c
#define JOIN(a, b, c) JOIN3(a, b, c)

/* How many gates there are, which of them the input enters, and which the hidden state: in blocks of the hidden size. */
INLINE int64_t gate_blocks(int64_t kind) { return kind == RNN ? 1 : 4; }
INLINE int64_t input_from(int64_t kind) { return kind == GRU ? 1 : 0; }
INLINE int64_t input_blocks(int64_t kind) { return kind == GRU ? 3 : gate_blocks(kind); }
INLINE int64_t hidden_blocks(int64_t kind) { return kind == GRU ? 3 : gate_blocks(kind); }

/* A task that is split by rows, always in the same way: each thread goes through all ticks with rows of its own. Whoever is free
 * takes the next part. */
typedef struct {
  void (*run)(void *, int64_t, int64_t);
  void *task;
  int64_t row, rows, parts, next;
} Team;

static void member(void *given) {
  Team *team = given;
  for (;;) {
    int64_t i = __atomic_fetch_add(&team->next, 1, __ATOMIC_RELAXED);
    if (i >= team->parts) return;
    int64_t start = team->rows * i / team->parts, stop = team->rows * (i + 1) / team->parts;
    team->run(team->task, team->row + start, stop - start);
  }
}

#ifndef _WIN32
static void *helper(void *given) {
  member(given);
  return NULL;
}
#endif

/* The threads are those of the OpenMP that torch uses, where it was found: others would have to share the processor with them, as
 * they wait in a loop for some milliseconds after torch's own work. Else they are started here; one that cannot be is done without. */
static void split(void (*run)(void *, int64_t, int64_t), void *task, int64_t row, int64_t rows, int64_t threads) {
  if (threads > MOST_THREADS) threads = MOST_THREADS;
  if (threads > rows) threads = rows;
  if (threads < 2) {
    run(task, row, rows);
    return;
  }
  Team team = {run, task, row, rows, threads, 0};
  if (hrnn_openmp) {
    hrnn_openmp(member, &team, (unsigned)threads, 0);
    return;
  }
#ifndef _WIN32
  pthread_t started[MOST_THREADS];
  int64_t count = 0;
  while (count < threads - 1 && pthread_create(&started[count], NULL, helper, &team) == 0) count++;
  member(&team);
  while (count > 0) pthread_join(started[--count], NULL);
#else
  member(&team);
#endif
}

/* e^r - 1 for |r| <= log(2) / 2, by Taylor's series, which is exact to rounding there. */
INLINE float series_float(float r) {
  float q = 1.0f / 5040;
  q = q * r + 1.0f / 720;
  q = q * r + 1.0f / 120;
  q = q * r + 1.0f / 24;
  q = q * r + 1.0f / 6;
  q = q * r + 0.5f;
  return q * r * r + r;
}

INLINE double series_double(double r) {
  double q = 1.0 / 6227020800.0;
  q = q * r + 1.0 / 479001600.0;
  q = q * r + 1.0 / 39916800.0;
  q = q * r + 1.0 / 3628800.0;
  q = q * r + 1.0 / 362880.0;
  q = q * r + 1.0 / 40320.0;
  q = q * r + 1.0 / 5040.0;
  q = q * r + 1.0 / 720.0;
  q = q * r + 1.0 / 120.0;
  q = q * r + 1.0 / 24.0;
  q = q * r + 1.0 / 6.0;
  q = q * r + 0.5;
  return q * r * r + r;
}

/* x = n log(2) + r: *power is 2^n, the result e^r - 1. A number near 1.5 * 2^23 (2^52) keeps n in its last bits. What is not a
 * number stays none; what is too large for an exponent is cut off, far beyond where a sigmoid changes. */
INLINE float split_float(float x, float *power) {
  const float magic = 12582912.0f;
  x = x > 87.0f ? 87.0f : x;
  x = x < -87.0f ? -87.0f : x;
  float shifted = x * 1.44269504f + magic, n = shifted - magic;
  uint32_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + 0x3f800000u;
  memcpy(power, &bits, sizeof bits);
  return series_float((x - n * 0.693359375f) + n * 2.12194440e-4f); /* log(2) in two parts, the first of few bits */
}

INLINE double split_double(double x, double *power) {
  const double magic = 6755399441055744.0;
  x = x > 708.0 ? 708.0 : x;
  x = x < -708.0 ? -708.0 : x;
  double shifted = x * 1.4426950408889634 + magic, n = shifted - magic;
  uint64_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 52) + 0x3ff0000000000000u;
  memcpy(power, &bits, sizeof bits);
  return series_double((x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10);
}

#define REAL float
#define NAME(x) JOIN(hrnn_f32_, x, SUFFIX)
#define SPLIT split_float
#include "products.h"
#include "cells.h"
#include "blocks.h"
#include "decoder.h"
#include "step.h"
#undef REAL
#undef NAME
#undef SPLIT

#define REAL double
#define NAME(x) JOIN(hrnn_f64_, x, SUFFIX)
#define SPLIT split_double
#include "products.h"
#include "cells.h"
#include "blocks.h"
#include "decoder.h"
#include "step.h"
