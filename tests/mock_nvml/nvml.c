/* libnvidia-ml.so.1 without a GPU: what nvidia-ml-py asks for, behaving as the real one does in the cases that the executor meets. */
#include "state.h"

#include <dirent.h>
#include <errno.h>
#include <time.h>

#define API __attribute__((visibility("default"))) int
enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, PERMISSION = 4, NOT_FOUND = 6, SMALL = 7, NO_DRIVER = 9, TIMEOUT = 10,
       NO_FUNCTION = 13, LOST = 15, IN_USE = 19, RESOURCES = 23 };
enum { DEVICE = 0x1000, MIG = 0x100000, GI = 0x200000, CI = 0x300000, MAJOR_WITH_LIMITS = 615 };

enum { SETS = 8, DOUBLE_BIT = 2, XID = 8 };
static int ready;
static struct { int used; uint64_t seen, types[GPUS]; uint32_t losses[GPUS]; } sets[SETS]; /* of a GPU that was lost it is deaf */
typedef uintptr_t handle;

static handle make(handle sort, uint32_t gpu, uint32_t id) { return sort | (handle)gpu << 8 | id; }
static struct gpu *gpu_at(uint32_t number) { return shared && number < shared->count ? &shared->gpus[number] : NULL; }
static uint32_t number_of(handle h) { return (h & 0xFFFFF) >> 8; }
static int sort_of(handle h) { return h & ~(handle)0xFFFFF ? (int)(h & ~(handle)0xFFFFF) : 0; }
static uint32_t device_number(handle h) { return sort_of(h) ? number_of(h) : (uint32_t)(h - DEVICE) & 0xF; }
/* A GPU's handle is good until the GPU is lost: when it is back, it has another. */
static handle device(uint32_t gpu) { return DEVICE + (shared->gpus[gpu].losses % 1000 << 4) + gpu; }
static int stale(handle h) { return !sort_of(h) && h != device(device_number(h)); }

#define ENTER(h, gpu)                                    \
  if (!ready || !shared) return UNINITIALIZED;           \
  struct gpu *gpu = gpu_at(device_number((handle)(h)));  \
  if (!gpu) return INVALID;                              \
  if (gpu->lost || stale((handle)(h))) return LOST;
#define PRIVILEGED if (shared->no_permission) return PERMISSION;

static struct instance *instance_at(handle h) {
  struct gpu *gpu = gpu_at(number_of(h));
  for (int i = 0; gpu && i < INSTANCES; i++)
    if (gpu->instances[i].used && gpu->instances[i].id == (h & 0xFF)) return &gpu->instances[i];
  return NULL;
}

API nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  if (!state_map() || !(shared->count || shared->driver[0])) return NO_DRIVER;
  if (!ready++)
    for (uint32_t g = 0; g < shared->count; g++) shared->gpus[g].sunk = 0; /* what is there is looked at anew */
  return OK;
}
API nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API nvmlShutdown(void) {
  if (!ready) return UNINITIALIZED;
  if (!--ready) memset(sets, 0, sizeof sets);
  return OK;
}
__attribute__((visibility("default"))) const char *nvmlErrorString(int code) {
  switch (code) {
    case OK: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID: return "Invalid Argument";
    case UNSUPPORTED: return "Not Supported";
    case PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case SMALL: return "Insufficient Size";
    case NO_DRIVER: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case NO_FUNCTION: return "Function Not Found";
    case LOST: return "GPU is lost";
    case IN_USE: return "In use by another client";
    case RESOURCES: return "Insufficient Resources";
  }
  return "Unknown Error";
}

static int text(char *to, unsigned size, const char *from) { snprintf(to, size, "%s", from); return OK; }
API nvmlSystemGetDriverVersion(char *to, unsigned size) { return ready ? text(to, size, shared->driver) : UNINITIALIZED; }
API nvmlSystemGetNVMLVersion(char *to, unsigned size) { return text(to, size, "13.0"); }
API nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return OK; }
API nvmlDeviceGetCount_v2(unsigned *count) { if (!ready) return UNINITIALIZED; *count = shared->count; return OK; }
API nvmlDeviceGetHandleByIndex_v2(unsigned number, handle *h) {
  if (!ready) return UNINITIALIZED;
  struct gpu *gpu = gpu_at(number);
  if (!gpu) return INVALID;
  if (gpu->lost || gpu->sunk) return LOST;
  *h = device(number);
  return OK;
}
API nvmlDeviceGetUUID(handle h, char *to, unsigned size) {
  ENTER(h, gpu)
  if (sort_of(h) == MIG) mig_uuid(number_of(h), h & 0xFF, to, size); else gpu_uuid(device_number(h), to, size);
  return OK;
}
API nvmlDeviceGetHandleByUUID(const char *uuid, handle *h) {
  char known[96];
  for (uint32_t g = 0; ready && g < shared->count; g++) {
    gpu_uuid(g, known, sizeof known);
    if (!strcmp(known, uuid)) return nvmlDeviceGetHandleByIndex_v2(g, h);
    for (int i = 0; i < INSTANCES; i++) {
      struct instance *one = &shared->gpus[g].instances[i];
      mig_uuid(g, one->id, known, sizeof known);
      if (one->used && one->ci && !strcmp(known, uuid)) { *h = make(MIG, g, one->id); return OK; }
    }
  }
  return ready ? NOT_FOUND : UNINITIALIZED;
}
API nvmlDeviceGetName(handle h, char *to, unsigned size) { ENTER(h, gpu) return text(to, size, gpu->model); }
API nvmlDeviceGetIndex(handle h, unsigned *to) { ENTER(h, gpu) *to = device_number(h); return OK; }
API nvmlDeviceGetMinorNumber(handle h, unsigned *to) { ENTER(h, gpu) *to = device_number(h); return OK; }
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
API nvmlDeviceGetPciInfo_v3(handle h, struct pci *to) {
  ENTER(h, gpu)
  memset(to, 0, sizeof *to);
  to->bus = 2 + device_number(h);
  snprintf(to->bus_id, sizeof to->bus_id, "00000000:%02X:00.0", to->bus);
  snprintf(to->legacy, sizeof to->legacy, "0000:%02X:00.0", to->bus);
  return OK;
}
API nvmlDeviceGetHandleByPciBusId_v2(const char *bus, handle *h) {
  unsigned number;
  if (sscanf(bus, "%*x:%x:", &number) != 1) return INVALID;
  return nvmlDeviceGetHandleByIndex_v2(number - 2, h);
}
API nvmlDeviceGetPersistenceMode(handle h, unsigned *to) { ENTER(h, gpu) *to = gpu->persistence; return OK; }
API nvmlDeviceSetPersistenceMode(handle h, unsigned mode) { ENTER(h, gpu) PRIVILEGED gpu->persistence = mode; return OK; }
API nvmlDeviceGetComputeMode(handle h, unsigned *to) { ENTER(h, gpu) *to = gpu->compute_mode; return OK; }
API nvmlDeviceSetComputeMode(handle h, unsigned mode) { ENTER(h, gpu) PRIVILEGED gpu->compute_mode = mode; return OK; }

/* Peers: GPUs with the same number of `nvlink`, not 0, are linked. Kinds of access: 2 is NVLink. */

enum { BY_NVLINK = 2, P2P_OK = 0, P2P_NOT_SUPPORTED = 5 };
API nvmlDeviceGetP2PStatus(handle one, handle other, int kind, int *status) {
  ENTER(one, gpu)
  struct gpu *second = gpu_at(device_number(other));
  if (!second || kind < 0 || kind > 4) return INVALID;
  if (second->lost || stale(other)) return LOST;
  *status = kind == BY_NVLINK && gpu->nvlink && gpu->nvlink == second->nvlink ? P2P_OK : P2P_NOT_SUPPORTED;
  return OK;
}

/* Memory, use, processes */

static uint64_t used_mib(struct gpu *gpu, uint32_t gi) {
  uint64_t sum = 0;
  forget_the_dead(gpu);
  for (int i = 0; i < PROCESSES; i++)
    if (gpu->processes[i].pid && (gi == NONE || gpu->processes[i].gi == gi)) sum += gpu->processes[i].mib;
  return sum;
}
static uint64_t total_mib(struct gpu *gpu, handle h) {
  struct instance *one = sort_of(h) == MIG ? instance_at(h) : NULL;
  return one ? profile_mib(gpu, profile_by_id(one->profile)) : gpu->mib;
}
static uint32_t gi_of(handle h) { return sort_of(h) == MIG ? h & 0xFF : NONE; }
API nvmlDeviceGetMemoryInfo(handle h, uint64_t *to) {
  ENTER(h, gpu)
  uint64_t total = total_mib(gpu, h), used = used_mib(gpu, gi_of(h));
  to[0] = total * MIB; to[1] = (total - used) * MIB; to[2] = used * MIB;
  return OK;
}
struct memory2 { unsigned version; uint64_t total, reserved, free, used; };
API nvmlDeviceGetMemoryInfo_v2(handle h, struct memory2 *to) {
  ENTER(h, gpu)
  if (to->version != 0x02000028) return 25;
  uint64_t total = total_mib(gpu, h), used = used_mib(gpu, gi_of(h)), reserved = sort_of(h) == MIG ? 0 : 512;
  *to = (struct memory2){to->version, total * MIB, reserved * MIB, (total - used - reserved) * MIB, used * MIB};
  return OK;
}
API nvmlDeviceGetUtilizationRates(handle h, unsigned *to) {
  ENTER(h, gpu)
  if (gpu->mig) return UNSUPPORTED;
  to[0] = gpu->gpu_util; to[1] = gpu->mem_util;
  return OK;
}
struct process_info { unsigned pid; uint64_t used; unsigned gi, ci; };
static int processes(handle h, unsigned *count, struct process_info *to) {
  ENTER(h, gpu)
  unsigned found = 0, capacity = *count;
  forget_the_dead(gpu);
  for (int i = 0; i < PROCESSES; i++) {
    struct process *one = &gpu->processes[i];
    if (!one->pid || (sort_of(h) == MIG && one->gi != (h & 0xFF))) continue;
    if (to && found < capacity) to[found] = (struct process_info){one->pid, one->mib * MIB, one->gi, one->gi == NONE ? NONE : 0};
    found++;
  }
  *count = found;
  return found > capacity ? SMALL : OK;
}
API nvmlDeviceGetComputeRunningProcesses_v3(handle h, unsigned *count, struct process_info *to) { return processes(h, count, to); }
API nvmlDeviceGetMPSComputeRunningProcesses_v3(handle h, unsigned *count, void *to) { (void)to; ENTER(h, gpu) *count = 0; return OK; }
API nvmlDeviceGetGraphicsRunningProcesses_v3(handle h, unsigned *count, void *to) { (void)to; ENTER(h, gpu) *count = 0; return OK; }
struct sample { unsigned pid; uint64_t at; unsigned sm, mem, enc, dec; };
API nvmlDeviceGetProcessUtilization(handle h, struct sample *to, unsigned *count, uint64_t since) {
  (void)since;
  ENTER(h, gpu)
  if (gpu->mig) return UNSUPPORTED;
  unsigned found = 0, capacity = *count;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  forget_the_dead(gpu);
  for (int i = 0; i < PROCESSES; i++) {
    struct process *one = &gpu->processes[i];
    if (!one->pid) continue;
    if (to && found < capacity) to[found] = (struct sample){one->pid, now.tv_sec * 1000000ull + now.tv_nsec / 1000, one->sm, one->sm / 2, 0, 0};
    found++;
  }
  *count = found;
  return !found ? NOT_FOUND : found > capacity || !to ? SMALL : OK;
}

/* MIG */

API nvmlDeviceGetMigMode(handle h, unsigned *current, unsigned *pending) {
  ENTER(h, gpu)
  if (!gpu->mig_capable) return UNSUPPORTED;
  *current = *pending = gpu->mig;
  return OK;
}
API nvmlDeviceSetMigMode(handle h, unsigned mode, int *activation) {
  ENTER(h, gpu)
  PRIVILEGED
  if (!gpu->mig_capable) return UNSUPPORTED;
  *activation = used_mib(gpu, NONE) ? IN_USE : OK;
  if (*activation == OK) gpu->mig = mode;
  return OK;
}
API nvmlDeviceGetMaxMigDeviceCount(handle h, unsigned *to) { ENTER(h, gpu) *to = gpu->mig_capable ? 7 : 0; return OK; }
API nvmlDeviceIsMigDeviceHandle(handle h, unsigned *to) { *to = sort_of(h) == MIG; return OK; }
API nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle h, handle *to) {
  if (sort_of(h) != MIG) return INVALID;
  *to = device(number_of(h));
  return OK;
}
API nvmlDeviceGetMigDeviceHandleByIndex(handle h, unsigned number, handle *to) {
  ENTER(h, gpu)
  if (!gpu->mig) return UNSUPPORTED;
  if (number >= INSTANCES) return INVALID;
  struct instance *one = &gpu->instances[number];
  if (!one->used || !one->ci) return NOT_FOUND;
  *to = make(MIG, device_number(h), one->id);
  return OK;
}
API nvmlDeviceGetGpuInstanceId(handle h, unsigned *to) { if (sort_of(h) != MIG) return INVALID; *to = h & 0xFF; return OK; }
API nvmlDeviceGetComputeInstanceId(handle h, unsigned *to) { if (sort_of(h) != MIG) return INVALID; *to = 0; return OK; }
struct attributes { unsigned sm, ce, dec, enc, jpeg, ofa, gi, ci; uint64_t mib; };
API nvmlDeviceGetAttributes_v2(handle h, struct attributes *to) {
  ENTER(h, gpu)
  struct instance *one = sort_of(h) == MIG ? instance_at(h) : NULL;
  if (!one) return UNSUPPORTED;
  const struct profile *kind = profile_by_id(one->profile);
  *to = (struct attributes){kind->compute * 16, 1, 0, 0, 0, 0, kind->compute, kind->compute, profile_mib(gpu, kind)};
  return OK;
}
struct gi_profile { unsigned version, id, p2p, slices, instances, sm, ce, dec, enc, jpeg, ofa; uint64_t mib; char name[96]; };
API nvmlDeviceGetGpuInstanceProfileInfoV(handle h, unsigned kind, struct gi_profile *to) {
  ENTER(h, gpu)
  if (to->version != 0x02000098) return 25;
  if (kind >= 0x12) return INVALID;
  for (int i = 0; gpu->mig_capable && i < PROFILES; i++) {
    const struct profile *one = &PROFILE[i];
    if (one->kind != kind) continue;
    *to = (struct gi_profile){to->version, one->id, 0, one->compute, one->most, one->compute * 16, 1, 0, 0, 0, 0, profile_mib(gpu, one), ""};
    unsigned gb = (unsigned)((gpu->mib * one->memory / 8 + 1023) / 1024);
    snprintf(to->name, sizeof to->name, "MIG %ug.%ugb%s", one->compute, gb, one->suffix);
    return OK;
  }
  return UNSUPPORTED;
}
API nvmlDeviceGetGpuInstancePossiblePlacements_v2(handle h, unsigned id, unsigned (*to)[2], unsigned *count) {
  ENTER(h, gpu)
  PRIVILEGED
  const struct profile *kind = profile_by_id(id);
  if (!kind) return INVALID;
  unsigned found = 0;
  for (unsigned start = 0; start < 8; start++)
    if (kind->starts >> start & 1) {
      if (to) { to[found][0] = start; to[found][1] = kind->memory; }
      found++;
    }
  *count = found;
  return OK;
}
static int fits(struct gpu *gpu, const struct profile *kind, unsigned start) {
  unsigned compute = kind->compute, same = 1, taken = ((1u << kind->memory) - 1) << start;
  if (!(kind->starts >> start & 1)) return 0;
  for (int i = 0; i < INSTANCES; i++) {
    struct instance *one = &gpu->instances[i];
    if (!one->used) continue;
    compute += profile_by_id(one->profile)->compute;
    same += one->profile == kind->id;
    if ((((1u << one->size) - 1) << one->start) & taken) return 0;
  }
  return compute <= 7 && same <= kind->most;
}
API nvmlDeviceGetGpuInstanceRemainingCapacity(handle h, unsigned id, unsigned *to) {
  ENTER(h, gpu)
  PRIVILEGED
  const struct profile *kind = profile_by_id(id);
  if (!gpu->mig) return UNSUPPORTED;
  if (!kind) return INVALID;
  *to = 0;
  for (unsigned start = 0; start < 8; start++) *to += fits(gpu, kind, start);
  return OK;
}
/* Changes of instances are slow in a real driver, and two at once make trouble: how many are inside at once is counted. */
static void inside(int by) {
  state_lock();
  shared->inside += by;
  shared->calls += by > 0;
  if (shared->inside > shared->most_inside) shared->most_inside = shared->inside;
  state_unlock();
  if (by > 0) usleep(shared->latency_ms * 1000);
}
struct placement { unsigned start, size; };
static int create(handle h, unsigned id, const struct placement *place, handle *to) {
  ENTER(h, gpu)
  PRIVILEGED
  const struct profile *kind = profile_by_id(id);
  if (!gpu->mig) return UNSUPPORTED;
  if (!kind || place->size != kind->memory) return INVALID;
  if (shared->refuse_create) { shared->refuse_create--; return RESOURCES; }
  if (!fits(gpu, kind, place->start)) return RESOURCES;
  for (int i = 0; i < INSTANCES; i++) {
    if (gpu->instances[i].used) continue;
    uint32_t number = gpu->next_id++ % 200 + 1;
    gpu->instances[i] = (struct instance){1, number, kind->id, place->start, kind->memory, 0};
    *to = make(GI, device_number(h), number);
    return OK;
  }
  return RESOURCES;
}
API nvmlDeviceCreateGpuInstanceWithPlacement(handle h, unsigned id, const struct placement *place, handle *to) {
  if (!ready) return UNINITIALIZED;
  inside(1);
  state_lock();
  int code = create(h, id, place, to);
  state_unlock();
  inside(-1);
  return code;
}
static int in_use(struct gpu *gpu, uint32_t gi) {
  forget_the_dead(gpu);
  for (int i = 0; i < PROCESSES; i++)
    if (gpu->processes[i].pid && gpu->processes[i].gi == gi) return 1;
  return gpu->stuck != 0;
}
API nvmlGpuInstanceDestroy(handle h) {
  ENTER(h, gpu)
  PRIVILEGED
  inside(1);
  state_lock();
  struct instance *one = instance_at(h);
  int code = !one ? INVALID : one->ci || in_use(gpu, one->id) ? IN_USE : OK;
  if (code == OK) memset(one, 0, sizeof *one);
  state_unlock();
  inside(-1);
  return code;
}
API nvmlDeviceGetGpuInstances(handle h, unsigned id, handle *to, unsigned *count) {
  ENTER(h, gpu)
  PRIVILEGED
  unsigned found = 0;
  for (int i = 0; gpu->mig && i < INSTANCES; i++)
    if (gpu->instances[i].used && gpu->instances[i].profile == id) to[found++] = make(GI, device_number(h), gpu->instances[i].id);
  *count = found;
  return OK;
}
API nvmlDeviceGetGpuInstanceById(handle h, unsigned id, handle *to) {
  ENTER(h, gpu)
  PRIVILEGED
  *to = make(GI, device_number(h), id);
  return instance_at(*to) ? OK : NOT_FOUND;
}
struct gi_info { handle device; unsigned id, profile; struct placement place; };
API nvmlGpuInstanceGetInfo(handle h, struct gi_info *to) {
  ENTER(h, gpu)
  struct instance *one = instance_at(h);
  if (!one) return INVALID;
  *to = (struct gi_info){device(number_of(h)), one->id, one->profile, {one->start, one->size}};
  return OK;
}
struct ci_profile { unsigned version, id, slices, instances, sm, ce, dec, enc, jpeg, ofa; char name[96]; };
API nvmlGpuInstanceGetComputeInstanceProfileInfoV(handle h, unsigned kind, unsigned engine, struct ci_profile *to) {
  (void)engine;
  ENTER(h, gpu)
  if (to->version != 0x02000088) return 25;
  static const unsigned SLICES[] = {1, 2, 3, 4, 7};
  struct instance *one = instance_at(h);
  if (!one) return INVALID;
  if (kind > 4 || SLICES[kind] > profile_by_id(one->profile)->compute) return UNSUPPORTED;
  *to = (struct ci_profile){to->version, kind, SLICES[kind], 1, SLICES[kind] * 16, 1, 0, 0, 0, 0, ""};
  return OK;
}
API nvmlGpuInstanceCreateComputeInstance(handle h, unsigned id, handle *to) {
  ENTER(h, gpu)
  PRIVILEGED
  struct instance *one = instance_at(h);
  if (!one) return INVALID;
  if (id > 4) return INVALID;
  if (one->ci || shared->refuse_create > 100) return RESOURCES;
  one->ci = 1;
  *to = make(CI, number_of(h), one->id);
  return OK;
}
struct ci_info { handle device, gi; unsigned id, profile; struct placement place; };
API nvmlComputeInstanceGetInfo_v2(handle h, struct ci_info *to) {
  ENTER(h, gpu)
  struct instance *one = instance_at(h);
  if (!one || !one->ci) return INVALID;
  *to = (struct ci_info){make(MIG, number_of(h), one->id), make(GI, number_of(h), one->id), 0, 0, {0, 1}};
  return OK;
}
API nvmlGpuInstanceGetComputeInstances(handle h, unsigned id, handle *to, unsigned *count) {
  ENTER(h, gpu)
  struct instance *one = instance_at(h);
  if (!one) return INVALID;
  unsigned widest = profile_by_id(one->profile)->compute == 7 ? 4 : profile_by_id(one->profile)->compute - 1;
  *count = one->ci && id == widest;
  if (*count) *to = make(CI, number_of(h), one->id);
  return OK;
}
API nvmlGpuInstanceGetComputeInstanceById(handle h, unsigned id, handle *to) {
  ENTER(h, gpu)
  struct instance *one = instance_at(h);
  if (!one || !one->ci || id) return NOT_FOUND;
  *to = make(CI, number_of(h), one->id);
  return OK;
}
API nvmlComputeInstanceDestroy(handle h) {
  ENTER(h, gpu)
  PRIVILEGED
  state_lock();
  struct instance *one = instance_at(h);
  int code = !one || !one->ci ? INVALID : in_use(gpu, one->id) ? IN_USE : OK;
  if (code == OK) one->ci = 0;
  state_unlock();
  return code;
}

/* Health */

API nvmlDeviceGetRemappedRows(handle h, unsigned *corr, unsigned *unc, unsigned *pending, unsigned *failure) {
  ENTER(h, gpu)
  for (int i = 0; i < INSTANCES; i++)
    if (gpu->instances[i].used) return UNSUPPORTED;
  *corr = 0; *unc = gpu->remap_pending + gpu->remap_failure; *pending = gpu->remap_pending; *failure = gpu->remap_failure;
  return OK;
}
API nvmlDeviceGetTotalEccErrors(handle h, unsigned type, unsigned counter, uint64_t *to) {
  ENTER(h, gpu)
  *to = type == 1 && counter == 0 ? gpu->ecc : 0;
  return OK;
}
struct field { unsigned id, scope; int64_t at, took; unsigned type, code; union { unsigned u; uint64_t ull; } value; };
API nvmlDeviceGetFieldValues(handle h, int count, struct field *to) {
  ENTER(h, gpu)
  for (int i = 0; i < count; i++) {
    to[i].code = to[i].id == 230 ? OK : UNSUPPORTED;
    to[i].type = 1;
    to[i].value.ull = 0;
    to[i].value.u = gpu->recovery;
  }
  return OK;
}
API nvmlEventSetCreate(handle *to) {
  if (!ready) return UNINITIALIZED;
  for (int i = 0; i < SETS; i++)
    if (!sets[i].used) {
      memset(&sets[i], 0, sizeof sets[i]);
      sets[i].used = 1;
      sets[i].seen = shared->next_event;
      *to = (handle)(i + 1);
      return OK;
    }
  return RESOURCES;
}
API nvmlEventSetFree(handle set) { if (set < 1 || set > SETS) return INVALID; sets[set - 1].used = 0; return OK; }
API nvmlDeviceGetSupportedEventTypes(handle h, uint64_t *to) { ENTER(h, gpu) *to = XID | DOUBLE_BIT; return OK; }
API nvmlDeviceRegisterEvents(handle h, uint64_t types, handle set) {
  ENTER(h, gpu)
  if (set < 1 || set > SETS) return INVALID;
  if (types & ~(uint64_t)(XID | DOUBLE_BIT)) return UNSUPPORTED;
  sets[set - 1].types[device_number(h)] |= types;
  sets[set - 1].losses[device_number(h)] = gpu->losses;
  return OK;
}
struct event_data { handle device; uint64_t type, data; unsigned gi, ci; };
API nvmlEventSetWait_v2(handle set, struct event_data *to, unsigned timeout_ms) {
  if (!ready) return UNINITIALIZED;
  if (set < 1 || set > SETS || !sets[set - 1].used) return INVALID;
  for (unsigned waited = 0;; waited += 5) {
    for (uint32_t g = 0; g < shared->count; g++)
      if (shared->gpus[g].lost && sets[set - 1].types[g]) return LOST;
    while (sets[set - 1].seen < shared->next_event) {
      struct event *one = &shared->events[sets[set - 1].seen++ % EVENTS];
      if (!(sets[set - 1].types[one->gpu] & one->type) || sets[set - 1].losses[one->gpu] != shared->gpus[one->gpu].losses) continue;
      *to = (struct event_data){device(one->gpu), one->type, one->data, one->gi, NONE};
      return OK;
    }
    if (waited >= timeout_ms) return TIMEOUT;
    usleep(5000);
  }
}

/* Memory limits of cgroups, from driver 615 on */

struct set_limit { const char *space; uint64_t soft, hard; };
struct get_limit { const char *space; uint64_t soft, hard, used; };
static struct limit *limit_of(uint32_t gpu, const char *space, int make_one) {
  struct limit *empty = NULL;
  for (int i = 0; i < LIMITS; i++) {
    struct limit *one = &shared->limits[i];
    if (one->used && one->gpu == gpu && !strcmp(one->space, space)) return one;
    if (!one->used && !empty) empty = one;
  }
  if (!make_one || !empty) return NULL;
  memset(empty, 0, sizeof *empty);
  empty->used = 1; empty->gpu = gpu;
  snprintf(empty->space, sizeof empty->space, "%s", space);
  return empty;
}
API nvmlDeviceSetMemoryLimits_v1(handle h, const struct set_limit *to) {
  ENTER(h, gpu)
  if (atoi(shared->driver) < MAJOR_WITH_LIMITS) return NO_FUNCTION;
  PRIVILEGED
  if (sort_of(h) == MIG || gpu->mig) return UNSUPPORTED;
  if (!to->space || access(to->space, F_OK) || to->soft > to->hard) return INVALID;
  state_lock();
  struct limit *one = limit_of(device_number(h), to->space, 1);
  if (one && to->soft == 0 && to->hard == UINT64_MAX) memset(one, 0, sizeof *one);
  else if (one) { one->soft = to->soft; one->hard = to->hard; }
  state_unlock();
  return one ? OK : RESOURCES;
}
API nvmlDeviceGetMemoryLimits_v1(handle h, struct get_limit *to) {
  ENTER(h, gpu)
  if (atoi(shared->driver) < MAJOR_WITH_LIMITS) return NO_FUNCTION;
  struct limit *one = limit_of(device_number(h), to->space, 0);
  if (!one) return NOT_FOUND;
  to->soft = one->soft; to->hard = one->hard; to->used = 0;
  return OK;
}

/* What a test says */

API mockReset(const char *driver, const char *model, unsigned count, uint64_t mib, unsigned mig_capable) {
  if (!state_map()) return NO_DRIVER;
  state_lock();
  memset(shared, 0, sizeof *shared);
  snprintf(shared->driver, sizeof shared->driver, "%s", driver);
  shared->count = count;
  for (unsigned g = 0; g < count && g < GPUS; g++) {
    snprintf(shared->gpus[g].model, sizeof shared->gpus[g].model, "%s", model);
    shared->gpus[g].mib = mib;
    shared->gpus[g].mig_capable = mig_capable;
  }
  state_unlock();
  return OK;
}
static uint32_t *knob(unsigned gpu, const char *name) {
  struct gpu *one = &shared->gpus[gpu];
  struct { const char *name; uint32_t *at; } knobs[] = {
    {"lost", &one->lost}, {"sunk", &one->sunk}, {"recovery", &one->recovery}, {"remap_pending", &one->remap_pending}, {"remap_failure", &one->remap_failure},
    {"ecc", &one->ecc}, {"gpu_util", &one->gpu_util}, {"mem_util", &one->mem_util}, {"stuck", &one->stuck}, {"mig", &one->mig},
    {"compute_mode", &one->compute_mode}, {"mps", &one->mps}, {"nvlink", &one->nvlink}, {"no_permission", &shared->no_permission}, {"flat_limits", &shared->flat_limits}, {"latency_ms", &shared->latency_ms},
    {"most_inside", &shared->most_inside}, {"calls", &shared->calls}, {"refuse_create", &shared->refuse_create},
  };
  for (unsigned i = 0; i < sizeof knobs / sizeof *knobs; i++)
    if (!strcmp(knobs[i].name, name)) return knobs[i].at;
  return NULL;
}
API mockSet(unsigned gpu, const char *name, unsigned value) {
  uint32_t *at = state_map() && gpu < GPUS ? knob(gpu, name) : NULL;
  if (!at) return INVALID;
  if (at == &shared->gpus[gpu].lost && value && !*at) shared->gpus[gpu].losses++;
  *at = value;
  return OK;
}
API mockGet(unsigned gpu, const char *name) {
  uint32_t *at = state_map() && gpu < GPUS ? knob(gpu, name) : NULL;
  return at ? (int)*at : -1;
}
API mockAddProc(unsigned gpu, unsigned pid, unsigned gi, uint64_t mib, unsigned sm) {
  if (!state_map() || gpu >= GPUS) return INVALID;
  state_lock();
  forget_the_dead(&shared->gpus[gpu]);
  struct process *one = process_of(&shared->gpus[gpu], pid, 1);
  if (one) *one = (struct process){pid, gi, sm, mib};
  state_unlock();
  return one ? OK : RESOURCES;
}
API mockDelProc(unsigned gpu, unsigned pid) {
  struct process *one = state_map() && gpu < GPUS ? process_of(&shared->gpus[gpu], pid, 0) : NULL;
  if (!one) return NOT_FOUND;
  memset(one, 0, sizeof *one);
  return OK;
}
API mockEvent(unsigned gpu, uint64_t type, uint64_t data) {
  if (!state_map() || gpu >= GPUS) return INVALID;
  state_lock();
  shared->events[shared->next_event % EVENTS] = (struct event){gpu, NONE, type, data};
  shared->next_event++;
  state_unlock();
  return OK;
}
