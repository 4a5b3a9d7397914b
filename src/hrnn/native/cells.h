/* One tick of each cell, forward and backward, after its products; included once for each type behind products.h. */

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

/* d_before, if it is wanted: the gradient of the state before the tick, as far as it does not go through the gates, is added. */
static void NAME(derive_gru)(int64_t rows, int64_t size, const REAL *gates, const REAL *before, const REAL *d_state,
                             REAL *d_before, REAL *out) {
  for (int64_t b = 0; b < rows; b++) {
    const REAL *g = gates + b * 4 * size, *old = before + b * size, *dh = d_state + b * size;
    REAL *to = out + b * 4 * size;
    if (d_before) {
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
