/* A job: takes memory of the first GPU that it sees, in pieces of so many MiB, prints libcuda's answers, and stays.
 *
 *     take MIB...
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context;
  if (!cuda) return fprintf(stderr, "%s\n", dlerror()), 1;
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(cuda, "cuInit");
  int (*retain)(void **, int) = (int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain");
  int (*set)(void *) = (int (*)(void *))dlsym(cuda, "cuCtxSetCurrent");
  int (*alloc)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))dlsym(cuda, "cuMemAlloc_v2");
  if (init(0) || retain(&context, 0) || set(context)) return puts("no GPU"), 1;
  for (int i = 1; i < argc; i++) {
    uint64_t at;
    printf("%d ", alloc(&at, (size_t)atol(argv[i]) << 20));
  }
  puts(getenv("CUDA_VISIBLE_DEVICES"));
  fflush(stdout);
  for (;;) pause();
}
