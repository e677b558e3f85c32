/* Hines solvers for CPUs, the baseline of bench/peers.py, built by the user's own compiler with
 *
 *     cc -O3 -march=native -fopenmp -shared -fPIC -DREAL=double hines.c
 *
 * But for `serial`, all cells of a batch have `n` nodes, numbered depth first with the largest subtree
 * last, so that the parent of node i is i - 1 but at the start of a branch. A *block* is LANES cells side by
 * side: number i of lane l is at i * LANES + l. Inputs are read once and x is written once, past
 * the caches where the processor can; factors stay in scratch of one block a thread.
 *
 * They return 0, or 1 where there was no memory for the scratch.
 */
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#define BYTES 64                           /* of a vector: the compiler splits it where needed */
#define WIDTH ((int)(BYTES / sizeof(REAL))) /* cells of a block of different trees */
#define PAIR 2                             /* vectors of a block of equal trees */

typedef REAL vec __attribute__((vector_size(BYTES)));

static inline void stream(vec *to, vec value)
{
#if defined(__AVX512F__)
    _mm512_stream_si512((__m512i *)to, (__m512i)value);
#elif defined(__AVX__)
    const __m256i *half = (const __m256i *)&value;
    _mm256_stream_si256((__m256i *)to, half[0]);
    _mm256_stream_si256((__m256i *)to + 1, half[1]);
#else
    *to = value;
#endif
}

/* Ask for the row eight below `at`: backwards, not every processor sees it coming. */
static inline void ahead(const vec *a, size_t at, int row)
{
    __builtin_prefetch((const char *)a + ((intptr_t)at - 8 * row) * BYTES);
}

static void *scratch(size_t bytes)
{
    void *p = NULL;
    return posix_memalign(&p, 4096, bytes) ? NULL : p;
}

/* No thread without a block: waking one takes longer than solving a small batch. */
static int threads(int blocks)
{
    const int most = omp_get_max_threads();
    return blocks < most ? blocks : most;
}

/* ---- textbook: one cell after another, natural order, in place (d, b are destroyed) ---------- */

/* Cells of any sizes: cell c has the nodes begin[c] to begin[c + 1] and is of shape shape[c], whose
 * parents, counted within the cell, start at parents + row[shape[c]]. Threads share out the cells. */
int serial(int cells, int threads, const int64_t *begin, const int *shape, const int64_t *row,
           const int *parents, REAL *d, const REAL *u, REAL *b)
{
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int c = 0; c < cells; c++) {
        const int *p = parents + row[shape[c]];
        const int n = (int)(begin[c + 1] - begin[c]);
        REAL *D = d + begin[c], *B = b + begin[c];
        const REAL *U = u + begin[c];
        for (int i = n - 1; i > 0; i--) {
            const REAL f = U[i] / D[i];
            D[p[i]] -= f * U[i];
            B[p[i]] -= f * B[i];
        }
        B[0] /= D[0];
        for (int i = 1; i < n; i++)
            B[i] = (B[i] - U[i] * B[p[i]]) / D[i];
    }
    return 0;
}

/* ---- blocks of equal trees --------------------------------------------------------------------
 * Sums for parents that are still to come, and values of parents whose later subtrees are still to
 * come, lie on a stack of at most log2(n) entries. What happens at a node is in `code`:
 */
enum { WAITS = 1,   /* has further children, beside the one that is the next node */
       FURTHER = 2, /* is a further child */
       LAST = 4     /* is the last of its siblings: the first that the backward sweep meets */ };

static void equal_block(int n, const uint8_t *code, const vec *d, const vec *u, const vec *b,
                        vec *x, vec *factor, vec *stack)
{
    vec down_d[PAIR] = {0}, down_b[PAIR] = {0};
    vec *top = stack, *f = factor + (size_t)n * 2 * PAIR;
    for (int i = n - 1; i >= 0; i--) {
        const int what = code[i];
        const size_t at = (size_t)i * PAIR;
        f -= 2 * PAIR;
        if (what & WAITS) {
            top -= 2 * PAIR;
            for (int k = 0; k < PAIR; k++) {
                down_d[k] += top[k];
                down_b[k] += top[PAIR + k];
            }
        }
        for (int k = 0; k < PAIR; k++) {
            ahead(d, at + k, PAIR);
            ahead(u, at + k, PAIR);
            ahead(b, at + k, PAIR);
            const vec ui = u[at + k], bi = b[at + k] - down_b[k];
            const vec inv = (REAL)1 / (d[at + k] - down_d[k]), fi = ui * inv;
            f[k] = fi;
            f[PAIR + k] = bi * inv;
            down_d[k] = fi * ui;
            down_b[k] = fi * bi;
        }
        if (what & FURTHER) {
            if (what & LAST) {
                memset(top, 0, 2 * PAIR * sizeof(vec));
                top += 2 * PAIR;
            }
            for (int k = 0; k < PAIR; k++) {
                top[k - 2 * PAIR] += down_d[k];
                top[k - PAIR] += down_b[k];
                down_d[k] = down_b[k] = (vec){0};
            }
        }
    }
    vec xp[PAIR] = {0};
    top = stack;
    for (int i = 0; i < n; i++, f += 2 * PAIR) {
        const int what = code[i];
        if (what & FURTHER) {
            for (int k = 0; k < PAIR; k++)
                xp[k] = top[k - PAIR];
            if (what & LAST)
                top -= PAIR;
        }
        for (int k = 0; k < PAIR; k++) {
            xp[k] = f[PAIR + k] - f[k] * xp[k];
            stream(x + (size_t)i * PAIR + k, xp[k]);
        }
        if (what & WAITS) {
            for (int k = 0; k < PAIR; k++)
                top[k] = xp[k];
            top += PAIR;
        }
    }
}

/* `code` has a row of n a shape, `shape` one number a block; `depth` bounds the stack. */
int equal(int blocks, int n, int depth, const uint8_t *code, const int *shape, const REAL *d,
          const REAL *u, const REAL *b, REAL *x)
{
    int failed = 0;
#pragma omp parallel num_threads(threads(blocks)) reduction(| : failed)
    {
        const size_t size = (size_t)n * PAIR;
        vec *f = scratch((2 * size + (size_t)(depth + 1) * 2 * PAIR) * sizeof(vec));
        failed = !f;
#pragma omp for schedule(static)
        for (int k = 0; k < blocks; k++)
            if (f)
                equal_block(n, code + (size_t)shape[k] * n, (const vec *)d + k * size,
                            (const vec *)u + k * size, (const vec *)b + k * size,
                            (vec *)x + k * size, f, f + 2 * size);
        free(f);
    }
    return failed;
}

/* ---- blocks of different trees ----------------------------------------------------------------
 * Step i is node i of every lane. Own numbers are whole vectors; only at starts of branches do
 * single lanes reach for a parent elsewhere: `starts` has a bit a lane for those, `waits` a bit for
 * the lanes whose node has further children.
 */
static inline vec only(vec a, unsigned lanes)
{
#if defined(__AVX512F__)
    return sizeof(REAL) == 8 ? (vec)_mm512_maskz_mov_pd(lanes, (__m512d)a)
                             : (vec)_mm512_maskz_mov_ps(lanes, (__m512)a);
#else
    for (int l = 0; l < WIDTH; l++)
        a[l] = lanes >> l & 1 ? a[l] : 0;
    return a;
#endif
}

static inline vec parents_of(vec other, unsigned lanes, const REAL *x, const int *parent)
{
#if defined(__AVX512F__)
    if (sizeof(REAL) == 8)
        return (vec)_mm512_mask_i32gather_pd((__m512d)other, lanes,
                                             _mm256_loadu_si256((const void *)parent), x, 8);
    return (vec)_mm512_mask_i32gather_ps((__m512)other, lanes, _mm512_loadu_si512(parent), x, 4);
#else
    for (; lanes; lanes &= lanes - 1) {
        const int l = __builtin_ctz(lanes);
        other[l] = x[parent[l]];
    }
    return other;
#endif
}

/* `parent` holds where the parent's numbers lie: its index times WIDTH, plus the lane. */
static void different_block(int n, const int *parent, const uint16_t *starts, const uint16_t *waits,
                            const vec *d, const vec *u, const vec *b, vec *x, vec *f, vec *g,
                            vec *sum)
{
    vec down_d = {0}, down_b = {0};
    for (int i = n - 1; i >= 0; i--) {
        ahead(d, i, 1);
        ahead(u, i, 1);
        ahead(b, i, 1);
        vec dd = d[i] - down_d, bb = b[i] - down_b;
        if (waits[i]) {
            dd -= sum[2 * i];
            bb -= sum[2 * i + 1];
            sum[2 * i] = sum[2 * i + 1] = (vec){0};
        }
        const vec inv = (REAL)1 / dd, fi = u[i] * inv;
        f[i] = fi;
        g[i] = bb * inv;
        down_d = fi * u[i];
        down_b = fi * bb;
        unsigned lanes = starts[i];
        if (lanes) {
            REAL up_d[WIDTH], up_b[WIDTH];
            memcpy(up_d, &down_d, BYTES);
            memcpy(up_b, &down_b, BYTES);
            down_d = only(down_d, ~lanes);
            down_b = only(down_b, ~lanes);
            for (; lanes; lanes &= lanes - 1) {
                const int l = __builtin_ctz(lanes), at = parent[i * WIDTH + l];
                REAL *to = (REAL *)(sum + 2 * (at / WIDTH)) + l;
                to[0] += up_d[l];
                to[WIDTH] += up_b[l];
            }
        }
    }
    vec xp = {0};
    for (int i = 0; i < n; i++) {
        if (starts[i])
            xp = parents_of(xp, starts[i], (const REAL *)g, parent + i * WIDTH);
        xp = g[i] - f[i] * xp;
        if (waits[i])
            g[i] = xp;
        stream(x + i, xp);
    }
}

int different(int blocks, int n, const int *parent, const uint16_t *starts, const uint16_t *waits,
              const REAL *d, const REAL *u, const REAL *b, REAL *x)
{
    int failed = 0;
#pragma omp parallel num_threads(threads(blocks)) reduction(| : failed)
    {
        const size_t size = n;
        vec *f = scratch(4 * size * sizeof(vec));
        failed = !f;
        if (f)
            memset(f, 0, 4 * size * sizeof(vec));
#pragma omp for schedule(static)
        for (int k = 0; k < blocks; k++)
            if (f)
                different_block(n, parent + k * size * WIDTH, starts + k * size, waits + k * size,
                                (const vec *)d + k * size, (const vec *)u + k * size,
                                (const vec *)b + k * size, (vec *)x + k * size, f, f + size,
                                f + 2 * size);
        free(f);
    }
    return failed;
}
