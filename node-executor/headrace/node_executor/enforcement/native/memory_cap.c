/* Limits a job to its part of a GPU's memory inside its processes: preloaded into them, it wraps the functions of libcuda that allocate
 * memory and those that report its size. Memory that the driver takes for itself is not seen here, so the limit is lower than the part by
 * what a context needs; a process without the variable is not limited. It limits cooperative programs only; the watchdog sees the others.
 *
 *     HEADRACE_GPU_MEMORY_CAP      bytes that all processes of the job together may take
 *     HEADRACE_GPU_MEMORY_CONTEXT  bytes by which that is less for each further process that takes memory
 *     HEADRACE_GPU_MEMORY_FILE     a file in which they count together
 *
 * Programs find libcuda's functions in three ways: as symbols, by dlsym, and by cuGetProcAddress. The first two resolve to this library
 * by name. For the third the function that the driver returns is compared with those of the table below, by address, so every variant of
 * a name is covered. Functions that are not in the table are passed through.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
typedef uint64_t u64;
typedef int result;
enum { OK = 0, OUT_OF_MEMORY = 2, NOT_FOUND = 500, SLOTS = 256, BUCKETS = 4096 };

/* Counting: one slot for each process in a file of the job; a slot whose process is gone does not count. */

struct slot { int32_t pid; int32_t unused; u64 bytes; };
struct shared { struct slot slots[SLOTS]; };

static u64 cap, context;
static struct shared *shared;
static int shared_fd = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void open_shared(void) {
  const char *limit = getenv("HEADRACE_GPU_MEMORY_CAP"), *path = getenv("HEADRACE_GPU_MEMORY_FILE");
  if (!limit || !path || shared) return;
  const char *each = getenv("HEADRACE_GPU_MEMORY_CONTEXT");
  cap = strtoull(limit, NULL, 10);
  context = each ? strtoull(each, NULL, 10) : 0;
  shared_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (shared_fd < 0) return;
  if (ftruncate(shared_fd, sizeof(struct shared)) == 0) {
    void *at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
    if (at != MAP_FAILED) shared = at;
  }
}

static struct slot *own_slot(void) {
  struct slot *empty = NULL;
  int32_t self = getpid();
  for (int i = 0; i < SLOTS; i++) {
    struct slot *one = &shared->slots[i];
    if (one->pid == self) return one;
    if (one->pid && kill(one->pid, 0) < 0 && errno == ESRCH) memset(one, 0, sizeof *one);
    if (!one->pid && !empty) empty = one;
  }
  if (empty) { empty->pid = self; empty->bytes = 0; }
  return empty;
}

static u64 taken(void) {
  u64 sum = 0, there = 0;
  for (int i = 0; i < SLOTS; i++)
    if (shared->slots[i].pid && (kill(shared->slots[i].pid, 0) == 0 || errno != ESRCH)) {
      sum += shared->slots[i].bytes;
      there++;
    }
  return there > 1 ? sum + (there - 1) * context : sum;
}

/* Without a file to count in, allocations fail: the job fails visibly instead of running without a limit. */
static int reserve(u64 bytes) {
  if (!cap) return 1;
  if (!shared) return 0;
  flock(shared_fd, LOCK_EX);
  struct slot *own = own_slot();
  int fits = own && bytes <= cap && taken() <= cap - bytes;
  if (fits) own->bytes += bytes;
  flock(shared_fd, LOCK_UN);
  return fits;
}

static void release(u64 bytes) {
  if (!shared) return;
  flock(shared_fd, LOCK_EX);
  struct slot *own = own_slot();
  if (own) own->bytes = own->bytes > bytes ? own->bytes - bytes : 0;
  flock(shared_fd, LOCK_UN);
}

static u64 left(void) {
  flock(shared_fd, LOCK_EX);
  u64 sum = taken();
  flock(shared_fd, LOCK_UN);
  return sum < cap ? cap - sum : 0;
}

/* Size of the allocation at each address */

struct block { u64 at, bytes; struct block *next; };
static struct block *blocks[BUCKETS];
static unsigned bucket(u64 at) { return (unsigned)((at >> 9) * 2654435761u) % BUCKETS; }

static void remember(u64 at, u64 bytes) {
  struct block *one = malloc(sizeof *one);
  if (!one) return;
  pthread_mutex_lock(&mutex);
  *one = (struct block){at, bytes, blocks[bucket(at)]};
  blocks[bucket(at)] = one;
  pthread_mutex_unlock(&mutex);
}
static u64 forget(u64 at) {
  u64 bytes = 0;
  pthread_mutex_lock(&mutex);
  for (struct block **link = &blocks[bucket(at)]; *link; link = &(*link)->next)
    if ((*link)->at == at) {
      struct block *gone = *link;
      bytes = gone->bytes;
      *link = gone->next;
      free(gone);
      break;
    }
  pthread_mutex_unlock(&mutex);
  return bytes;
}
static result took(result code, const u64 *at, u64 bytes) {
  if (code == OK) remember(*at, bytes); else release(bytes);
  return code;
}
static result gave(result code, u64 bytes) {
  if (code == OK && bytes) release(bytes);
  return code;
}

/* The real functions, looked up once */

static void *(*real_dlsym)(void *, const char *);
static void *libcuda;

static void begin(void) {
  static const char *const VERSIONS[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  for (unsigned i = 0; !real_dlsym && i < sizeof VERSIONS / sizeof *VERSIONS; i++)
    *(void **)&real_dlsym = dlvsym(RTLD_NEXT, "dlsym", VERSIONS[i]);
  open_shared();
}
__attribute__((constructor)) static void loaded(void) { begin(); }

static void *real(const char *name) {
  if (!real_dlsym) begin();
  if (!libcuda) libcuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!libcuda) libcuda = dlopen("libcuda.so.1", RTLD_LAZY);
  return libcuda ? real_dlsym(libcuda, name) : NULL;
}

#define TYPE(name) __typeof__(&name)
#define REAL(name)                                        \
  static TYPE(name) call;                                 \
  if (!call) *(void **)&call = real(#name);               \
  if (!call) return NOT_FOUND;

/* Functions that allocate memory: (name, arguments with their types, arguments, address, bytes) */
#define TAKES(name, typed, plain, at, bytes)              \
  API result name typed;                                  \
  API result name typed {                                 \
    REAL(name)                                            \
    u64 wanted = (bytes);                                 \
    if (!reserve(wanted)) return OUT_OF_MEMORY;           \
    return took(call plain, at, wanted);                  \
  }
#define GIVES(name, typed, plain, at)                     \
  API result name typed;                                  \
  API result name typed {                                 \
    REAL(name)                                            \
    u64 bytes = forget(at);                               \
    result code = call plain;                             \
    if (code != OK && bytes) remember(at, bytes);         \
    return gave(code, bytes);                             \
  }

TAKES(cuMemAlloc_v2, (u64 *at, size_t size), (at, size), at, size)
TAKES(cuMemAllocManaged, (u64 *at, size_t size, unsigned flags), (at, size, flags), at, size)
TAKES(cuMemAllocAsync, (u64 *at, size_t size, void *stream), (at, size, stream), at, size)
TAKES(cuMemAllocAsync_ptsz, (u64 *at, size_t size, void *stream), (at, size, stream), at, size)
TAKES(cuMemAllocFromPoolAsync, (u64 *at, size_t size, void *pool, void *stream), (at, size, pool, stream), at, size)
TAKES(cuMemAllocFromPoolAsync_ptsz, (u64 *at, size_t size, void *pool, void *stream), (at, size, pool, stream), at, size)
TAKES(cuMemAllocPitch_v2, (u64 *at, size_t *pitch, size_t width, size_t height, unsigned element), (at, pitch, width, height, element), at,
      (width + 511) / 512 * 512 * height)

struct properties { int type, handles; struct { int type, id; } location; };
TAKES(cuMemCreate, (u64 *at, size_t size, const struct properties *what, u64 flags), (at, size, what, flags), at,
      what && what->location.type == 1 ? size : 0)

struct array { size_t width, height; int format; unsigned channels; };
struct array3d { size_t width, height, depth; int format; unsigned channels, flags; };
static u64 element(int format) { return format == 1 || format == 8 ? 1 : format == 2 || format == 9 || format == 16 ? 2 : 4; }
static u64 at_least_one(size_t size) { return size ? size : 1; }
static u64 texels(const struct array3d *what) {
  return what->width * at_least_one(what->height) * at_least_one(what->depth) * what->channels * element(what->format);
}
TAKES(cuArrayCreate_v2, (u64 *at, const struct array *what), (at, what), at,
      what->width *at_least_one(what->height) * what->channels * element(what->format))
TAKES(cuArray3DCreate_v2, (u64 *at, const struct array3d *what), (at, what), at, texels(what))
TAKES(cuMipmappedArrayCreate, (u64 *at, const struct array3d *what, unsigned levels), (at, what, levels), at, texels(what) * (levels > 1 ? 2 : 1))

GIVES(cuMemFree_v2, (u64 at), (at), at)
GIVES(cuMemFreeAsync, (u64 at, void *stream), (at, stream), at)
GIVES(cuMemFreeAsync_ptsz, (u64 at, void *stream), (at, stream), at)
GIVES(cuMemRelease, (u64 at), (at), at)
GIVES(cuArrayDestroy, (u64 at), (at), at)
GIVES(cuMipmappedArrayDestroy, (u64 at), (at), at)

/* Functions that report memory: the part, and what is left of it */

API result cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
API result cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  REAL(cuMemGetInfo_v2)
  result code = call(free_bytes, total);
  if (code != OK || !cap || !shared) return code;
  u64 own = left();
  if (*total > cap) *total = cap;
  if (*free_bytes > own) *free_bytes = own;
  return code;
}
API result cuDeviceTotalMem_v2(size_t *total, int device);
API result cuDeviceTotalMem_v2(size_t *total, int device) {
  REAL(cuDeviceTotalMem_v2)
  result code = call(total, device);
  if (code == OK && cap && *total > cap) *total = cap;
  return code;
}

/* The table that the three ways share */

struct way { const char *name; void *ours, *theirs; };
#define WAY(name) {#name, (void *)name, NULL}
static struct way WAYS[] = {
    WAY(cuMemAlloc_v2), WAY(cuMemAllocManaged), WAY(cuMemAllocAsync), WAY(cuMemAllocAsync_ptsz), WAY(cuMemAllocFromPoolAsync),
    WAY(cuMemAllocFromPoolAsync_ptsz), WAY(cuMemAllocPitch_v2), WAY(cuMemCreate), WAY(cuArrayCreate_v2), WAY(cuArray3DCreate_v2),
    WAY(cuMipmappedArrayCreate), WAY(cuMemFree_v2), WAY(cuMemFreeAsync), WAY(cuMemFreeAsync_ptsz), WAY(cuMemRelease), WAY(cuArrayDestroy),
    WAY(cuMipmappedArrayDestroy), WAY(cuMemGetInfo_v2), WAY(cuDeviceTotalMem_v2),
};
enum { WAY_COUNT = sizeof WAYS / sizeof *WAYS };

static void look_up(void) {
  for (int i = 0; i < WAY_COUNT; i++) WAYS[i].theirs = real(WAYS[i].name);
}
static void *ours_for(void *theirs) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, look_up);
  for (int i = 0; theirs && i < WAY_COUNT; i++)
    if (WAYS[i].theirs == theirs) return WAYS[i].ours;
  return theirs;
}

API result cuGetProcAddress_v2(const char *name, void **at, int version, u64 flags, void *status);
API result cuGetProcAddress(const char *name, void **at, int version, u64 flags);
static void *named(const char *name) {
  if (!strcmp(name, "cuGetProcAddress_v2")) return (void *)cuGetProcAddress_v2;
  if (!strcmp(name, "cuGetProcAddress")) return (void *)cuGetProcAddress;
  for (int i = 0; i < WAY_COUNT; i++)
    if (!strcmp(WAYS[i].name, name)) return WAYS[i].ours;
  return NULL;
}
static result led_here(result code, const char *name, void **at) {
  if (code == OK && at && *at) *at = !strcmp(name, "cuGetProcAddress") ? (void *)cuGetProcAddress_v2 : ours_for(*at);
  return code;
}
API result cuGetProcAddress_v2(const char *name, void **at, int version, u64 flags, void *status) {
  REAL(cuGetProcAddress_v2)
  return led_here(call(name, at, version, flags, status), name, at);
}
API result cuGetProcAddress(const char *name, void **at, int version, u64 flags) {
  REAL(cuGetProcAddress)
  result code = call(name, at, version, flags);
  if (code == OK && at && *at) *at = !strcmp(name, "cuGetProcAddress") ? (void *)cuGetProcAddress : ours_for(*at);
  return code;
}

API void *dlsym(void *handle, const char *name) {
  if (!real_dlsym) begin();
  void *found = real_dlsym ? real_dlsym(handle, name) : NULL;
  if (!found || strncmp(name, "cu", 2)) return found;
  void *ours = named(name);
  return ours ? ours : found;
}
