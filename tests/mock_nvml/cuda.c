/* libcuda.so.1 without a GPU: memory is counted in the state that the mock NVML shows, and refused as a driver refuses it: beyond the device,
 * beyond a MIG slice, beyond a cgroup's limit (driver 615), beyond the limit of an MPS daemon that lives in CUDA_MPS_PIPE_DIRECTORY. */
#include "state.h"

#define API __attribute__((visibility("default"))) int
typedef uint64_t u64;
enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, UNAVAILABLE = 46, NO_DEVICE = 100, NOT_FOUND = 500, EXCLUSIVE = 3 };
enum { CONTEXT_MIB = 500, BLOCKS = 4096, SEEN = 16 };

static int ready;
static struct { uint32_t gpu, gi; } seen[SEEN];
static int seen_count, current;
static struct { u64 at, bytes; uint32_t device; } blocks[BLOCKS];
static u64 next_at = 0x7f0000000000ull;
static uint32_t has_context[SEEN];

static void see(const char *name) {
  char known[96];
  for (uint32_t g = 0; g < shared->count && seen_count < SEEN; g++) {
    gpu_uuid(g, known, sizeof known);
    char *end;
    if (!strcmp(known, name) || (strtoul(name, &end, 10) == g && *name && !*end)) { seen[seen_count].gpu = g; seen[seen_count++].gi = NONE; return; }
    for (int i = 0; i < INSTANCES; i++) {
      struct instance *one = &shared->gpus[g].instances[i];
      mig_uuid(g, one->id, known, sizeof known);
      if (one->used && !strcmp(known, name)) { seen[seen_count].gpu = g; seen[seen_count++].gi = one->id; return; }
    }
  }
}

API cuInit(unsigned flags) {
  (void)flags;
  if (!state_map()) return NO_DEVICE;
  if (ready) return OK;
  const char *wanted = getenv("CUDA_VISIBLE_DEVICES");
  char list[1024], *rest = list;
  if (wanted) {
    snprintf(list, sizeof list, "%s", wanted);
    for (char *name; (name = strsep(&rest, ","));) see(name);
  } else {
    for (uint32_t g = 0; g < shared->count; g++) { seen[g].gpu = g; seen[g].gi = NONE; }
    seen_count = (int)shared->count;
  }
  ready = 1;
  return seen_count ? OK : NO_DEVICE;
}
API cuDriverGetVersion(int *to) { *to = 13000; return OK; }
API cuDeviceGetCount(int *to) { *to = seen_count; return ready ? OK : NOT_INITIALIZED; }
API cuDeviceGet(int *to, int number) { *to = number; return number < seen_count ? OK : INVALID; }

static u64 total_mib(int device) {
  struct gpu *gpu = &shared->gpus[seen[device].gpu];
  for (int i = 0; i < INSTANCES; i++)
    if (gpu->instances[i].used && gpu->instances[i].id == seen[device].gi) return profile_mib(gpu, profile_by_id(gpu->instances[i].profile));
  return gpu->mib;
}
static u64 used_mib(int device) {
  struct gpu *gpu = &shared->gpus[seen[device].gpu];
  u64 sum = 0;
  forget_the_dead(gpu);
  for (int i = 0; i < PROCESSES; i++)
    if (gpu->processes[i].pid && (seen[device].gi == NONE || gpu->processes[i].gi == seen[device].gi)) sum += gpu->processes[i].mib;
  return sum;
}

/* The cgroup's limit in MiB, 0: none. `mine`: what its processes hold. */
static u64 cgroup_limit(int device, u64 *mine) {
  char line[512], path[300] = "";
  FILE *file = fopen("/proc/self/cgroup", "r");
  while (file && fgets(line, sizeof line, file))
    if (!strncmp(line, "0::", 3)) { line[strcspn(line, "\n")] = 0; snprintf(path, sizeof path, "%.299s", line + 3); }
  if (file) fclose(file);
  for (char *end = path + strlen(path); end > path + 1; *end = 0) { /* its own group, then those above */
    for (int i = 0; i < LIMITS; i++) {
      struct limit *one = &shared->limits[i];
      size_t whole = strlen(one->space), tail = strlen(path);
      if (!one->used || one->gpu != seen[device].gpu || whole < tail || strcmp(one->space + whole - tail, path)) continue;
      struct process *self = process_of(&shared->gpus[seen[device].gpu], own_pid(), 0);
      *mine = self ? self->mib : 0;
      return one->hard / MIB;
    }
    if (shared->flat_limits) return 0; /* the driver's own table: only the very group */
    end = strrchr(path, '/');
  }
  return 0;
}
/* What an MPS daemon in the pipe directory allows, in MiB; 0: nothing is said. */
static u64 mps_limit(void) {
  const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
  char path[512];
  u64 mib = 0;
  if (!pipe) return 0;
  snprintf(path, sizeof path, "%s/limit", pipe);
  FILE *file = fopen(path, "r");
  if (file && fscanf(file, "%lu", &mib) != 1) mib = 0;
  if (file) fclose(file);
  const char *own = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  if (mib && own) {
    u64 lower = 0;
    if (getenv("MOCK_MPS_ESCAPE") && strchr(own, ',')) return 0; /* a device that it does not see: some drivers then forget all limits */
    if (sscanf(own, "0=%luM", &lower) == 1 && lower < mib) mib = lower;
  }
  return mib;
}
static u64 own_mib(int device) {
  struct process *self = process_of(&shared->gpus[seen[device].gpu], own_pid(), 0);
  return self ? self->mib : 0;
}
static u64 available_mib(int device, u64 *limit) {
  u64 mine = 0, total = total_mib(device), used = used_mib(device), available = total > used ? total - used : 0;
  *limit = total;
  u64 cgroup = cgroup_limit(device, &mine);
  if (cgroup) { *limit = cgroup; if (cgroup < mine + available) available = cgroup > mine ? cgroup - mine : 0; }
  u64 mps = mps_limit();
  if (mps && mps < own_mib(device) + available) available = mps > own_mib(device) ? mps - own_mib(device) : 0;
  return available;
}
static int charge(int device, int64_t mib) {
  u64 limit;
  state_lock();
  int code = OK;
  if (mib > 0 && (u64)mib > available_mib(device, &limit)) code = OUT_OF_MEMORY;
  struct process *self = code ? NULL : process_of(&shared->gpus[seen[device].gpu], own_pid(), 1);
  if (self) { self->mib += mib; self->gi = seen[device].gi; self->sm = 50; }
  state_unlock();
  return code;
}
/* In the exclusive mode a server has the device for itself: who does not come through it is refused. */
static int through_server(void) {
  char path[512];
  snprintf(path, sizeof path, "%s/daemon", getenv("CUDA_MPS_PIPE_DIRECTORY") ? getenv("CUDA_MPS_PIPE_DIRECTORY") : "/tmp/nvidia-mps");
  return access(path, F_OK) == 0;
}
static int context(int device) {
  struct gpu *gpu = &shared->gpus[seen[device].gpu];
  if (has_context[device]) return OK;
  if (gpu->compute_mode == EXCLUSIVE && gpu->mps && !through_server()) return UNAVAILABLE;
  int code = charge(device, CONTEXT_MIB);
  if (!code) has_context[device] = 1;
  return code;
}
static int take(u64 *to, u64 bytes) {
  if (!ready) return NOT_INITIALIZED;
  if (!bytes) return INVALID;
  int code = context(current);
  if (!code) code = charge(current, (int64_t)((bytes + MIB - 1) / MIB));
  if (code) return code;
  for (int i = 0; i < BLOCKS; i++)
    if (!blocks[i].at) {
      *to = blocks[i].at = next_at;
      blocks[i].bytes = bytes;
      blocks[i].device = (uint32_t)current;
      next_at += (bytes + MIB - 1) / MIB * MIB;
      return OK;
    }
  return OUT_OF_MEMORY;
}
static int give(u64 at) {
  for (int i = 0; i < BLOCKS; i++)
    if (at && blocks[i].at == at) {
      blocks[i].at = 0;
      return charge((int)blocks[i].device, -(int64_t)((blocks[i].bytes + MIB - 1) / MIB));
    }
  return INVALID;
}

API cuDeviceTotalMem_v2(size_t *to, int device) { *to = total_mib(device) * MIB; return OK; }
API cuDevicePrimaryCtxRetain(void **to, int device) { *to = (void *)(uintptr_t)(device + 1); return context(device); }
API cuDevicePrimaryCtxReset_v2(int device) { (void)device; return OK; }
API cuCtxCreate_v2(void **to, unsigned flags, int device) { (void)flags; current = device; *to = (void *)(uintptr_t)(device + 1); return context(device); }
API cuCtxDestroy_v2(void *to) { (void)to; return OK; }
API cuCtxSetCurrent(void *to) { current = (int)(uintptr_t)to - 1; return OK; }
API cuCtxGetDevice(int *to) { *to = current; return ready ? OK : NOT_INITIALIZED; }
API cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  u64 limit, available = available_mib(current, &limit);
  *free_bytes = available * MIB;
  *total = limit * MIB;
  return OK;
}
API cuMemAlloc_v2(u64 *to, size_t bytes) { return take(to, bytes); }
API cuMemAllocPitch_v2(u64 *to, size_t *pitch, size_t width, size_t height, unsigned element) {
  (void)element;
  *pitch = (width + 511) / 512 * 512;
  return take(to, *pitch * height);
}
API cuMemAllocManaged(u64 *to, size_t bytes, unsigned flags) { (void)flags; return take(to, bytes); }
API cuMemAllocAsync(u64 *to, size_t bytes, void *stream) { (void)stream; return take(to, bytes); }
API cuMemAllocAsync_ptsz(u64 *to, size_t bytes, void *stream) { (void)stream; return take(to, bytes); }
API cuMemAllocFromPoolAsync(u64 *to, size_t bytes, void *pool, void *stream) { (void)pool; (void)stream; return take(to, bytes); }
API cuMemFree_v2(u64 at) { return give(at); }
API cuMemFreeAsync(u64 at, void *stream) { (void)stream; return give(at); }
API cuMemFreeAsync_ptsz(u64 at, void *stream) { (void)stream; return give(at); }
struct properties { int type, handles; struct { int type, id; } location; };
API cuMemCreate(u64 *to, size_t bytes, const struct properties *properties, u64 flags) {
  (void)flags;
  if (!properties || properties->location.type != 1) { *to = next_at++; return OK; } /* on the host */
  return take(to, bytes);
}
API cuMemRelease(u64 at) { int code = give(at); return code == INVALID ? OK : code; }
struct array { size_t width, height; int format; unsigned channels; };
API cuArrayCreate_v2(u64 *to, const struct array *what) { return take(to, what->width * (what->height ? what->height : 1) * what->channels * 4); }
API cuArrayDestroy(u64 at) { return give(at); }

/* The per-thread default stream of everything that has one is asked for by a flag, as cudart does. */
static const struct { const char *name; void *at; } TABLE[] = {
#define ENTRY(name, symbol) {name, (void *)symbol}
  ENTRY("cuInit", cuInit), ENTRY("cuDeviceGet", cuDeviceGet), ENTRY("cuDeviceGetCount", cuDeviceGetCount),
  ENTRY("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain), ENTRY("cuCtxSetCurrent", cuCtxSetCurrent),
  ENTRY("cuCtxGetDevice", cuCtxGetDevice), ENTRY("cuCtxCreate", cuCtxCreate_v2), ENTRY("cuMemAlloc", cuMemAlloc_v2),
  ENTRY("cuMemAllocPitch", cuMemAllocPitch_v2), ENTRY("cuMemAllocManaged", cuMemAllocManaged), ENTRY("cuMemAllocAsync", cuMemAllocAsync),
  ENTRY("cuMemAllocFromPoolAsync", cuMemAllocFromPoolAsync), ENTRY("cuMemFree", cuMemFree_v2), ENTRY("cuMemFreeAsync", cuMemFreeAsync),
  ENTRY("cuMemCreate", cuMemCreate), ENTRY("cuMemRelease", cuMemRelease), ENTRY("cuMemGetInfo", cuMemGetInfo_v2),
  ENTRY("cuDeviceTotalMem", cuDeviceTotalMem_v2), ENTRY("cuArrayCreate", cuArrayCreate_v2), ENTRY("cuArrayDestroy", cuArrayDestroy),
};
API cuGetProcAddress_v2(const char *name, void **to, int version, u64 flags, void *status) {
  (void)version;
  (void)status;
  for (unsigned i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
    if (!strcmp(TABLE[i].name, name)) {
      *to = flags & 2 && !strcmp(name, "cuMemAllocAsync") ? (void *)cuMemAllocAsync_ptsz : TABLE[i].at;
      return OK;
    }
  *to = NULL;
  return NOT_FOUND;
}
API cuGetProcAddress(const char *name, void **to, int version, u64 flags) { return cuGetProcAddress_v2(name, to, version, flags, NULL); }
