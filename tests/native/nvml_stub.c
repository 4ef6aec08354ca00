/* A stand-in for libnvidia-ml.so.1 that is really loaded, so that tests go the way pynvml goes on a GPU host.
 *
 * It has two GPUs of model "NVIDIA Stub GPU"; index 0 is minor 1 and the other way round. The environment sets faults:
 *   STUB_INIT       code that nvmlInitWithFlags returns
 *   STUB_COUNT      number of GPUs
 *   STUB_UUID       UUID of GPU 0
 *   STUB_FAIL       name of a function that fails ...
 *   STUB_FAIL_CODE  ... with this code
 * Compiled with -DWITHOUT_CUDA_VERSION it lacks nvmlSystemGetCudaDriverVersion, as a library of another age would.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUCCESS 0
#define UNINITIALIZED 1
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define INSUFFICIENT_SIZE 7
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
    return put(buffer, size, "NVIDIA Stub GPU");
}

int nvmlDeviceGetMinorNumber(gpu_t *gpu, unsigned int *minor) { CHECK(); *minor = gpu->index ^ 1u; return SUCCESS; }

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

int nvmlDeviceGetMigMode(gpu_t *gpu, unsigned int *current, unsigned int *pending) {
    (void)gpu; (void)current; (void)pending;
    CHECK();
    return NOT_SUPPORTED;
}
