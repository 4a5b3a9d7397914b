/* Ticks of rows that each go their own way; included once for each type behind blocks.h. */

/* What enters n ticks. */
EXPORT void NAME(enter)(const Block *block, const Weights *weights, int64_t n) { NAME(enter_rows)(block, weights, 0, n); }

typedef struct {
  int64_t rows, sent, fresh;              /* fresh: no row starts a segment (0), some do (1), all do (2) */
  const int64_t *row;                     /* (rows) which of the state's, or none: all, in order */
  const uint8_t *starts;                  /* (rows) */
  const REAL *context;                    /* (sent, context) */
  const int64_t *receivers;               /* (sent) which of the rows, or none: all, in order */
  REAL *state, *memory;                   /* of all rows: brought up to date */
  REAL *before, *memory_before, *output;  /* (rows, hidden): the state before, and the hidden state after */
  REAL *room;                             /* (sent, gates) */
} NAME(Tick);

/* One tick of some rows, whose inputs have been entered. The block has its gates, and keeps an LSTM's c after it. */
EXPORT void NAME(tick)(const Block *block, const Weights *weights, const NAME(Tick) *tick) {
  int64_t kind = block->kind, size = block->hidden, rows = tick->rows, gates = gate_blocks(kind) * size;
  int64_t entering = input_from(kind) * size, entered = input_blocks(kind) * size;
  REAL *g = block->gates, *memory_after = block->after, *product = tick->room;
  for (int64_t b = 0; b < rows; b++) {
    int64_t r = tick->row ? tick->row[b] : b;
    if (tick->fresh == 2 || (tick->fresh && tick->starts[b])) {
      memset(tick->before + b * size, 0, size * sizeof(REAL));
      if (kind == LSTM) memset(tick->memory_before + b * size, 0, size * sizeof(REAL));
    } else {
      memcpy(tick->before + b * size, tick->state + r * size, size * sizeof(REAL));
      if (kind == LSTM) memcpy(tick->memory_before + b * size, tick->memory + r * size, size * sizeof(REAL));
    }
  }
  if (tick->fresh < 2) NAME(by_rows)(rows, hidden_blocks(kind) * size, size, tick->before, size, weights->hidden, g, gates);
  if (tick->context && !tick->receivers) {
    NAME(by_rows)(rows, entered, block->context, tick->context, block->context, weights->context, g + entering, gates);
  } else if (tick->context) {
    memset(product, 0, tick->sent * entered * sizeof(REAL));
    NAME(by_rows)(tick->sent, entered, block->context, tick->context, block->context, weights->context, product, entered);
    for (int64_t i = 0; i < tick->sent; i++) {
      REAL *restrict to = g + tick->receivers[i] * gates + entering;
      const REAL *restrict from = product + i * entered;
      VECTORISE for (int64_t j = 0; j < entered; j++) to[j] += from[j];
    }
  }
  NAME(activate)(kind, rows, size, g, tick->before, tick->memory_before, tick->output, memory_after);
  for (int64_t b = 0; b < rows; b++) {
    int64_t r = tick->row ? tick->row[b] : b;
    memcpy(tick->state + r * size, tick->output + b * size, size * sizeof(REAL));
    if (kind == LSTM) memcpy(tick->memory + r * size, memory_after + b * size, size * sizeof(REAL));
  }
}
