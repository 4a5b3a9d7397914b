/* Ticks in line, all rows together; included once for each type behind cells.h. */

typedef struct {
  const Block *block;
  const Weights *weights;
  int64_t start, stop, fresh, column;
  const REAL *context;               /* (rows of a column, context) */
  REAL *d_hidden, *d_memory, *out, *carry; /* the way back */
} NAME(Task);

/* The products that do not depend on the state: what enters `rows` ticks. */
static void NAME(enter_rows)(const Block *block, const Weights *weights, int64_t at, int64_t rows) {
  int64_t size = block->hidden, gates = gate_blocks(block->kind) * size;
  REAL *g = (REAL *)block->gates + at * gates;
  if (block->vocabulary) {
    const int64_t *tokens = (const int64_t *)block->inputs + at;
    for (int64_t b = 0; b < rows; b++) {
      if ((uint64_t)tokens[b] < (uint64_t)block->vocabulary)
        memcpy(g + b * gates, (const REAL *)weights->table + tokens[b] * gates, gates * sizeof(REAL));
      else /* they were in range when they were checked */
        for (int64_t j = 0; j < gates; j++) g[b * gates + j] = NAN;
    }
  } else {
    for (int64_t b = 0; b < rows; b++) memcpy(g + b * gates, weights->table, gates * sizeof(REAL));
    NAME(by_rows)(rows, input_blocks(block->kind) * size, block->input, (const REAL *)block->inputs + at * block->input,
                  block->input, weights->input, g + input_from(block->kind) * size, gates);
  }
}

INLINE void NAME(activate)(int64_t kind, int64_t rows, int64_t size, REAL *gates, const REAL *before, const REAL *memory,
                           REAL *after, REAL *memory_after) {
  if (kind == LSTM) NAME(activate_lstm)(rows, size, gates, memory, after, memory_after);
  else if (kind == GRU) NAME(activate_gru)(rows, size, gates, before, after);
  else NAME(activate_rnn)(rows, size, gates, after);
}

static void NAME(forward_rows)(void *given, int64_t row, int64_t rows) {
  const NAME(Task) *task = given;
  const Block *block = task->block;
  const Weights *weights = task->weights;
  int64_t kind = block->kind, size = block->hidden, places = block->places, gates = gate_blocks(kind) * size;
  int64_t entering = input_from(kind) * size, entered = input_blocks(kind) * size, recurrent = hidden_blocks(kind) * size;
  for (int64_t t = task->start; t < task->stop; t++) {
    REAL *g = (REAL *)block->gates + (t * places + row) * gates;
    const REAL *before = (const REAL *)block->states + (t * places + row) * size;
    REAL *after = (REAL *)block->states + ((t + 1) * places + row) * size;
    NAME(enter_rows)(block, weights, t * places + row, rows);
    if (t > task->start || !task->fresh) {
      NAME(by_rows)(rows, recurrent, size, before, size, weights->hidden, g, gates);
    } else if (task->context) {
      NAME(by_rows)(rows, entered, block->context, task->context + (row - task->column) * block->context, block->context,
                    weights->context, g + entering, gates);
    }
    int64_t at = (t * places + row) * size;
    NAME(activate)(kind, rows, size, g, before, (const REAL *)block->memory + at, after,
                   (REAL *)block->memory + at + places * size);
  }
}

/* Ticks start to stop of `rows` rows from `row` on. fresh: they start a segment, from zero and `context`, which may be none. */
EXPORT void NAME(forward)(const Block *block, const Weights *weights, int64_t start, int64_t stop, int64_t row, int64_t rows,
                          int64_t fresh, const REAL *context, int64_t threads) {
  NAME(Task) task = {block, weights, start, stop, fresh, row, context, NULL, NULL, NULL, NULL};
  split(NAME(forward_rows), &task, row, rows, threads);
}

/* The gradient of the hidden state before a tick, as far as it goes through the gates, added to d_state. */
static void NAME(before_tick)(const Block *block, const Weights *weights, int64_t rows, const REAL *d_gates, REAL *d_state) {
  int64_t kind = block->kind, size = block->hidden, all = gate_blocks(kind) * size, recurrent = hidden_blocks(kind) * size;
  NAME(by_rows)(rows, size, recurrent, d_gates, all, weights->back, d_state, size);
}

static void NAME(sweep_rows)(void *given, int64_t row, int64_t rows) {
  const NAME(Task) *task = given;
  const Block *block = task->block;
  int64_t kind = block->kind, size = block->hidden, places = block->places, gates = gate_blocks(kind) * size;
  REAL *carry = task->carry ? task->carry + row * size : NULL;
  if (carry) memset(carry, 0, rows * size * sizeof(REAL));
  for (int64_t t = task->stop - 1; t >= task->start; t--) {
    int64_t at = t * places + row, since = at - task->start * places;
    const REAL *g = (const REAL *)block->gates + at * gates;
    REAL *d_state = task->d_hidden + since * size, *out = task->out + since * gates;
    if (t < task->stop - 1) NAME(before_tick)(block, task->weights, rows, out + places * gates, d_state);
    if (kind == LSTM) {
      const REAL *c = (const REAL *)block->memory + at * size;
      NAME(derive_lstm)(rows, size, g, c, c + places * size, d_state, task->d_memory + row * size, out);
    } else if (kind == GRU) {
      NAME(derive_gru)(rows, size, g, (const REAL *)block->states + at * size, d_state,
                       t > task->start ? d_state - places * size : carry, out);
    } else {
      NAME(derive_rnn)(rows, size, g, d_state, out);
    }
  }
  if (carry) NAME(before_tick)(block, task->weights, rows, task->out + row * gates, carry);
}

/* Backward through ticks start to stop. d_hidden (ticks, places, hidden): the gradient of the states after them, added to.
 * d_memory (places, hidden): that of an LSTM's c, carried. out (ticks, places, gates): that of the gates' inputs; it may be the
 * gates of these ticks. carry
 * (places, hidden), if it is wanted: that of the hidden state before the first tick. */
EXPORT void NAME(sweep)(const Block *block, const Weights *weights, int64_t start, int64_t stop, REAL *d_hidden, REAL *d_memory,
                        REAL *out, REAL *carry, int64_t threads) {
  NAME(Task) task = {block, weights, start, stop, 0, 0, NULL, d_hidden, d_memory, out, carry};
  split(NAME(sweep_rows), &task, 0, block->places, threads);
}
