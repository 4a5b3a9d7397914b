/* Included once for each type: REAL, NAME(x) and SPLIT are defined. */

/* -- Activations -- */

INLINE REAL NAME(sigmoid)(REAL x) {
  REAL power, rest = SPLIT(-x, &power);
  return 1 / (1 + (power * rest + power));
}

INLINE REAL NAME(tanh)(REAL x) { /* by e^2x - 1, which keeps its digits where x is small */
  REAL power, rest = SPLIT(2 * x, &power);
  REAL less = power * rest + (power - 1);
  return less / (less + 2);
}

/* -- Products with packed weights -- */

typedef REAL NAME(vector) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL))));
enum { NAME(lanes) = VECTOR_BYTES / sizeof(REAL), NAME(panel) = 2 * NAME(lanes) };

/* How many numbers a matrix of k rows and n columns takes: panels of two vectors' columns, the last filled up with zeros. */
INLINE int64_t NAME(packed_size)(int64_t k, int64_t n) { return k * ((n + NAME(panel) - 1) / NAME(panel)) * NAME(panel); }

/* Entry (i, j) is w[i * down + j * right]. */
static void NAME(pack)(int64_t k, int64_t n, const REAL *w, int64_t down, int64_t right, REAL *out) {
  for (int64_t from = 0; from < n; from += NAME(panel)) {
    int64_t columns = n - from < NAME(panel) ? n - from : NAME(panel);
    REAL *to = out + from * k;
    if (columns < NAME(panel)) memset(to, 0, k * NAME(panel) * sizeof(REAL));
    if (right == 1) {
      for (int64_t i = 0; i < k; i++) memcpy(to + i * NAME(panel), w + i * down + from, columns * sizeof(REAL));
    } else {
      for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < k; i++) to[i * NAME(panel) + j] = w[i * down + (from + j) * right];
    }
  }
}

/* c (rows, panel) += a (rows, k) p (k, panel); entry (i, l) of a is a[i * down + l * right]. */
INLINE void NAME(tile)(int rows, int64_t k, const REAL *a, int64_t down, int64_t right, const REAL *p, REAL *c, int64_t width) {
  NAME(vector) left[TILE_ROWS], rest[TILE_ROWS];
  UNROLL for (int i = 0; i < rows; i++) {
    left[i] = *(const NAME(vector) *)(c + i * width);
    rest[i] = *(const NAME(vector) *)(c + i * width + NAME(lanes));
  }
  for (int64_t l = 0; l < k; l++) {
    NAME(vector) p0 = *(const NAME(vector) *)(p + l * NAME(panel)), p1 = *(const NAME(vector) *)(p + l * NAME(panel) + NAME(lanes));
    UNROLL for (int i = 0; i < rows; i++) {
      REAL x = a[i * down + l * right];
      left[i] += x * p0;
      rest[i] += x * p1;
    }
  }
  UNROLL for (int i = 0; i < rows; i++) {
    *(NAME(vector) *)(c + i * width) = left[i];
    *(NAME(vector) *)(c + i * width + NAME(lanes)) = rest[i];
  }
}

INLINE void NAME(tiles)(int rows, int64_t k, const REAL *a, int64_t down, int64_t right, const REAL *p, REAL *c, int64_t width) {
  switch (rows) { /* a loop for each number of rows: they stay in registers */
    case 1: NAME(tile)(1, k, a, down, right, p, c, width); break;
    case 2: NAME(tile)(2, k, a, down, right, p, c, width); break;
    case 3: NAME(tile)(3, k, a, down, right, p, c, width); break;
    case 4: NAME(tile)(4, k, a, down, right, p, c, width); break;
    case 5: NAME(tile)(5, k, a, down, right, p, c, width); break;
    case 6: NAME(tile)(6, k, a, down, right, p, c, width); break;
#if TILE_ROWS > 6
    case 7: NAME(tile)(7, k, a, down, right, p, c, width); break;
    case 8: NAME(tile)(8, k, a, down, right, p, c, width); break;
    case 9: NAME(tile)(9, k, a, down, right, p, c, width); break;
    case 10: NAME(tile)(10, k, a, down, right, p, c, width); break;
    case 11: NAME(tile)(11, k, a, down, right, p, c, width); break;
    case 12: NAME(tile)(12, k, a, down, right, p, c, width); break;
#endif
  }
}

/* c (m, n) += a (m, k) times a packed matrix (k, n). What becomes of a row does not depend on the other rows. */
INLINE void NAME(product)(int64_t m, int64_t n, int64_t k, const REAL *a, int64_t down, int64_t right, const REAL *packed, REAL *c,
                          int64_t width) {
  int64_t blocks = (m + TILE_ROWS - 1) / TILE_ROWS;
  REAL edge[TILE_ROWS * NAME(panel)];
  for (int64_t from = 0; from < k; from += DEPTH) {
    int64_t depth = k - from < DEPTH ? k - from : DEPTH;
    for (int64_t column = 0; column < n; column += NAME(panel)) {
      const REAL *p = packed + column * k + from * NAME(panel);
      int64_t columns = n - column < NAME(panel) ? n - column : NAME(panel);
      for (int64_t block = 0, row = 0; block < blocks; block++) {
        int rows = (int)((m - row + blocks - block - 1) / (blocks - block)); /* about equal ones */
        const REAL *from_a = a + row * down + from * right;
        REAL *to = c + row * width + column;
        if (columns == NAME(panel)) {
          NAME(tiles)(rows, depth, from_a, down, right, p, to, width);
        } else {
          memset(edge, 0, sizeof edge);
          for (int i = 0; i < rows; i++) memcpy(edge + i * NAME(panel), to + i * width, columns * sizeof(REAL));
          NAME(tiles)(rows, depth, from_a, down, right, p, edge, NAME(panel));
          for (int i = 0; i < rows; i++) memcpy(to + i * width, edge + i * NAME(panel), columns * sizeof(REAL));
        }
        row += rows;
      }
    }
  }
}

static void NAME(by_rows)(int64_t m, int64_t n, int64_t k, const REAL *a, int64_t down, const REAL *packed, REAL *c, int64_t width) {
  NAME(product)(m, n, k, a, down, 1, packed, c, width);
}

/* The product with a's transpose: a is (k, m). */
static void NAME(by_columns)(int64_t m, int64_t n, int64_t k, const REAL *a, int64_t right, const REAL *packed, REAL *c,
                             int64_t width) {
  NAME(product)(m, n, k, a, 1, right, packed, c, width);
}

/* -- One tick of some rows, after the products -- */

static void NAME(activate_lstm)(int64_t rows, int64_t size, REAL *gates, const REAL *memory, REAL *state, REAL *after) {
  for (int64_t b = 0; b < rows; b++) {
    REAL *restrict i = gates + b * 4 * size, *restrict f = i + size, *restrict g = f + size, *restrict o = g + size;
    const REAL *restrict c = memory + b * size;
    REAL *restrict h = state + b * size, *restrict next = after + b * size;
    VECTORISE for (int64_t j = 0; j < size; j++) {
      REAL in = NAME(sigmoid)(i[j]), keep = NAME(sigmoid)(f[j]), new = NAME(tanh)(g[j]), out = NAME(sigmoid)(o[j]);
      REAL sum = keep * c[j] + in * new, squashed = NAME(tanh)(sum);
      i[j] = in, f[j] = keep, g[j] = new, o[j] = out;
      next[j] = sum, h[j] = out * squashed;
    }
  }
}

static void NAME(activate_gru)(int64_t rows, int64_t size, REAL *gates, const REAL *before, REAL *state) {
  for (int64_t b = 0; b < rows; b++) {
    REAL *restrict m = gates + b * 4 * size, *restrict r = m + size, *restrict z = r + size, *restrict n = z + size;
    const REAL *restrict old = before + b * size;
    REAL *restrict h = state + b * size;
    VECTORISE for (int64_t j = 0; j < size; j++) {
      REAL reset = NAME(sigmoid)(r[j]), keep = NAME(sigmoid)(z[j]), new = NAME(tanh)(n[j] + reset * m[j]);
      r[j] = reset, z[j] = keep, n[j] = new;
      h[j] = new + keep * (old[j] - new);
    }
  }
}

static void NAME(activate_rnn)(int64_t rows, int64_t size, REAL *gates, REAL *state) {
  VECTORISE for (int64_t j = 0; j < rows * size; j++) state[j] = gates[j] = NAME(tanh)(gates[j]);
}

/* Backward through one tick: from the gradient of the state after it to that of the gates' inputs, which may take the gates'
 * own place. An LSTM's d_memory is the gradient of its c, and goes on to the tick before; its tanh(c) is computed again. */
static void NAME(derive_lstm)(int64_t rows, int64_t size, const REAL *gates, const REAL *memory, const REAL *after,
                              const REAL *d_state, REAL *d_memory, REAL *out) {
  for (int64_t b = 0; b < rows; b++) {
    const REAL *g = gates + b * 4 * size, *c = memory + b * size, *next = after + b * size, *dh = d_state + b * size;
    REAL *restrict dc = d_memory + b * size, *to = out + b * 4 * size;
    VECTORISE for (int64_t j = 0; j < size; j++) {
      REAL in = g[j], keep = g[size + j], new = g[2 * size + j], o = g[3 * size + j], squashed = NAME(tanh)(next[j]);
      REAL through = dc[j] + dh[j] * o * (1 - squashed * squashed);
      to[j] = through * new * in * (1 - in);
      to[size + j] = through * c[j] * keep * (1 - keep);
      to[2 * size + j] = through * in * (1 - new * new);
      to[3 * size + j] = dh[j] * squashed * o * (1 - o);
      dc[j] = through * keep;
    }
  }
}

/* d_before, if it is wanted: the gradient of the state before the tick, as far as it does not go through the gates, is added to
 * the rows that are kept. */
static void NAME(derive_gru)(int64_t rows, int64_t size, const REAL *gates, const REAL *before, const REAL *d_state,
                             const REAL *keep, REAL *d_before, REAL *out) {
  for (int64_t b = 0; b < rows; b++) {
    const REAL *g = gates + b * 4 * size, *old = before + b * size, *dh = d_state + b * size;
    REAL *to = out + b * 4 * size;
    if (d_before && (!keep || keep[b] != 0)) {
      REAL *restrict sum = d_before + b * size;
      VECTORISE for (int64_t j = 0; j < size; j++) sum[j] += dh[j] * g[2 * size + j];
    }
    VECTORISE for (int64_t j = 0; j < size; j++) {
      REAL m = g[j], r = g[size + j], z = g[2 * size + j], n = g[3 * size + j];
      REAL entering = dh[j] * (1 - z) * (1 - n * n);
      to[j] = entering * r;
      to[size + j] = entering * m * r * (1 - r);
      to[2 * size + j] = dh[j] * (old[j] - n) * z * (1 - z);
      to[3 * size + j] = entering;
    }
  }
}

static void NAME(derive_rnn)(int64_t rows, int64_t size, const REAL *gates, const REAL *d_state, REAL *out) {
  VECTORISE for (int64_t j = 0; j < rows * size; j++) out[j] = d_state[j] * (1 - gates[j] * gates[j]);
}

/* -- Blocks of ticks -- */

typedef struct {
  const Block *block;
  const Weights *weights;
  int64_t start, stop, fresh, column;
  const REAL *context;               /* (rows of a column, context) */
  REAL *d_hidden, *d_memory, *out, *carry; /* the way back */
  const REAL *keep;
  REAL *room;
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
  NAME(Task) task = {block, weights, start, stop, fresh, row, context, NULL, NULL, NULL, NULL, NULL, NULL};
  split(NAME(forward_rows), &task, row, rows, threads);
}

/* The gradient of the hidden state before a tick, as far as it goes through the gates, added to d_state. keep (rows), or none: 0
 * for rows that start there, whose state before is nobody's; then room (rows, hidden) is needed. */
static void NAME(before_tick)(const Block *block, const Weights *weights, int64_t rows, const REAL *d_gates, const REAL *keep,
                              REAL *room, REAL *d_state) {
  int64_t kind = block->kind, size = block->hidden, all = gate_blocks(kind) * size, recurrent = hidden_blocks(kind) * size;
  if (keep) memset(room, 0, rows * size * sizeof(REAL));
  NAME(by_rows)(rows, size, recurrent, d_gates, all, weights->back, keep ? room : d_state, size);
  for (int64_t b = 0; keep && b < rows; b++)
    for (int64_t j = 0; keep[b] != 0 && j < size; j++) d_state[b * size + j] += room[b * size + j];
}

static void NAME(sweep_rows)(void *given, int64_t row, int64_t rows) {
  const NAME(Task) *task = given;
  const Block *block = task->block;
  int64_t kind = block->kind, size = block->hidden, places = block->places, gates = gate_blocks(kind) * size;
  REAL *room = task->room ? task->room + row * size : NULL, *carry = task->carry ? task->carry + row * size : NULL;
  const REAL *after = block->after;
  if (carry) memset(carry, 0, rows * size * sizeof(REAL));
  for (int64_t t = task->stop - 1; t >= task->start; t--) {
    int64_t at = t * places + row, since = at - task->start * places;
    const REAL *g = (const REAL *)block->gates + at * gates;
    REAL *d_state = task->d_hidden + since * size, *out = task->out + since * gates;
    const REAL *keep = task->keep ? task->keep + since : NULL;
    if (t < task->stop - 1)
      NAME(before_tick)(block, task->weights, rows, out + places * gates, keep ? keep + places : NULL, room, d_state);
    if (kind == LSTM) {
      const REAL *c = (const REAL *)block->memory + at * size;
      NAME(derive_lstm)(rows, size, g, c, after ? after + at * size : c + places * size, d_state, task->d_memory + row * size,
                        out);
      for (int64_t b = 0; keep && b < rows; b++)
        if (keep[b] == 0) memset(task->d_memory + (row + b) * size, 0, size * sizeof(REAL));
    } else if (kind == GRU) {
      NAME(derive_gru)(rows, size, g, (const REAL *)block->states + at * size, d_state, keep,
                       t > task->start ? d_state - places * size : carry, out);
    } else {
      NAME(derive_rnn)(rows, size, g, d_state, out);
    }
  }
  if (carry)
    NAME(before_tick)(block, task->weights, rows, task->out + row * gates, task->keep ? task->keep + row : NULL, room, carry);
}

/* Backward through ticks start to stop. d_hidden (ticks, places, hidden): the gradient of the states after them, added to.
 * d_memory (places, hidden): that of an LSTM's c, carried. out (ticks, places, gates): that of the gates' inputs; it may be the
 * gates of these ticks. carry
 * (places, hidden), if it is wanted: that of the hidden state before the first tick. keep (ticks, places), or none: 0 where a
 * row starts a segment; then there is room (places, hidden). */
EXPORT void NAME(sweep)(const Block *block, const Weights *weights, int64_t start, int64_t stop, REAL *d_hidden, REAL *d_memory,
                        REAL *out, REAL *carry, const REAL *keep, REAL *room, int64_t threads) {
  NAME(Task) task = {block, weights, start, stop, 0, 0, NULL, d_hidden, d_memory, out, carry, keep, room};
  split(NAME(sweep_rows), &task, 0, block->places, threads);
}

/* -- Rows that each go their own way -- */

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

/* to[index[i]] += from[i], for rows of `columns` numbers; `to` has `lines` of them. */
EXPORT void NAME(scatter)(int64_t n, int64_t lines, int64_t columns, int64_t width, const int64_t *index, const REAL *from, REAL *to) {
  for (int64_t i = 0; i < n; i++) {
    if ((uint64_t)index[i] >= (uint64_t)lines) continue;
    REAL *restrict sum = to + index[i] * columns;
    const REAL *restrict term = from + i * width;
    VECTORISE for (int64_t j = 0; j < columns; j++) sum[j] += term[j];
  }
}

/* Numbers that `prepare` writes. vocabulary: of tokens, or 0. */
EXPORT int64_t NAME(prepared_size)(int64_t kind, int64_t size, int64_t vocabulary, int64_t input, int64_t context) {
  int64_t gates = gate_blocks(kind) * size, entered = input_blocks(kind) * size, recurrent = hidden_blocks(kind) * size;
  return (vocabulary ? vocabulary : 1) * gates + NAME(packed_size)(input, entered) + NAME(packed_size)(context, entered) +
         NAME(packed_size)(size, recurrent) + NAME(packed_size)(recurrent, size);
}

/* A cell's parameters, in torch's layout, to what its ticks read. extra: a GRU's hidden biases. input: 0 for tokens. */
EXPORT void NAME(prepare)(int64_t kind, int64_t size, int64_t vocabulary, int64_t input, int64_t context, const REAL *w_input,
                          const REAL *w_context, const REAL *w_hidden, const REAL *bias, const REAL *extra, REAL *out,
                          Weights *weights) {
  int64_t gates = gate_blocks(kind) * size, entered = input_blocks(kind) * size, recurrent = hidden_blocks(kind) * size;
  int64_t lines = vocabulary ? vocabulary : 1;
  weights->table = out;
  for (int64_t v = 0; v < lines; v++, out += gates) {
    if (extra) memcpy(out, extra, size * sizeof(REAL));
    REAL *to = out + gates - entered;
    for (int64_t j = 0; j < entered; j++) to[j] = bias[j] + (vocabulary ? w_input[j * vocabulary + v] : 0);
  }
  weights->input = out;
  if (input) NAME(pack)(input, entered, w_input, 1, input, out);
  out += NAME(packed_size)(input, entered);
  weights->context = out;
  if (context) NAME(pack)(context, entered, w_context, 1, context, out);
  out += NAME(packed_size)(context, entered);
  weights->hidden = out;
  NAME(pack)(size, recurrent, w_hidden, 1, size, out);
  out += NAME(packed_size)(size, recurrent);
  weights->back = out;
  NAME(pack)(recurrent, size, w_hidden, size, 1, out);
}

/* What the activations make of n numbers, for tests. */
EXPORT void NAME(activations)(int64_t n, const REAL *x, REAL *sigmoids, REAL *tanhs) {
  for (int64_t j = 0; j < n; j++) {
    sigmoids[j] = NAME(sigmoid)(x[j]);
    tanhs[j] = NAME(tanh)(x[j]);
  }
}
