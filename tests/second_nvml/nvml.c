/* A second mock of NVML, written from NVML's header (its documentation) alone, beside `tests/mock_nvml`, whose sources were not read for it.
 *
 * What the documentation leaves open is decided against the caller: a lookup by UUID that meets a lost GPU on its way fails, a call whose
 * documentation names no code for a lost GPU says "unknown error", the order of indices changes with each boot, and slices do not
 * survive one. Handles are numbers and never addresses, so that a stale one is recognised. All state is in one file that every process
 * of a test maps (SECOND_NVML_STATE); what tests change goes through the functions at the end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, TIMEOUT = 10, FUNCTION_NOT_FOUND = 13, GPU_IS_LOST = 15, IN_USE = 19, INSUFFICIENT_RESOURCES = 23,
    UNKNOWN = 999
};
enum { GPUS = 8, SLICES = 8, PROCESSES = 64, EVENTS = 256, PROFILES = 18, NAME = 96 };
#define MIB (1024ull * 1024ull)
#define NOT_AVAILABLE UINT64_MAX
#define DOUBLE_BIT 2ull
#define XID 8ull
#define RECOVERY_ACTION 230
#define NO_INSTANCE UINT32_MAX

typedef struct { int made, id, profile, start, size, compute; } slice; /* `compute`: whether its compute instance 0 is there */
typedef struct { int alive, pid, gpu, sm, instance; uint64_t mib; } process;
typedef struct { uint64_t number, type, data; int gpu; } event;
typedef struct {
    char model[NAME];
    uint64_t mib;
    uint32_t seen; /* how often it came back; a handle of before is one of a lost GPU */
    int can_mig;
    slice slices[SLICES];
    int lost, sunk, mig, gpu_util, mem_util, recovery, remap_pending, remap_failure, ecc, compute_mode, stuck, refuse_create, unanswered,
        hidden_memory, nvlink;
} gpu;
typedef struct {
    pthread_mutex_t lock;
    char driver[80];
    int count, no_permission, latency_ms, inside, most_inside, calls;
    uint32_t boot;
    int order[GPUS]; /* NVML's index -> the GPU */
    uint64_t happened;
    event events[EVENTS];
    process processes[PROCESSES];
    gpu gpus[GPUS];
} state;

static state *all;
static int begun;
static uint32_t boot_seen;

static state *here(void) {
    if (all == NULL) {
        const char *path = getenv("SECOND_NVML_STATE");
        int file = path == NULL ? -1 : open(path, O_RDWR | O_CREAT, 0600);
        if (file < 0) { fprintf(stderr, "second mock of NVML: SECOND_NVML_STATE names no file\n"); abort(); }
        struct stat found;
        if (fstat(file, &found) != 0 || (found.st_size < (off_t)sizeof(state) && ftruncate(file, sizeof(state)) != 0)) abort();
        all = mmap(NULL, sizeof(state), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (all == MAP_FAILED) abort();
        close(file);
        if (found.st_size < (off_t)sizeof(state)) {
            pthread_mutexattr_t shared;
            pthread_mutexattr_init(&shared);
            pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
            pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
            pthread_mutex_init(&all->lock, &shared);
        }
    }
    return all;
}

static void lock(void) { if (pthread_mutex_lock(&here()->lock) == EOWNERDEAD) pthread_mutex_consistent(&all->lock); }
static int unlock(int code) { pthread_mutex_unlock(&all->lock); return code; }

static void pause_ms(int ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

/* Handles: kind (4 bits), boot (8), times seen (8), GPU (8), slice (8). */
enum { DEVICE = 1, MIG_DEVICE = 2, GPU_INSTANCE = 3, COMPUTE_INSTANCE = 4 };
typedef uintptr_t handle;

static handle handle_of(int kind, int number, int instance) {
    return (handle)kind << 32 | (handle)(all->boot & 255) << 24 | (handle)(all->gpus[number].seen & 255) << 16 | (handle)number << 8 | instance;
}

/* The GPU behind a handle; with the lock held. */
static int behind(handle of, int kind, gpu **found, slice **part) {
    if (begun == 0) return UNINITIALIZED;
    if (of >> 32 != (handle)kind || (of >> 8 & 255) >= (handle)all->count || (of >> 24 & 255) != (all->boot & 255)) return INVALID_ARGUMENT;
    *found = &all->gpus[of >> 8 & 255];
    if ((*found)->lost || (*found)->sunk || (of >> 16 & 255) != ((*found)->seen & 255)) return GPU_IS_LOST;
    if ((*found)->unanswered) return UNKNOWN;
    if (part == NULL) return SUCCESS;
    for (*part = (*found)->slices; *part < (*found)->slices + SLICES; (*part)++)
        if ((*part)->made && (*part)->id == (int)(of & 255)) return SUCCESS;
    return INVALID_ARGUMENT;
}

#define LOOK_UP(of, kind, part) \
    gpu *it; \
    lock(); \
    { int wrong = behind((handle)(of), kind, &it, part); if (wrong) return unlock(wrong); }

static int text(char *target, unsigned length, const char *value) {
    if (target == NULL) return INVALID_ARGUMENT;
    if (strlen(value) + 1 > length) return INSUFFICIENT_SIZE;
    strcpy(target, value);
    return SUCCESS;
}

/* Begin and end */

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    lock();
    if (all->driver[0] == 0) return unlock(DRIVER_NOT_LOADED);
    if (begun++ == 0 || boot_seen != all->boot) {
        boot_seen = all->boot;
        for (int number = 0; number < all->count; number++)
            if (!all->gpus[number].lost && all->gpus[number].sunk) { all->gpus[number].sunk = 0; all->gpus[number].seen++; }
    }
    return unlock(SUCCESS);
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    lock();
    if (begun == 0) return unlock(UNINITIALIZED);
    begun--;
    return unlock(SUCCESS);
}

const char *nvmlErrorString(int code) {
    switch (code) {
    case SUCCESS: return "The operation was successful";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case FUNCTION_NOT_FOUND: return "Function Not Found";
    case GPU_IS_LOST: return "GPU is lost";
    case IN_USE: return "In use by another client";
    case INSUFFICIENT_RESOURCES: return "Insufficient Resources";
    default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    lock();
    return unlock(begun == 0 ? UNINITIALIZED : text(version, length, all->driver));
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    if (version == NULL) return INVALID_ARGUMENT;
    *version = 13000;
    return SUCCESS;
}

/* Which GPUs there are */

int nvmlDeviceGetCount_v2(unsigned *count) {
    lock();
    if (begun == 0) return unlock(UNINITIALIZED);
    if (count == NULL) return unlock(INVALID_ARGUMENT);
    *count = all->count;
    return unlock(SUCCESS);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *device) {
    lock();
    if (begun == 0) return unlock(UNINITIALIZED);
    if (device == NULL || index >= (unsigned)all->count) return unlock(INVALID_ARGUMENT);
    int number = all->order[index];
    if (all->gpus[number].lost || all->gpus[number].sunk) return unlock(GPU_IS_LOST);
    *device = handle_of(DEVICE, number, 0);
    return unlock(SUCCESS);
}

static void uuid_of(int number, char *target) { sprintf(target, "GPU-a1b2c30%d-0000-4000-8000-000000000000", number); }

/* "GPU_IS_LOST if any GPU has fallen off the bus": it looks at one after the other, and a lost one ends the search. */
int nvmlDeviceGetHandleByUUID(const char *uuid, handle *device) {
    lock();
    if (begun == 0) return unlock(UNINITIALIZED);
    if (uuid == NULL || device == NULL || strncmp(uuid, "GPU-", 4) != 0) return unlock(INVALID_ARGUMENT);
    for (int index = 0; index < all->count; index++) {
        int number = all->order[index];
        char own[80];
        if (all->gpus[number].lost) return unlock(GPU_IS_LOST);
        if (all->gpus[number].sunk) continue;
        uuid_of(number, own);
        if (strcmp(own, uuid) == 0) { *device = handle_of(DEVICE, number, 0); return unlock(SUCCESS); }
    }
    return unlock(NOT_FOUND);
}

int nvmlDeviceGetUUID(handle device, char *uuid, unsigned length) {
    char own[80];
    if (device >> 32 == MIG_DEVICE) {
        slice *part;
        LOOK_UP(device, MIG_DEVICE, &part);
        sprintf(own, "MIG-a1b2c30%d-0000-4000-8000-%012d", (int)(it - all->gpus), part->id);
        return unlock(text(uuid, length, own));
    }
    LOOK_UP(device, DEVICE, NULL);
    uuid_of(it - all->gpus, own);
    return unlock(text(uuid, length, own));
}

int nvmlDeviceGetName(handle device, char *name, unsigned length) {
    LOOK_UP(device, DEVICE, NULL);
    return unlock(text(name, length, it->model));
}

int nvmlDeviceGetIndex(handle device, unsigned *index) {
    LOOK_UP(device, DEVICE, NULL);
    for (int at = 0; at < all->count; at++)
        if (all->order[at] == it - all->gpus) *index = at;
    return unlock(SUCCESS);
}

int nvmlDeviceGetMinorNumber(handle device, unsigned *minor) {
    LOOK_UP(device, DEVICE, NULL);
    *minor = it - all->gpus;
    return unlock(SUCCESS);
}

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci;

int nvmlDeviceGetPciInfo_v3(handle device, pci *info) {
    LOOK_UP(device, DEVICE, NULL);
    memset(info, 0, sizeof *info);
    info->bus = 2 + (it - all->gpus);
    sprintf(info->legacy, "0000:%02X:00.0", info->bus);
    sprintf(info->bus_id, "00000000:%02X:00.0", info->bus);
    return unlock(SUCCESS);
}

/* What is on them */

static int is_on(const process *one, const gpu *it) {
    return one->alive && one->gpu == it - all->gpus && (kill(one->pid, 0) == 0 || errno != ESRCH);
}

typedef struct { unsigned long long total, free, used; } memory;

int nvmlDeviceGetMemoryInfo(handle device, memory *info) {
    LOOK_UP(device, DEVICE, NULL);
    info->total = it->mib * MIB;
    info->used = 0;
    for (int at = 0; at < PROCESSES; at++)
        if (is_on(&all->processes[at], it)) info->used += all->processes[at].mib * MIB;
    info->free = info->total - info->used;
    return unlock(SUCCESS);
}

/* The documentation names no code for a lost GPU here. GPUs are linked whose `nvlink`, a set of bits, has one in common: a bridge each. */
int nvmlDeviceGetP2PStatus(handle device, handle other, unsigned index, unsigned *status) {
    LOOK_UP(device, DEVICE, NULL);
    gpu *peer;
    if (behind(other, DEVICE, &peer, NULL) != SUCCESS) return unlock(UNKNOWN);
    if (status == NULL || index > 4) return unlock(INVALID_ARGUMENT);
    if (index != 2) { *status = 5; return unlock(SUCCESS); }
    *status = it == peer ? 6 : it->nvlink & peer->nvlink ? 0 : 5;
    return unlock(SUCCESS);
}

typedef struct { unsigned pid; unsigned long long memory; unsigned instance, compute; } running;

int nvmlDeviceGetComputeRunningProcesses_v3(handle device, unsigned *count, running *infos) {
    LOOK_UP(device, DEVICE, NULL);
    if (count == NULL) return unlock(INVALID_ARGUMENT);
    unsigned there = 0;
    for (int at = 0; at < PROCESSES; at++) {
        process *one = &all->processes[at];
        if (!is_on(one, it)) continue;
        if (there < *count && infos != NULL) {
            running result = {one->pid, it->hidden_memory ? NOT_AVAILABLE : one->mib * MIB, NO_INSTANCE, NO_INSTANCE};
            if (one->instance >= 0) { result.instance = one->instance; result.compute = 0; }
            infos[there] = result;
        }
        there++;
    }
    int code = there > *count ? INSUFFICIENT_SIZE : SUCCESS;
    *count = there;
    return unlock(code);
}

typedef struct { unsigned gpu, memory; } rates;

int nvmlDeviceGetUtilizationRates(handle device, rates *found) {
    LOOK_UP(device, DEVICE, NULL);
    if (it->mig) return unlock(NOT_SUPPORTED);
    found->gpu = it->gpu_util;
    found->memory = it->mem_util;
    return unlock(SUCCESS);
}

typedef struct { unsigned pid; unsigned long long at; unsigned sm, memory, encoder, decoder; } sample;

int nvmlDeviceGetProcessUtilization(handle device, sample *found, unsigned *count, unsigned long long since) {
    (void)since;
    LOOK_UP(device, DEVICE, NULL);
    if (it->mig) return unlock(NOT_SUPPORTED);
    unsigned there = 0;
    for (int at = 0; at < PROCESSES; at++) {
        process *one = &all->processes[at];
        if (!is_on(one, it) || one->sm == 0) continue;
        if (found != NULL && there < *count) {
            sample result = {one->pid, since + 1, one->sm, 0, 0, 0};
            found[there] = result;
        }
        there++;
    }
    if (there == 0) return unlock(NOT_FOUND);
    int code = found == NULL ? INSUFFICIENT_SIZE : SUCCESS;
    *count = there;
    return unlock(code);
}

int nvmlDeviceGetComputeMode(handle device, unsigned *mode) {
    LOOK_UP(device, DEVICE, NULL);
    if (it->mig) return unlock(NOT_SUPPORTED); /* "if MIG is enabled on a GPU, device must be MIG device handle" */
    *mode = it->compute_mode;
    return unlock(SUCCESS);
}

/* Health */

typedef struct {
    uint32_t field, scope;
    int64_t at, latency;
    unsigned type;
    int code;
    union { double d; unsigned u; unsigned long long ull; } value;
} field_value;

int nvmlDeviceGetFieldValues(handle device, int count, field_value *values) {
    gpu *it;
    lock();
    int wrong = behind(device, DEVICE, &it, NULL);
    if (wrong == UNINITIALIZED || wrong == INVALID_ARGUMENT) return unlock(wrong);
    for (int at = 0; at < count; at++) {
        values[at].code = wrong ? wrong : values[at].field == RECOVERY_ACTION ? SUCCESS : NOT_SUPPORTED;
        values[at].type = 1;
        values[at].value.ull = 0;
        if (values[at].code == SUCCESS) values[at].value.u = it->recovery;
    }
    return unlock(SUCCESS);
}

int nvmlDeviceGetRemappedRows(handle device, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failed) {
    gpu *it;
    lock();
    int wrong = behind(device, DEVICE, &it, NULL);
    if (wrong) return unlock(wrong == INVALID_ARGUMENT ? wrong : UNKNOWN); /* its documentation has no code for a lost GPU */
    if (it->mig) return unlock(NOT_SUPPORTED);
    *correctable = *uncorrectable = 0;
    *pending = it->remap_pending;
    *failed = it->remap_failure;
    return unlock(SUCCESS);
}

int nvmlDeviceGetTotalEccErrors(handle device, unsigned error, unsigned counter, unsigned long long *count) {
    LOOK_UP(device, DEVICE, NULL);
    if (error > 1 || counter > 1) return unlock(INVALID_ARGUMENT);
    *count = error == 1 ? it->ecc : 0;
    return unlock(SUCCESS);
}

/* Events */

typedef struct { uint64_t types[GPUS], since[GPUS], delivered; uint32_t boot; handle devices[GPUS]; } event_set;
typedef struct { handle device; unsigned long long type, data; unsigned instance, compute; } event_data;

int nvmlDeviceGetSupportedEventTypes(handle device, unsigned long long *types) {
    LOOK_UP(device, DEVICE, NULL);
    *types = XID | DOUBLE_BIT;
    return unlock(SUCCESS);
}

int nvmlEventSetCreate(event_set **set) {
    lock();
    if (begun == 0) return unlock(UNINITIALIZED);
    *set = calloc(1, sizeof **set);
    (*set)->delivered = all->happened;
    (*set)->boot = all->boot;
    return unlock(SUCCESS);
}

int nvmlEventSetFree(event_set *set) {
    lock();
    if (begun == 0) return unlock(UNINITIALIZED);
    free(set);
    return unlock(SUCCESS);
}

int nvmlDeviceRegisterEvents(handle device, unsigned long long types, event_set *set) {
    LOOK_UP(device, DEVICE, NULL);
    if (types & ~(XID | DOUBLE_BIT)) return unlock(NOT_SUPPORTED);
    int number = it - all->gpus;
    all->calls++;
    set->types[number] |= types;
    set->since[number] = all->happened;
    set->devices[number] = device;
    return unlock(SUCCESS);
}

int nvmlEventSetWait_v2(event_set *set, event_data *data, unsigned timeout) {
    for (unsigned waited = 0;; waited += 2) {
        lock();
        if (begun == 0) return unlock(UNINITIALIZED);
        if (set->boot != all->boot) return unlock(INVALID_ARGUMENT);
        while (set->delivered < all->happened) {
            event *one = &all->events[set->delivered++ % EVENTS];
            if (!(set->types[one->gpu] & one->type) || one->number < set->since[one->gpu]) continue;
            event_data result = {set->devices[one->gpu], one->type, one->data, NO_INSTANCE, NO_INSTANCE};
            *data = result;
            return unlock(SUCCESS);
        }
        for (int number = 0; number < all->count; number++)
            if (set->types[number] && all->gpus[number].lost) return unlock(GPU_IS_LOST);
        unlock(0);
        if (waited >= timeout) return TIMEOUT;
        pause_ms(2);
    }
}

/* Slices: the profiles of an H100 with 80 GB, as `nvidia-smi mig -lgip` and `-lgipp` print them. */

typedef struct { int id, compute, memory, most, mib; const char *name; int starts[8]; } profile;
static const profile profiles[PROFILES] = {
    [0] = {19, 1, 1, 7, 9984, "MIG 1g.10gb", {0, 1, 2, 3, 4, 5, 6, -1}},
    [1] = {14, 2, 2, 3, 20096, "MIG 2g.20gb", {0, 2, 4, -1}},
    [2] = {9, 3, 4, 2, 40320, "MIG 3g.40gb", {0, 4, -1}},
    [3] = {5, 4, 4, 1, 40320, "MIG 4g.40gb", {0, -1}},
    [4] = {0, 7, 8, 1, 80896, "MIG 7g.80gb", {0, -1}},
    [7] = {20, 1, 1, 1, 9984, "MIG 1g.10gb+me", {0, 1, 2, 3, 4, 5, 6, -1}},
    [9] = {15, 1, 2, 4, 20096, "MIG 1g.20gb", {0, 2, 4, 6, -1}},
};

static const profile *by_id(unsigned id) {
    for (int at = 0; at < PROFILES; at++)
        if (profiles[at].name != NULL && (unsigned)profiles[at].id == id) return &profiles[at];
    return NULL;
}

int nvmlDeviceGetMigMode(handle device, unsigned *now, unsigned *pending) {
    LOOK_UP(device, DEVICE, NULL);
    if (!it->can_mig) return unlock(NOT_SUPPORTED);
    *now = *pending = it->mig;
    return unlock(SUCCESS);
}

typedef struct { unsigned version, id, p2p, slices, instances, sms, copy, decoders, encoders, jpeg, ofa; unsigned long long mib; char name[NAME]; } profile_info;

int nvmlDeviceGetGpuInstanceProfileInfoV(handle device, unsigned number, profile_info *info) {
    LOOK_UP(device, DEVICE, NULL);
    if (number >= PROFILES || info->version != (sizeof *info | 2u << 24)) return unlock(INVALID_ARGUMENT);
    const profile *one = &profiles[number];
    if (!it->mig || one->name == NULL) return unlock(NOT_SUPPORTED);
    profile_info result = {info->version, one->id, 0, one->compute, one->most, 16 * one->compute, one->compute, one->compute, 0, 0, 0, one->mib, ""};
    strcpy(result.name, one->name);
    *info = result;
    return unlock(SUCCESS);
}

typedef struct { unsigned start, size; } placement;

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(handle device, unsigned id, placement *places, unsigned *count) {
    LOOK_UP(device, DEVICE, NULL);
    const profile *one = by_id(id);
    if (!it->can_mig || one == NULL) return unlock(NOT_SUPPORTED);
    if (all->no_permission) return unlock(NO_PERMISSION);
    for (*count = 0; one->starts[*count] >= 0; (*count)++)
        if (places != NULL) { placement result = {one->starts[*count], one->memory}; places[*count] = result; }
    return unlock(SUCCESS);
}

static int may_cut(const gpu *it) { return !it->mig ? NOT_SUPPORTED : all->no_permission ? NO_PERMISSION : SUCCESS; }

/* Making and destroying takes a while, and other calls go on meanwhile. */
static void work(void) {
    if (++all->inside > all->most_inside) all->most_inside = all->inside;
    int ms = all->latency_ms;
    unlock(0);
    pause_ms(ms);
    lock();
    all->inside--;
}

int nvmlDeviceCreateGpuInstanceWithPlacement(handle device, unsigned id, const placement *where, handle *made) {
    LOOK_UP(device, DEVICE, NULL);
    int refused = may_cut(it);
    if (refused) return unlock(refused);
    const profile *one = by_id(id);
    if (one == NULL || where == NULL) return unlock(INVALID_ARGUMENT);
    work();
    if (it->refuse_create > 0) { it->refuse_create--; return unlock(INSUFFICIENT_RESOURCES); }
    int allowed = 0, compute = one->compute, same = 1;
    for (int at = 0; one->starts[at] >= 0; at++) allowed |= one->starts[at] == (int)where->start && one->memory == (int)where->size;
    slice *unused = NULL;
    int ids = 0;
    for (slice *other = it->slices; other < it->slices + SLICES; other++) {
        if (!other->made) { unused = unused == NULL ? other : unused; continue; }
        ids |= 1 << other->id;
        compute += by_id(other->profile)->compute;
        same += other->profile == one->id;
        if (other->start < (int)(where->start + where->size) && (int)where->start < other->start + other->size) allowed = 0;
    }
    if (!allowed || unused == NULL || compute > 7 || same > one->most) return unlock(INSUFFICIENT_RESOURCES);
    slice new = {1, 1, one->id, where->start, where->size, 0};
    while (ids & 1 << new.id) new.id++;
    *unused = new;
    *made = handle_of(GPU_INSTANCE, it - all->gpus, new.id);
    return unlock(SUCCESS);
}

int nvmlDeviceGetGpuInstances(handle device, unsigned id, handle *found, unsigned *count) {
    LOOK_UP(device, DEVICE, NULL);
    int refused = may_cut(it);
    if (refused) return unlock(refused);
    *count = 0;
    for (slice *one = it->slices; one < it->slices + SLICES; one++)
        if (one->made && (unsigned)one->profile == id) found[(*count)++] = handle_of(GPU_INSTANCE, it - all->gpus, one->id);
    return unlock(SUCCESS);
}

int nvmlDeviceGetGpuInstanceById(handle device, unsigned id, handle *found) {
    LOOK_UP(device, DEVICE, NULL);
    int refused = may_cut(it);
    if (refused) return unlock(refused);
    for (slice *one = it->slices; one < it->slices + SLICES; one++)
        if (one->made && (unsigned)one->id == id) { *found = handle_of(GPU_INSTANCE, it - all->gpus, id); return unlock(SUCCESS); }
    return unlock(NOT_FOUND);
}

typedef struct { handle device; unsigned id, profile; placement where; } instance_info;

int nvmlGpuInstanceGetInfo(handle instance, instance_info *info) {
    slice *one;
    LOOK_UP(instance, GPU_INSTANCE, &one);
    instance_info result = {handle_of(DEVICE, it - all->gpus, 0), one->id, one->profile, {one->start, one->size}};
    *info = result;
    return unlock(SUCCESS);
}

static int is_used(const gpu *it, const slice *part) {
    for (int at = 0; at < PROCESSES; at++)
        if (is_on(&all->processes[at], it) && all->processes[at].instance == part->id) return 1;
    return 0;
}

int nvmlGpuInstanceDestroy(handle instance) {
    slice *one;
    LOOK_UP(instance, GPU_INSTANCE, &one);
    int refused = may_cut(it);
    if (refused) return unlock(refused);
    work();
    if (one->compute || it->stuck || is_used(it, one)) return unlock(IN_USE);
    one->made = 0;
    return unlock(SUCCESS);
}

typedef struct { unsigned version, id, slices, instances, sms, copy, decoders, encoders, jpeg, ofa; char name[NAME]; } compute_info;

int nvmlGpuInstanceGetComputeInstanceProfileInfoV(handle instance, unsigned number, unsigned engines, compute_info *info) {
    static const int slices[] = {1, 2, 3, 4, 7};
    slice *one;
    LOOK_UP(instance, GPU_INSTANCE, &one);
    if (engines != 0 || info->version != (sizeof *info | 2u << 24)) return unlock(INVALID_ARGUMENT);
    if (number > 4 || slices[number] > by_id(one->profile)->compute) return unlock(NOT_SUPPORTED);
    info->id = number;
    info->slices = slices[number];
    info->instances = by_id(one->profile)->compute / slices[number];
    return unlock(SUCCESS);
}

int nvmlGpuInstanceCreateComputeInstance(handle instance, unsigned id, handle *made) {
    slice *one;
    LOOK_UP(instance, GPU_INSTANCE, &one);
    int refused = may_cut(it);
    if (refused) return unlock(refused);
    if (id > 4) return unlock(INVALID_ARGUMENT);
    if (one->compute) return unlock(INSUFFICIENT_RESOURCES);
    one->compute = 1;
    *made = handle_of(COMPUTE_INSTANCE, it - all->gpus, one->id);
    return unlock(SUCCESS);
}

int nvmlGpuInstanceGetComputeInstanceById(handle instance, unsigned id, handle *found) {
    slice *one;
    LOOK_UP(instance, GPU_INSTANCE, &one);
    if (id != 0 || !one->compute) return unlock(NOT_FOUND);
    *found = handle_of(COMPUTE_INSTANCE, it - all->gpus, one->id);
    return unlock(SUCCESS);
}

typedef struct { handle device, instance; unsigned id, profile; placement where; } compute_instance_info;

int nvmlComputeInstanceGetInfo_v2(handle compute, compute_instance_info *info) {
    slice *one;
    LOOK_UP(compute, COMPUTE_INSTANCE, &one);
    int number = it - all->gpus;
    compute_instance_info result = {handle_of(MIG_DEVICE, number, one->id), handle_of(GPU_INSTANCE, number, one->id), 0, 0, {0, one->size}};
    *info = result;
    return unlock(SUCCESS);
}

int nvmlComputeInstanceDestroy(handle compute) {
    slice *one;
    LOOK_UP(compute, COMPUTE_INSTANCE, &one);
    int refused = may_cut(it);
    if (refused) return unlock(refused);
    if (is_used(it, one)) return unlock(IN_USE);
    one->compute = 0;
    return unlock(SUCCESS);
}

/* Limits of memory by control group, from driver 615 on; NVML's Python binding has the two structures. */

typedef struct { const char *group; unsigned long long soft, hard, used; } limits;

static int may_limit(handle device, const limits *one) {
    gpu *it;
    int wrong = behind(device, DEVICE, &it, NULL);
    if (wrong) return wrong;
    if (atoi(all->driver) < 615) return FUNCTION_NOT_FOUND;
    return one == NULL || one->group == NULL || access(one->group, F_OK) != 0 ? INVALID_ARGUMENT : SUCCESS;
}
int nvmlDeviceSetMemoryLimits_v1(handle device, limits *one) { lock(); return unlock(may_limit(device, one)); }
int nvmlDeviceGetMemoryLimits_v1(handle device, limits *one) { lock(); return unlock(may_limit(device, one)); }

/* For tests */

static int *knob(const char *name, int number) {
    const struct { const char *name; int *at; } known[] = {
        {"no_permission", &all->no_permission}, {"latency_ms", &all->latency_ms}, {"most_inside", &all->most_inside}, {"calls", &all->calls},
#define OF_A_GPU(field) {#field, &all->gpus[number].field}
        OF_A_GPU(lost), OF_A_GPU(sunk), OF_A_GPU(mig), OF_A_GPU(gpu_util), OF_A_GPU(mem_util), OF_A_GPU(recovery), OF_A_GPU(remap_pending),
        OF_A_GPU(remap_failure), OF_A_GPU(ecc), OF_A_GPU(compute_mode), OF_A_GPU(stuck), OF_A_GPU(refuse_create), OF_A_GPU(unanswered),
        OF_A_GPU(hidden_memory), OF_A_GPU(nvlink),
    };
    for (size_t at = 0; at < sizeof known / sizeof *known; at++)
        if (strcmp(known[at].name, name) == 0) return known[at].at;
    return NULL;
}

int second_nvml_set(const char *name, int value, int number) {
    lock();
    int *at = knob(name, number);
    if (at == NULL) return unlock(0);
    if (at == &all->gpus[number].lost && *at && !value) all->gpus[number].seen++;
    *at = value;
    return unlock(1);
}

int second_nvml_get(const char *name, int number, int *value) {
    lock();
    int *at = knob(name, number);
    if (at != NULL) *value = *at;
    return unlock(at != NULL);
}

void second_nvml_process(int pid, uint64_t mib, int number, int sm, int instance) {
    lock();
    for (process *one = all->processes; one < all->processes + PROCESSES; one++)
        if (!one->alive || (one->pid == pid && one->gpu == number)) {
            process new = {1, pid, number, sm, instance, mib};
            *one = new;
            break;
        }
    unlock(0);
}

void second_nvml_gone(int pid) {
    lock();
    for (process *one = all->processes; one < all->processes + PROCESSES; one++)
        if (one->pid == pid) one->alive = 0;
    unlock(0);
}

void second_nvml_event(uint64_t type, uint64_t data, int number) {
    lock();
    event new = {all->happened, type, data, number};
    all->events[all->happened++ % EVENTS] = new;
    unlock(0);
}

/* A new boot: indices in another order, and nothing is left of slices, processes and volatile counts. */
void second_nvml_boot(const int *order) {
    lock();
    all->boot++;
    memset(all->processes, 0, sizeof all->processes);
    for (int number = 0; number < all->count; number++) {
        gpu *it = &all->gpus[number];
        memset(it->slices, 0, sizeof it->slices);
        all->order[number] = order[number];
        it->lost = it->sunk = it->recovery = it->remap_pending = it->ecc = it->stuck = it->unanswered = it->compute_mode = 0;
    }
    begun = 0; /* what was begun in this process has ended with the boot */
    unlock(0);
}

void second_nvml_reset(int count, const char *model, uint64_t mib, int can_mig, const char *driver) {
    lock();
    size_t after = offsetof(state, driver);
    uint32_t boot = all->boot;
    memset((char *)all + after, 0, sizeof(state) - after);
    all->boot = boot + 1;
    all->count = count;
    strncpy(all->driver, driver, sizeof all->driver - 1);
    for (int number = 0; number < GPUS; number++) {
        strncpy(all->gpus[number].model, model, NAME - 1);
        all->gpus[number].mib = mib;
        all->gpus[number].can_mig = can_mig;
        all->order[number] = number;
    }
    begun = 0;
    unlock(0);
}
