/* Which instruction set this processor has, and which sources the object was made from. */

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* 4: AVX-512, 3: AVX2 and FMA, 1: neither of them on x86-64; 2: another architecture, whose vectors the base level uses. */
EXPORT int hrnn_level(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 1;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512bw")
             ? 4
             : 3;
#else
  return 2;
#endif
}

EXPORT const char *hrnn_sources(void) { return HRNN_SOURCES; }

/* GOMP_parallel of the OpenMP that torch uses, or none. */
void (*hrnn_openmp)(void (*)(void *), void *, unsigned, unsigned);
EXPORT void hrnn_use_openmp(void *parallel) { hrnn_openmp = (void (*)(void (*)(void *), void *, unsigned, unsigned))parallel; }
