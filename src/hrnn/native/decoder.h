/* A decoder of two layers and its gradient, included once for each type behind records.h. n summaries, m indices each. */

typedef struct {
  int64_t n, m, summary, units, outputs, tokens;
  const REAL *w1, *b1, *index, *w2, *b2;          /* as torch has them: (units, summary), (reach, units), (outputs, units) */
  REAL *d_w1, *d_b1, *d_index, *d_w2, *d_b2;      /* added to */
  const REAL *summaries;                          /* (n, summary) */
  const int64_t *indices;                         /* (m, n), from 1 */
  const void *targets;                            /* (m, n) tokens, int64_t, or vectors (m, n, outputs) */
  const int64_t *ticks;                           /* (n), how many indices count, or none: all */
  const REAL *weights;                            /* (n) */
  const REAL *symbols;                            /* (outputs), what each token counts for, or none: 1 */
  REAL *values, *d_summaries;                     /* (n), (n, summary) */
  REAL *room;
} NAME(Decoding);

/* Numbers that `decode` needs as room. */
EXPORT int64_t NAME(decode_room)(int64_t n, int64_t summary, int64_t units, int64_t outputs) {
  return NAME(packed_size)(summary, units) + NAME(packed_size)(units, summary) + NAME(packed_size)(units, outputs) +
         NAME(packed_size)(outputs, units) + NAME(packed_size)(n, units) + NAME(packed_size)(n, summary) +
         n * (4 * units + outputs);
}

/* y, a row of logits, to the gradient of the cross-entropy, which is returned. */
INLINE REAL NAME(cross_entropy)(int64_t outputs, int64_t target, REAL *restrict y, REAL weight) {
  REAL top = y[0], sum = 0;
  if ((uint64_t)target >= (uint64_t)outputs) return NAN; /* it was in range when it was checked */
  for (int64_t o = 1; o < outputs; o++) top = y[o] > top ? y[o] : top;
  REAL chosen = y[target] - top;
  for (int64_t o = 0; o < outputs; o++) {
    REAL power, rest = SPLIT(y[o] - top, &power);
    y[o] = power * rest + power;
    sum += y[o];
  }
  REAL scale = weight / sum;
  for (int64_t o = 0; o < outputs; o++) y[o] *= scale;
  y[target] -= weight;
  return (REAL)logl((long double)sum) - chosen;
}

INLINE REAL NAME(squared_error)(int64_t outputs, const REAL *restrict target, REAL *restrict y, REAL weight) {
  REAL sum = 0, scale = 2 * weight / outputs;
  for (int64_t o = 0; o < outputs; o++) {
    REAL off = y[o] - target[o];
    sum += off * off;
    y[o] = off * scale;
  }
  return sum / outputs;
}

EXPORT void NAME(decode)(const NAME(Decoding) *d) {
  int64_t n = d->n, m = d->m, size = d->summary, units = d->units, outputs = d->outputs;
  REAL *w1_forth = d->room, *w1_back = w1_forth + NAME(packed_size)(size, units);
  REAL *w2_forth = w1_back + NAME(packed_size)(units, size), *w2_back = w2_forth + NAME(packed_size)(units, outputs);
  REAL *packed = w2_back + NAME(packed_size)(outputs, units), *packed_summaries = packed + NAME(packed_size)(n, units);
  REAL *base = packed_summaries + NAME(packed_size)(n, size), *z = base + n * units, *dz = z + n * units;
  REAL *total = dz + n * units, *y = total + n * units; /* total: of the first layer, over indices */
  NAME(pack)(size, units, d->w1, 1, size, w1_forth);
  NAME(pack)(units, size, d->w1, size, 1, w1_back);
  NAME(pack)(units, outputs, d->w2, 1, units, w2_forth);
  NAME(pack)(outputs, units, d->w2, units, 1, w2_back);
  for (int64_t b = 0; b < n; b++) memcpy(base + b * units, d->b1, units * sizeof(REAL));
  NAME(by_rows)(n, units, size, d->summaries, size, w1_forth, base, units);
  memset(total, 0, n * units * sizeof(REAL));
  memset(d->values, 0, n * sizeof(REAL));
  for (int64_t j = 0; j < m; j++) {
    const int64_t *index = d->indices + j * n;
    for (int64_t b = 0; b < n; b++) {
      const REAL *restrict from = base + b * units, *restrict add = d->index + (index[b] - 1) * units;
      REAL *restrict to = z + b * units;
      VECTORISE for (int64_t u = 0; u < units; u++) {
        REAL x = from[u] + add[u];
        to[u] = x < 0 ? 0 : x;
      }
      memcpy(y + b * outputs, d->b2, outputs * sizeof(REAL));
    }
    NAME(by_rows)(n, outputs, units, z, units, w2_forth, y, outputs);
    for (int64_t b = 0; b < n; b++) {
      REAL share = 1, *row = y + b * outputs;
      if (m > 1) {
        int64_t count = d->ticks && d->ticks[b] < m ? d->ticks[b] : m;
        share = index[b] <= count ? (REAL)1 / count : 0;
      }
      REAL value;
      if (d->tokens) {
        int64_t target = ((const int64_t *)d->targets)[j * n + b];
        if (d->symbols && (uint64_t)target < (uint64_t)outputs) share *= d->symbols[target];
        value = NAME(cross_entropy)(outputs, target, row, share * d->weights[b]);
      } else {
        value = NAME(squared_error)(outputs, (const REAL *)d->targets + (j * n + b) * outputs, row, share * d->weights[b]);
      }
      d->values[b] += share * value;
      for (int64_t o = 0; o < outputs; o++) d->d_b2[o] += row[o];
    }
    NAME(pack)(n, units, z, units, 1, packed);
    NAME(by_columns)(outputs, units, n, y, outputs, packed, d->d_w2, units);
    memset(dz, 0, n * units * sizeof(REAL));
    NAME(by_rows)(n, units, outputs, y, outputs, w2_back, dz, units);
    for (int64_t b = 0; b < n; b++) {
      const REAL *restrict active = z + b * units, *restrict from = dz + b * units;
      REAL *restrict sum = total + b * units, *restrict of_index = d->d_index + (index[b] - 1) * units;
      VECTORISE for (int64_t u = 0; u < units; u++) {
        REAL g = active[u] > 0 ? from[u] : 0 * from[u];
        sum[u] += g;
        of_index[u] += g;
      }
    }
  }
  for (int64_t b = 0; b < n; b++)
    for (int64_t u = 0; u < units; u++) d->d_b1[u] += total[b * units + u];
  NAME(pack)(n, size, d->summaries, size, 1, packed_summaries);
  NAME(by_columns)(units, size, n, total, units, packed_summaries, d->d_w1, size);
  memset(d->d_summaries, 0, n * size * sizeof(REAL));
  NAME(by_rows)(n, size, units, total, units, w1_back, d->d_summaries, size);
}
