/* Activations, and products with packed weights. Included once for each type: REAL, NAME(x) and SPLIT are defined. */

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

/* What the activations make of n numbers, for tests. */
EXPORT void NAME(activations)(int64_t n, const REAL *x, REAL *sigmoids, REAL *tanhs) {
  for (int64_t j = 0; j < n; j++) {
    sigmoids[j] = NAME(sigmoid)(x[j]);
    tanhs[j] = NAME(tanh)(x[j]);
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
