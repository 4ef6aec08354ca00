/* A stand-in for libnvidia-ml.so.1 that is really loaded, so that tests go the way pynvml goes on a GPU host.
 *
 * It has two GPUs of model "NVIDIA Stub GPU"; index 0 is minor 1 and the other way round. The environment sets faults:
 *   STUB_INIT       code that nvmlInitWithFlags returns
 *   STUB_HANG       name of a function that never returns; abort: nvmlInitWithFlags ends the process
 *   STUB_COUNT      number of GPUs
 *   STUB_UUID       UUID of GPU 0
 *   STUB_MODEL      name of each GPU's model
 *   STUB_FAIL       name of a function that fails ...
 *   STUB_FAIL_CODE  ... with this code
 *   STUB_FAIL_GPU   index of the only GPU at which it fails or hangs
 *   STUB_LOST       index of a GPU at which every question after its UUID and name says that it is lost
 *   STUB_ECC, STUB_ECC_CORRECTED      errors that GPU 0 counts
 *   STUB_REMAP_PENDING, STUB_REMAP_FAILURE, STUB_RECOVERY    what GPU 0 says of its rows, and wants done
 *   STUB_REASONS    bits that hold the clocks of GPU 0 down
 *   STUB_NVLINKS, STUB_NVLINKS_DOWN   how many links each GPU has, and how many of them are down at GPU 0
 *   STUB_PROCESS    number of a process that computes on GPU 0
 *   STUB_FABRIC, STUB_FABRIC_HEALTH   state of each GPU in an NVSwitch fabric, and the health mask of GPU 0 there
 *   STUB_WIDTH, STUB_TEMPERATURE, STUB_COMPUTE_MODE, STUB_INFOROM, STUB_XID   the same, of GPU 0
 * Compiled with -DWITHOUT_CUDA_VERSION it lacks nvmlSystemGetCudaDriverVersion, with -DBEFORE_R535
 * nvmlDeviceGetCurrentClocksEventReasons, as libraries of another age would.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUCCESS 0
#define UNINITIALIZED 1
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define INSUFFICIENT_SIZE 7
#define TIMEOUT 10
#define GPU_IS_LOST 15
#define GPUS_MAX 16

typedef struct { unsigned int index; } gpu_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct {
    char bus_id_legacy[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci_t;

static gpu_t gpus[GPUS_MAX];
static int users;

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

/* The code a call returns before it does anything, or SUCCESS. */
static int fault(const char *function) {
    const char *hanging = getenv("STUB_HANG");
    while (hanging && strcmp(hanging, function) == 0) pause();
    const char *failing = getenv("STUB_FAIL");
    if (failing && strcmp(failing, function) == 0) return number("STUB_FAIL_CODE", NOT_SUPPORTED);
    return users > 0 ? SUCCESS : UNINITIALIZED;
}

#define CHECK() do { int code = fault(__func__); if (code != SUCCESS) return code; } while (0)

static int put(char *buffer, unsigned int size, const char *text) {
    return snprintf(buffer, size, "%s", text) < (int)size ? SUCCESS : INSUFFICIENT_SIZE;
}

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    const char *hanging = getenv("STUB_HANG");
    if (hanging && strcmp(hanging, "abort") == 0) abort();
    while (hanging && strcmp(hanging, __func__) == 0) pause();
    int code = number("STUB_INIT", SUCCESS);
    if (code == SUCCESS) users++;
    return code;
}

int nvmlShutdown(void) { CHECK(); users--; return SUCCESS; }

int nvmlSystemGetDriverVersion(char *buffer, unsigned int size) { CHECK(); return put(buffer, size, "580.95.05"); }

#ifndef WITHOUT_CUDA_VERSION
int nvmlSystemGetCudaDriverVersion(int *version) { CHECK(); *version = 13000; return SUCCESS; }
#endif

int nvmlDeviceGetCount_v2(unsigned int *count) { CHECK(); *count = (unsigned int)number("STUB_COUNT", 2); return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, gpu_t **gpu) {
    CHECK();
    if (index >= (unsigned int)number("STUB_COUNT", 2) || index >= GPUS_MAX) return INVALID_ARGUMENT;
    gpus[index].index = index;
    *gpu = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetUUID(gpu_t *gpu, char *buffer, unsigned int size) {
    CHECK();
    char text[64];
    snprintf(text, sizeof text, "GPU-57ab57ab-0000-4000-8000-%012u", gpu->index);
    const char *given = getenv("STUB_UUID");
    return put(buffer, size, given && gpu->index == 0 ? given : text);
}

int nvmlDeviceGetName(gpu_t *gpu, char *buffer, unsigned int size) {
    CHECK();
    (void)gpu;
    const char *given = getenv("STUB_MODEL");
    return put(buffer, size, given ? given : "NVIDIA Stub GPU");
}

int nvmlDeviceGetPciInfo_v3(gpu_t *gpu, pci_t *pci) {
    CHECK();
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x41 + gpu->index;
    snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "0000:%02X:00.0", pci->bus);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(gpu_t *gpu, memory_t *memory) {
    CHECK();
    (void)gpu;
    memory->total = memory->free = 16ULL << 30;
    memory->used = 0;
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(gpu_t *gpu, int *major, int *minor) {
    CHECK();
    (void)gpu;
    *major = 9;
    *minor = 0;
    return SUCCESS;
}

/* As CHECK, for a question about one GPU. */
static int fault_at(const char *function, gpu_t *gpu) {
    if (number("STUB_LOST", -1) == (int)gpu->index) return GPU_IS_LOST;
    int only = number("STUB_FAIL_GPU", -1);
    return only >= 0 && only != (int)gpu->index ? SUCCESS : fault(function);
}

#define CHECK_AT(gpu) do { int code = fault_at(__func__, gpu); if (code != SUCCESS) return code; } while (0)

int nvmlDeviceGetMinorNumber(gpu_t *gpu, unsigned int *minor) { CHECK_AT(gpu); *minor = gpu->index ^ 1u; return SUCCESS; }

/* A fault of GPU 0; the others are healthy. */
static int at_first(gpu_t *gpu, const char *name, int healthy) { return gpu->index == 0 ? number(name, healthy) : healthy; }

#define ANSWER(function, type, value) int function(gpu_t *gpu, type *out) { CHECK_AT(gpu); *out = (type)(value); return SUCCESS; }

#ifndef BEFORE_R535
ANSWER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, at_first(gpu, "STUB_REASONS", 1))
#endif
ANSWER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, at_first(gpu, "STUB_REASONS", 1))
ANSWER(nvmlDeviceGetEnforcedPowerLimit, unsigned int, 700000)
ANSWER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, 700000)
ANSWER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, at_first(gpu, "STUB_WIDTH", 16))
ANSWER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, 16)
ANSWER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, 5)
ANSWER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, 5)
ANSWER(nvmlDeviceGetPcieReplayCounter, unsigned int, 0)
ANSWER(nvmlDeviceGetPersistenceMode, unsigned int, 1)
ANSWER(nvmlDeviceGetComputeMode, unsigned int, at_first(gpu, "STUB_COMPUTE_MODE", 0))
ANSWER(nvmlDeviceGetPowerUsage, unsigned int, 72000)

int nvmlDeviceValidateInforom(gpu_t *gpu) { CHECK_AT(gpu); return at_first(gpu, "STUB_INFOROM", SUCCESS); }

int nvmlDeviceGetTemperature(gpu_t *gpu, int sensor, unsigned int *celsius) {
    CHECK_AT(gpu);
    (void)sensor;
    *celsius = (unsigned int)at_first(gpu, "STUB_TEMPERATURE", 33);
    return SUCCESS;
}

int nvmlDeviceGetTemperatureThreshold(gpu_t *gpu, int kind, unsigned int *celsius) {
    CHECK_AT(gpu);
    if (kind != 3) return NOT_SUPPORTED; /* NVML_TEMPERATURE_THRESHOLD_GPU_MAX */
    *celsius = 87;
    return SUCCESS;
}

int nvmlDeviceGetEccMode(gpu_t *gpu, int *current, int *pending) {
    CHECK_AT(gpu);
    *current = *pending = 1;
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(gpu_t *gpu, int type, int counter, unsigned long long *count) {
    CHECK_AT(gpu);
    if (counter != 0) return NOT_SUPPORTED; /* volatile: since the driver was loaded */
    *count = (unsigned long long)at_first(gpu, type == 1 ? "STUB_ECC" : "STUB_ECC_CORRECTED", 0);
    return SUCCESS;
}

int nvmlDeviceGetRemappedRows(gpu_t *gpu, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending,
                              unsigned int *failure) {
    CHECK_AT(gpu);
    *pending = (unsigned int)at_first(gpu, "STUB_REMAP_PENDING", 0);
    *failure = (unsigned int)at_first(gpu, "STUB_REMAP_FAILURE", 0);
    *corrected = 0;
    *uncorrected = *pending;
    return SUCCESS;
}

typedef struct {
    unsigned int field, scope;
    long long timestamp, latency;
    int value_type, code;
    union { double number; unsigned int whole; unsigned long long long_whole; } value;
} field_value_t;

int nvmlDeviceGetFieldValues(gpu_t *gpu, int count, field_value_t *values) {
    CHECK_AT(gpu);
    for (int index = 0; index < count; index++) {
        values[index].code = values[index].field == 230 ? SUCCESS : NOT_SUPPORTED;
        values[index].value_type = 1;
        values[index].value.whole = (unsigned int)at_first(gpu, "STUB_RECOVERY", 0);
    }
    return SUCCESS;
}

typedef struct {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
} process_t;

int nvmlDeviceGetComputeRunningProcesses_v3(gpu_t *gpu, unsigned int *count, process_t *processes) {
    CHECK_AT(gpu);
    unsigned int room = *count, pid = (unsigned int)at_first(gpu, "STUB_PROCESS", 0);
    *count = pid != 0;
    if (room < *count) return INSUFFICIENT_SIZE;
    if (pid != 0) processes[0] = (process_t){.pid = pid, .used = 1 << 30};
    return SUCCESS;
}

int nvmlDeviceGetP2PStatus(gpu_t *gpu, gpu_t *other, int kind, int *status) {
    CHECK_AT(gpu);
    (void)other;
    *status = kind == 0 ? SUCCESS : NOT_SUPPORTED;
    return SUCCESS;
}

typedef struct {
    gpu_t *gpu;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
} event_t;

static int events; /* its address is the event set */

int nvmlEventSetCreate(int **set) { CHECK(); events = number("STUB_XID", 0) != 0; *set = &events; return SUCCESS; }

int nvmlDeviceRegisterEvents(gpu_t *gpu, unsigned long long types, int *set) {
    CHECK_AT(gpu);
    (void)types; (void)set;
    return SUCCESS;
}

int nvmlEventSetWait_v2(int *set, event_t *event, unsigned int milliseconds) {
    CHECK();
    (void)milliseconds;
    if (*set == 0) return TIMEOUT;
    *set = 0;
    memset(event, 0, sizeof *event);
    event->gpu = &gpus[0];
    event->type = 8;
    event->data = (unsigned long long)number("STUB_XID", 0);
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(gpu_t *gpu, unsigned int link, unsigned int *up) {
    CHECK_AT(gpu);
    if (link >= (unsigned int)number("STUB_NVLINKS", 0)) return number("STUB_NVLINKS", 0) ? INVALID_ARGUMENT : NOT_SUPPORTED;
    *up = link >= (unsigned int)at_first(gpu, "STUB_NVLINKS_DOWN", 0);
    return SUCCESS;
}

typedef struct {
    unsigned int version;
    unsigned char cluster[16];
    unsigned int status, clique, state, health;
} fabric_t;

int nvmlDeviceGetGpuFabricInfoV(gpu_t *gpu, fabric_t *fabric) {
    CHECK_AT(gpu);
    if ((fabric->version >> 24) != 2) return INVALID_ARGUMENT;
    fabric->status = SUCCESS;
    fabric->state = (unsigned int)number("STUB_FABRIC", 0);
    fabric->health = (unsigned int)at_first(gpu, "STUB_FABRIC_HEALTH", 0x1AA); /* nothing is wrong */
    return SUCCESS;
}

int nvmlDeviceGetMigMode(gpu_t *gpu, unsigned int *current, unsigned int *pending) {
    (void)current; (void)pending;
    CHECK_AT(gpu);
    return NOT_SUPPORTED;
}
