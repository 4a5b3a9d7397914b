/* Segments of ticks, once for each instruction set. */

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define JOIN_(name, suffix) name##suffix
#define JOIN(name, suffix) JOIN_(name, suffix)

EXPORT int JOIN(hrnn_vector_bytes, SUFFIX)(void) {
#if defined(__AVX512F__)
  return 64;
#elif defined(__AVX2__)
  return 32;
#else
  return 16;
#endif
}
