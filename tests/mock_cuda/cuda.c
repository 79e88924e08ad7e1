/* libcuda.so.1 without a GPU, as far as moving a process off it goes: each process that uses CUDA has a file in MOCK_CUDA_STATE with its state
 * and its MiB; what it holds is shown by the mock NVML beside this one. A file `refuse` there holds the name of a call and the error it gives. */
#include "../mock_nvml/state.h"

#include <time.h>

#define API __attribute__((visibility("default"))) int
enum { OK = 0, INVALID = 1, NOT_INITIALIZED = 3, ILLEGAL = 401, NOT_READY = 600 };
enum { RUNNING, LOCKED, CHECKPOINTED, FAILED };
struct options { unsigned timeout, zero; uint64_t reserved[7]; };

static int ready;

static const char *path_of(const char *name) {
  static char path[512];
  const char *folder = getenv("MOCK_CUDA_STATE");
  snprintf(path, sizeof path, "%s/%s", folder ? folder : "/nonexistent", name);
  return path;
}
static int load(int pid, int *state, long *mib) {
  char name[32];
  snprintf(name, sizeof name, "%d", pid);
  FILE *file = fopen(path_of(name), "r");
  if (!file) return 0;
  int fine = fscanf(file, "%d %ld", state, mib) == 2;
  fclose(file);
  return fine;
}
static int save(int pid, int state, long mib) {
  char name[32];
  snprintf(name, sizeof name, "%d", pid);
  FILE *file = fopen(path_of(name), "w");
  if (!file) return ILLEGAL;
  fprintf(file, "%d %ld\n", state, mib);
  return fclose(file) ? ILLEGAL : OK;
}
static int refused(const char *call) {
  char name[32];
  int code = 0;
  FILE *file = fopen(path_of("refuse"), "r");
  if (!file) return OK;
  if (fscanf(file, "%31s %d", name, &code) != 2 || strcmp(name, call)) code = 0;
  fclose(file);
  return code;
}
static void hold(int pid, long mib) {
  if (!state_map()) return;
  state_lock();
  struct gpu *gpu = &shared->gpus[0];
  struct process *one = process_of(gpu, (uint32_t)pid, mib > 0);
  if (one) *one = mib > 0 ? (struct process){.pid = (uint32_t)pid, .gi = NONE, .mib = (uint64_t)mib} : (struct process){0};
  state_unlock();
}
/* Whether the process stands still, stopped or frozen: then its own thread cannot do what is asked of it. */
static int stands_still(int pid) {
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *file = fopen(path, "r");
  if (!file) return 1;
  size_t got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[got] = 0;
  char *end = strrchr(text, ')');
  return !end || end[2] == 'T';
}

API cuInit(unsigned flags) { (void)flags; ready = 1; return OK; }
/* The program under test uses this much of the first GPU from now on. */
API mockUse(long mib) { hold(getpid(), mib); return save(getpid(), RUNNING, mib); }

/* Memory of the device, in the program's own: what was moved is still what it was. */
API cuDevicePrimaryCtxRetain(void **to, int number) { *to = &ready; return number ? INVALID : OK; }
API cuCtxSetCurrent(void *context) { (void)context; return OK; }
API cuMemAlloc_v2(uint64_t *to, size_t bytes) {
  void *at = calloc(1, bytes); /* no page of it is there before it is touched */
  if (!at) return INVALID;
  *to = (uint64_t)(uintptr_t)at;
  return mockUse((long)(bytes >> 20));
}
API cuMemsetD32_v2(uint64_t at, unsigned value, size_t count) {
  for (size_t i = 0; i < count; i++) ((unsigned *)(uintptr_t)at)[i] = value;
  return OK;
}
API cuMemcpyDtoH_v2(void *to, uint64_t at, size_t bytes) { memcpy(to, (void *)(uintptr_t)at, bytes); return OK; }

API cuCheckpointProcessGetRestoreThreadId(int pid, int *thread) {
  int state;
  long mib;
  *thread = pid;
  return !ready ? NOT_INITIALIZED : load(pid, &state, &mib) ? OK : INVALID;
}
API cuCheckpointProcessGetState(int pid, int *state) {
  long mib;
  if (!load(pid, state, &mib)) *state = RUNNING; /* also of processes without CUDA */
  return OK;
}
API cuCheckpointProcessLock(int pid, struct options *options) {
  int state, code = refused("lock");
  long mib;
  if (!load(pid, &state, &mib)) return INVALID;
  if (state != RUNNING) return ILLEGAL;
  if (code == NOT_READY || stands_still(pid)) {
    struct timespec moment = {0, options->timeout > 100 ? 100000000 : 0};
    nanosleep(&moment, NULL);
    return NOT_READY;
  }
  return code ? code : save(pid, LOCKED, mib);
}
API cuCheckpointProcessCheckpoint(int pid, void *options) {
  int state, code = refused("checkpoint");
  long mib;
  (void)options;
  if (!load(pid, &state, &mib) || state != LOCKED) return ILLEGAL;
  if (code) return code;
  if (!refused("stuck")) hold(pid, 0);
  return save(pid, CHECKPOINTED, mib);
}
API cuCheckpointProcessRestore(int pid, void *options) {
  int state, code = refused("restore");
  long mib;
  (void)options;
  if (!load(pid, &state, &mib) || state != CHECKPOINTED || stands_still(pid)) return ILLEGAL;
  if (code) return code;
  hold(pid, mib);
  return save(pid, LOCKED, mib);
}
API cuCheckpointProcessUnlock(int pid, void *options) {
  int state;
  long mib;
  (void)options;
  return load(pid, &state, &mib) && state == LOCKED ? save(pid, RUNNING, mib) : ILLEGAL;
}
