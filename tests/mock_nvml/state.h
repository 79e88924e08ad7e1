/* The state of a machine with NVIDIA GPUs that are not there: one file, mapped by every process that loads a mock library, so that the
 * executor, the programs it runs and the test see the same node. MOCK_NVML_STATE names the file; a lock on it serialises changes. */
#ifndef MOCK_STATE_H
#define MOCK_STATE_H

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GPUS = 16, INSTANCES = 8, PROCESSES = 64, EVENTS = 64, LIMITS = 64, PROFILES = 7 };
enum { NONE = 0xFFFFFFFFu };
static const uint64_t MIB = 1024 * 1024;

struct process { uint32_t pid, gi, sm; uint64_t mib; };
struct instance { uint32_t used, id, profile, start, size, ci; };
struct event { uint32_t gpu, gi; uint64_t type, data; };
struct limit { uint32_t used, gpu; char space[256]; uint64_t soft, hard; };

struct gpu {
  char model[96];
  uint64_t mib;
  uint32_t mig_capable, mig, persistence, compute_mode;
  uint32_t lost, losses, sunk, recovery, remap_pending, remap_failure, ecc, gpu_util, mem_util, stuck, next_id, mps, nvlink;
  struct instance instances[INSTANCES];
  struct process processes[PROCESSES];
};

struct state {
  char driver[80];
  uint32_t count, no_permission, latency_ms, inside, most_inside, calls, refuse_create, flat_limits;
  uint64_t next_event;
  struct gpu gpus[GPUS];
  struct event events[EVENTS];
  struct limit limits[LIMITS];
};

/* A kind of slice: NVML's enum and id, compute and memory slices, how many at most, bits of the starts, and how it is called. */
struct profile { uint32_t kind, id, compute, memory, most, starts; const char *suffix; };
static const struct profile PROFILE[PROFILES] = {
  {0, 19, 1, 1, 7, 0x7F, ""}, {7, 20, 1, 1, 1, 0x7F, "+me"}, {9, 15, 1, 2, 4, 0x55, ""}, {1, 14, 2, 2, 3, 0x15, ""},
  {2, 9, 3, 4, 2, 0x11, ""},  {3, 5, 4, 4, 1, 0x01, ""},     {4, 0, 7, 8, 1, 0x01, ""},
};

static struct state *shared;
static int state_fd = -1;

static inline struct state *state_map(void) {
  if (shared) return shared;
  const char *path = getenv("MOCK_NVML_STATE");
  if (!path) return NULL;
  state_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (state_fd < 0 || ftruncate(state_fd, sizeof(struct state)) < 0) return NULL;
  void *at = mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED, state_fd, 0);
  return shared = at == MAP_FAILED ? NULL : at;
}
static inline void state_lock(void) { flock(state_fd, LOCK_EX); }
static inline void state_unlock(void) { flock(state_fd, LOCK_UN); }

/* The machine's list of processes; in a container MOCK_NVML_PROC says where it is mounted, because a driver knows their outer numbers. */
static inline const char *machine_proc(void) { return getenv("MOCK_NVML_PROC") ? getenv("MOCK_NVML_PROC") : "/proc"; }

static inline uint32_t own_pid(void) {
  char path[256], number[32] = "";
  snprintf(path, sizeof path, "%s/self", machine_proc());
  return readlink(path, number, sizeof number - 1) > 0 ? (uint32_t)strtoul(number, NULL, 10) : (uint32_t)getpid();
}

/* Whether the process is there and no zombie: a driver forgets both. */
static inline int alive(uint32_t pid) {
  char path[256], line[512];
  snprintf(path, sizeof path, "%s/%u/stat", machine_proc(), pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t got = read(fd, line, sizeof line - 1);
  close(fd);
  if (got <= 0) return 0;
  line[got] = 0;
  const char *end = strrchr(line, ')');
  return end && end[1] && end[2] != 'Z' && end[2] != 'X';
}

static inline void forget_the_dead(struct gpu *gpu) {
  for (int i = 0; i < PROCESSES; i++)
    if (gpu->processes[i].pid && !alive(gpu->processes[i].pid)) memset(&gpu->processes[i], 0, sizeof(struct process));
}

static inline struct process *process_of(struct gpu *gpu, uint32_t pid, int make) {
  struct process *empty = NULL;
  for (int i = 0; i < PROCESSES; i++) {
    if (gpu->processes[i].pid == pid) return &gpu->processes[i];
    if (!gpu->processes[i].pid && !empty) empty = &gpu->processes[i];
  }
  if (!make || !empty) return NULL;
  *empty = (struct process){.pid = pid, .gi = NONE};
  return empty;
}

static inline const struct profile *profile_by_id(uint32_t id) {
  for (int i = 0; i < PROFILES; i++)
    if (PROFILE[i].id == id) return &PROFILE[i];
  return NULL;
}

/* A slice's part of the memory: eighths, a little less than its name says. */
static inline uint64_t profile_mib(const struct gpu *gpu, const struct profile *kind) { return gpu->mib * kind->memory / 8 - 128; }

static inline void gpu_uuid(uint32_t number, char *text, size_t size) {
  snprintf(text, size, "GPU-%08x-0000-4000-8000-000000000000", 0xa1b2c300u + number);
}
static inline void mig_uuid(uint32_t number, uint32_t gi, char *text, size_t size) {
  snprintf(text, size, "MIG-00000000-0000-4000-%04x-%012x", gi, number);
}
#endif
