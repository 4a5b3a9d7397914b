/* One step of a stream: every level that ticks, from the top down, for a few rows that are all at the same place.
 *
 * Included once for each type, behind products.h. Products are dot products along the rows of torch's own weights: nothing is packed,
 * so nothing can be out of date. */

#ifndef HRNN_STEP_ONCE
#define HRNN_STEP_ONCE
#define STEP_UNITS 16 /* whose gates are computed before their activations */
#define STEP_LARGEST (INT64_MAX / 2)

/* Words of 64 bits, as they are packed in Python; addresses are words too. */
typedef struct {
  int64_t kind, inputs, context, hidden, period; /* context and period: 0 at the top */
  int64_t weight_input, weight_context, weight_hidden, bias, bias_hidden;
} step_cell;

typedef struct {
  int64_t levels, tokens;
  step_cell cells[];
} step_model;

typedef struct {
  int64_t h, c, new_h, new_c, history, new_history;
} step_state;

typedef struct {
  int64_t rows, ticking, finite, x, output, row, ticked, position, span, ordinal, skipped, new_position, new_span, new_ordinal;
  step_state states[];
} step_call;

static int step_outside(int64_t address, int64_t count, int64_t largest) {
  const int64_t *numbers = (const int64_t *)(intptr_t)address;
  int outside = 0;
  for (int64_t i = 0; i < count; i++) outside |= numbers[i] < 0 || numbers[i] > largest;
  return outside;
}

/* The highest level that ticks, every segment below it starting; -1 where rows or numbers are not as they should be. */
static int64_t step_ticking(const step_model *model, const step_call *call) {
  const int64_t below = model->levels - 1, rows = call->rows;
  const int64_t *position = (const int64_t *)(intptr_t)call->position;
  const uint8_t *ticked = (const uint8_t *)(intptr_t)call->ticked;
  if (step_outside(call->row, rows, STEP_LARGEST) || step_outside(call->span, rows * below, STEP_LARGEST) ||
      step_outside(call->ordinal, rows * below, STEP_LARGEST) || step_outside(call->skipped, rows * below, STEP_LARGEST))
    return -1;
  for (int64_t i = 0; i < rows * below; i++)
    if (ticked[i] || position[i] != position[i % below]) return -1;
  for (int64_t i = 0; i < below; i++)
    if (position[i] < 0 || position[i] >= model->cells[i].period) return -1;
  for (int64_t i = 0; i < below; i++)
    if (position[i]) return i;
  return below;
}

static void step_clock(const step_model *model, const step_call *call) {
  const int64_t below = model->levels - 1;
  const int64_t *position = (const int64_t *)(intptr_t)call->position, *span = (const int64_t *)(intptr_t)call->span;
  const int64_t *ordinal = (const int64_t *)(intptr_t)call->ordinal;
  int64_t *new_position = (int64_t *)(intptr_t)call->new_position, *new_span = (int64_t *)(intptr_t)call->new_span;
  int64_t *new_ordinal = (int64_t *)(intptr_t)call->new_ordinal; /* none where no segment starts */
  for (int64_t i = 0; i < call->rows * below; i++) {
    const int64_t level = i % below, starts = level < call->ticking;
    new_position[i] = (starts ? 1 : position[i] + (level == call->ticking)) % model->cells[level].period;
    new_span[i] = starts ? 1 : span[i] + 1;
    if (new_ordinal) new_ordinal[i] = ordinal[i] + starts;
  }
}

/* The inputs of a segment so far, with those of this tick; nothing, if they are the segment's last. */
static void step_remember(char *after, const char *before, const char *inputs, int64_t place, int64_t reach, int64_t size) {
  if (place + 1 == reach) place = -1;
  if (place > 0) memcpy(after, before, (size_t)(place * size));
  if (place >= 0) memcpy(after + place * size, inputs, (size_t)size);
  memset(after + (place + 1) * size, 0, (size_t)((reach - place - 1) * size));
}
#endif

/* sums[g] += weights[g * apart] . x */
INLINE void NAME(step_add)(
    NAME(vector) * sums, REAL *rest, const int gates, const REAL *weights, int64_t apart, const REAL *x, int64_t count) {
  int64_t k = 0;
  for (; k + NAME(lanes) <= count; k += NAME(lanes)) {
    const NAME(vector) v = *(const NAME(vector) *)(x + k);
    UNROLL for (int g = 0; g < gates; g++) sums[g] += v * *(const NAME(vector) *)(weights + g * apart + k);
  }
  for (; k < count; k++)
    for (int g = 0; g < gates; g++) rest[g] += x[k] * weights[g * apart + k];
}

/* What enters the gates of one unit. `entering` gates from `first_in` have an input, a context and a bias, `recurrent` gates from
   the first on have a recurrent product. */
INLINE void NAME(step_gates)(
    REAL *out, const step_cell *cell, const int gates, const int first_in, const int entering, const int recurrent, int64_t unit,
    const REAL *inputs, const int64_t *token, const REAL *context, const REAL *h) {
  const int64_t size = cell->hidden;
  const REAL *weight_input = (const REAL *)(intptr_t)cell->weight_input, *bias = (const REAL *)(intptr_t)cell->bias;
  const REAL *weight_context = (const REAL *)(intptr_t)cell->weight_context;
  const REAL *weight_hidden = (const REAL *)(intptr_t)cell->weight_hidden;
  NAME(vector) sums[4];
  REAL rest[4];
  for (int g = 0; g < gates; g++) sums[g] = (NAME(vector)){0}, rest[g] = 0;
  for (int g = 0; g < entering; g++) rest[first_in + g] = bias[g * size + unit];
  if (token)
    for (int g = 0; g < entering; g++) rest[first_in + g] += weight_input[(g * size + unit) * cell->inputs + *token];
  else
    NAME(step_add)(sums + first_in, rest + first_in, entering, weight_input + unit * cell->inputs, size * cell->inputs, inputs,
                   cell->inputs);
  if (context)
    NAME(step_add)(sums + first_in, rest + first_in, entering, weight_context + unit * cell->context, size * cell->context,
                   context, cell->context);
  if (h) NAME(step_add)(sums, rest, recurrent, weight_hidden + unit * size, size * size, h, size);
  for (int g = 0; g < gates; g++) {
    REAL lane[NAME(lanes)];
    memcpy(lane, &sums[g], sizeof lane);
    for (int half = NAME(lanes) / 2; half; half /= 2)
      for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    out[g * STEP_UNITS] = rest[g] + lane[0];
  }
}

/* One tick of all rows. `fresh`: from zero; then `context` may be given. */
static void NAME(step_tick)(const step_cell *cell, int64_t rows, const REAL *x, const int64_t *tokens, const REAL *context, int fresh,
                            const step_state *state) {
  const int64_t size = cell->hidden;
  const REAL *h = (const REAL *)(intptr_t)state->h, *c = (const REAL *)(intptr_t)state->c;
  const REAL *bias_hidden = (const REAL *)(intptr_t)cell->bias_hidden;
  REAL *new_h = (REAL *)(intptr_t)state->new_h, *new_c = (REAL *)(intptr_t)state->new_c;
  for (int64_t start = 0; start < size; start += STEP_UNITS) {
    const int count = (int)(size - start < STEP_UNITS ? size - start : STEP_UNITS);
    for (int64_t b = 0; b < rows; b++) { /* the units' weights stay in the cache for all rows */
      REAL gates[4 * STEP_UNITS] = {0}, hidden[STEP_UNITS], before[STEP_UNITS] = {0};
      const REAL *in = x ? x + b * cell->inputs : 0, *above = context ? context + b * cell->context : 0;
      const int64_t *token = tokens ? tokens + b : 0, at = b * size + start;
      const REAL *old = fresh ? 0 : h + b * size;
      for (int u = 0; u < count; u++) {
        REAL *out = gates + u;
        if (cell->kind == LSTM) NAME(step_gates)(out, cell, 4, 0, 4, 4, start + u, in, token, above, old);
        if (cell->kind == GRU) NAME(step_gates)(out, cell, 4, 1, 3, 3, start + u, in, token, above, old);
        if (cell->kind == RNN) NAME(step_gates)(out, cell, 1, 0, 1, 1, start + u, in, token, above, old);
      }
      const REAL *first = gates, *second = gates + STEP_UNITS, *third = gates + 2 * STEP_UNITS, *fourth = gates + 3 * STEP_UNITS;
      if (cell->kind == LSTM) { /* input, forget, candidate, output */
        REAL memory[STEP_UNITS];
        if (!fresh) memcpy(before, c + at, (size_t)count * sizeof(REAL));
        for (int u = 0; u < STEP_UNITS; u++)
          memory[u] = NAME(sigmoid)(second[u]) * before[u] + NAME(sigmoid)(first[u]) * NAME(tanh)(third[u]);
        for (int u = 0; u < STEP_UNITS; u++) hidden[u] = NAME(sigmoid)(fourth[u]) * NAME(tanh)(memory[u]);
        memcpy(new_c + at, memory, (size_t)count * sizeof(REAL));
      } else if (cell->kind == GRU) { /* recurrent part of the candidate, reset, update, entering part */
        REAL own[STEP_UNITS] = {0};
        memcpy(own, bias_hidden + start, (size_t)count * sizeof(REAL));
        if (!fresh) memcpy(before, h + at, (size_t)count * sizeof(REAL));
        for (int u = 0; u < STEP_UNITS; u++) {
          const REAL n = NAME(tanh)(fourth[u] + NAME(sigmoid)(second[u]) * (first[u] + own[u]));
          hidden[u] = n + NAME(sigmoid)(third[u]) * (before[u] - n);
        }
      } else {
        for (int u = 0; u < STEP_UNITS; u++) hidden[u] = NAME(tanh)(first[u]);
      }
      memcpy(new_h + at, hidden, (size_t)count * sizeof(REAL));
    }
  }
}

/* 0 when it is done; 1, with nothing of use written, where something is not in order: Python then finds out what. */
EXPORT int64_t NAME(step)(const step_model *model, const step_call *call) {
  const int64_t rows = call->rows, ticking = call->ticking;
  const int64_t *tokens = model->tokens ? (const int64_t *)(intptr_t)call->x : 0;
  const REAL *x = model->tokens ? 0 : (const REAL *)(intptr_t)call->x;
  const step_cell *lowest = model->cells;
  if (step_ticking(model, call) != ticking) return 1;
  if (tokens && step_outside(call->x, rows, lowest->inputs - 1)) return 1;
  if (tokens && call->states[0].history && step_outside(call->states[0].history, rows * lowest->period, lowest->inputs - 1))
    return 1;
  if (x && call->finite)
    for (int64_t i = 0; i < rows * lowest->inputs; i++)
      if (x[i] - x[i] != 0) return 1;
  const int64_t *position = (const int64_t *)(intptr_t)call->position;
  const REAL *context = 0;
  for (int64_t i = ticking; i >= 0; i--) {
    const step_cell *cell = model->cells + i;
    const step_state *state = call->states + i;
    const REAL *inputs = i ? (const REAL *)(intptr_t)call->states[i - 1].h : x;
    NAME(step_tick)(cell, rows, inputs, i ? 0 : tokens, context, i < ticking, state);
    context = (const REAL *)(intptr_t)state->new_h;
    if (state->new_history) {
      const char *from = inputs ? (const char *)inputs : (const char *)tokens;
      const int64_t width = inputs ? cell->inputs * (int64_t)sizeof(REAL) : (int64_t)sizeof(int64_t);
      step_remember((char *)(intptr_t)state->new_history, (const char *)(intptr_t)state->history, from,
                    i < ticking ? 0 : position[i], cell->period, rows * width);
    }
  }
  memcpy((void *)(intptr_t)call->output, context, (size_t)(rows * lowest->hidden) * sizeof(REAL));
  step_clock(model, call);
  return 0;
}
