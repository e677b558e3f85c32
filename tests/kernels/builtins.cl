// Bodies of the OpenCL functions that the kernels call, for `compile.py`: as long as a device's own
// ones, so that registers and spills are about those on a device. A device's own ones are not here.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define OF __attribute__((overloadable, always_inline))

#ifdef __AMDGCN__
size_t OF get_local_id(uint d) { return __builtin_amdgcn_workitem_id_x(); }
size_t OF get_group_id(uint d) { return d ? __builtin_amdgcn_workgroup_id_y() : __builtin_amdgcn_workgroup_id_x(); }
size_t OF get_local_size(uint d) { return __builtin_amdgcn_workgroup_size_x(); }
size_t OF get_num_groups(uint d) { return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(); }
size_t OF get_global_size(uint d) { return d ? __builtin_amdgcn_grid_size_y() : __builtin_amdgcn_grid_size_x(); }
void OF barrier(uint flags)
{
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
    __builtin_amdgcn_s_barrier();
}
#else
extern __constant const size_t id[8];   // of a loop over work-items
size_t OF get_local_id(uint d) { return id[0]; }
size_t OF get_group_id(uint d) { return id[1 + d]; }
size_t OF get_local_size(uint d) { return id[3]; }
size_t OF get_num_groups(uint d) { return id[4]; }
size_t OF get_global_size(uint d) { return id[5 + d]; }
void OF barrier(uint flags) { __asm__ volatile("" ::: "memory"); }
#endif
size_t OF get_global_id(uint d) { return d ? get_group_id(1) : get_group_id(0) * get_local_size(0) + get_local_id(0); }
void OF mem_fence(uint flags) { __asm__ volatile("" ::: "memory"); }

#define TWO(name, type, body) type OF name(type a, type b) { return body; }
TWO(max, int, a > b ? a : b) TWO(max, uint, a > b ? a : b) TWO(min, int, a < b ? a : b)
TWO(min, uint, a < b ? a : b) TWO(min, long, a < b ? a : b) TWO(max, long, a > b ? a : b)
TWO(fmin, float, __builtin_fminf(a, b)) TWO(fmin, double, __builtin_fmin(a, b))
TWO(fmax, float, __builtin_fmaxf(a, b)) TWO(fmax, double, __builtin_fmax(a, b))
uint OF mul_hi(uint a, uint b) { return (ulong)a * b >> 32; }

#define REAL(real, f, integer)                                                                              \
    real OF fabs(real a) { return __builtin_fabs##f(a); }                                                   \
    real OF fma(real a, real b, real c) { return __builtin_fma##f(a, b, c); }                               \
    real OF sqrt(real a) { return __builtin_sqrt##f(a); }                                                   \
    real OF floor(real a) { return __builtin_floor##f(a); }                                                 \
    real OF rint(real a) { return __builtin_rint##f(a); }                                                   \
    int OF isfinite(real a) { return __builtin_fabs##f(a) < INFINITY; }                                     \
    int OF isnan(real a) { return a != a; }                                                                 \
    real OF exp(real a)                                                                                     \
    {                                                                                                       \
        const real k = rint(a * (real)1.4426950408889634), r = fma(k, (real)-0.6931471805599453, a);        \
        real sum = (real)1e-9;                                                                              \
        for (int n = 0; n < (sizeof(real) == 8 ? 11 : 6); ++n) sum = fma(sum, r, (real)1 / (real)(12 - n)); \
        return __builtin_ldexp##f(sum, (int)k);                                                             \
    }                                                                                                       \
    real OF log(real a)                                                                                     \
    {                                                                                                       \
        const integer bits = as_##integer(a), k = bits >> (sizeof(real) == 8 ? 52 : 23);                    \
        const real r = as_##real(bits - (k << (sizeof(real) == 8 ? 52 : 23))), q = (r - 1) / (r + 1);       \
        real sum = (real)1e-9;                                                                              \
        for (int n = 0; n < (sizeof(real) == 8 ? 8 : 4); ++n) sum = fma(sum, q * q, (real)1 / (real)(17 - 2 * n)); \
        return fma((real)k, (real)0.6931471805599453, sum * q);                                             \
    }                                                                                                       \
    real OF sin(real a)                                                                                     \
    {                                                                                                       \
        const real r = fma(rint(a * (real)0.3183098861837907), (real)-3.141592653589793, a);                \
        real sum = (real)1e-9;                                                                              \
        for (int n = 0; n < (sizeof(real) == 8 ? 8 : 5); ++n) sum = fma(sum, r * r, (real)1 / (real)(17 - 2 * n)); \
        return sum * r;                                                                                     \
    }                                                                                                       \
    real OF nextafter(real a, real b) { return as_##real(as_##integer(a) + (a < b ? 1 : -1)); }             \
    void OF prefetch(__global const real *p, size_t n) {}                                              
REAL(double, , long)
REAL(float, f, int)

#define EACH(real, integer, n, of)                                                                          \
    real##n OF fabs(real##n a) { return as_##real##n(as_##integer##n(a) & (integer##n)(~((integer)1 << (8 * sizeof(real) - 1)))); }
EACH(double, long, 2, ) EACH(double, long, 4, ) EACH(double, long, 8, )
EACH(float, int, 2, ) EACH(float, int, 4, ) EACH(float, int, 8, )

int OF any(int4 a) { return (a.x | a.y | a.z | a.w) < 0; }
int OF all(int4 a) { return (a.x & a.y & a.z & a.w) < 0; }
int OF all(long4 a) { return (a.x & a.y & a.z & a.w) < 0; }
int OF any(long4 a) { return (a.x | a.y | a.z | a.w) < 0; }
#define CONVERT(from, to) to OF convert_##to(from a) { return __builtin_convertvector(a, to); }
CONVERT(long4, double4) CONVERT(long4, float4) CONVERT(int4, long4) CONVERT(int4, int4)
CONVERT(long8, double8) CONVERT(int8, double8) CONVERT(int16, float16) CONVERT(long8, int8) CONVERT(int16, int16)

#define LOAD(type, n)                                                                                       \
    type##n OF vload##n(size_t k, __global const type *p)                                                   \
    {                                                                                                       \
        type##n a;                                                                                          \
        for (int j = 0; j < n; ++j) a[j] = p[n * k + j];                                                    \
        return a;                                                                                           \
    }                                                                                                       \
    void OF vstore##n(type##n a, size_t k, __global type *p)                                                \
    {                                                                                                       \
        for (int j = 0; j < n; ++j) p[n * k + j] = a[j];                                                    \
    }
LOAD(int, 2) LOAD(int, 8) LOAD(int, 16) LOAD(float, 4) LOAD(float, 16) LOAD(double, 4) LOAD(double, 8)

#define ATOMIC(space)                                                                                       \
    int OF atomic_inc(volatile space int *p) { return __atomic_fetch_add(p, 1, __ATOMIC_RELAXED); }         \
    int OF atomic_max(volatile space int *p, int a) { return __atomic_fetch_max(p, a, __ATOMIC_RELAXED); }
int OF atomic_or(volatile __global int *p, int a) { return __atomic_fetch_or(p, a, __ATOMIC_RELAXED); }
ATOMIC(__global)
ATOMIC(__local)
