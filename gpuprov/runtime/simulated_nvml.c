/* libnvidia-ml.so.1 of containers with simulated GPUs: what is asked of it stands in the file ANSWERS, a line each.

       - driver_version 580.95.05          of the library itself
       0 Name SIMULATED NVIDIA H100        of GPU 0
       0 Temperature.0 33                  with the call's other argument

   No header and no function of libc but open, read and close, so that any compiler makes it and any libc loads it. */

typedef unsigned int uint;
typedef unsigned long long ulong64;

int open(const char *path, int flags, ...);
long read(int file, void *into, unsigned long size);
int close(int file);

enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { DRIVER_NOT_LOADED = 9 };
enum { LIBRARY = -1, NO_KEY = -1, READ_ONLY = 0, CLOSE_ON_EXEC = 02000000 };

static char text[1 << 18]; /* the file, ended by a NUL */
static int users;

/* Where `line` goes on after `word`, or 0. */
static const char *after(const char *line, const char *word) {
    while (*word && *line == *word) line++, word++;
    return *word ? 0 : line;
}

static const char *after_number(const char *line, int number) {
    char digits[12], *at = digits + sizeof digits - 1;
    *at = 0;
    do *--at = (char)('0' + number % 10); while (number /= 10);
    return after(line, at);
}

static const char *word(const char *value, int skipped) {
    for (; value && skipped; skipped--) {
        while (*value && *value != ' ' && *value != '\n') value++;
        if (*value != ' ') return 0;
        value++;
    }
    return value;
}

/* What a GPU, or the library, answers; 0 where there is no such line. */
static const char *find(int gpu, const char *name, int key, int second) {
    const char *line = text, *at;
    while (*line) {
        at = gpu == LIBRARY ? after(line, "-") : after_number(line, gpu);
        if (at) at = after(at, " ");
        if (at) at = after(at, name);
        if (at && key != NO_KEY) at = after(at, ".");
        if (at && key != NO_KEY) at = after_number(at, key);
        if (at && second != NO_KEY) at = after(at, ",");
        if (at && second != NO_KEY) at = after_number(at, second);
        if (at && *at == ' ') return at + 1;
        while (*line && *line++ != '\n') {}
    }
    return 0;
}

static ulong64 to_number(const char *value) {
    ulong64 number = 0;
    for (; *value >= '0' && *value <= '9'; value++) number = number * 10 + (ulong64)(*value - '0');
    return number;
}

static int put_text(const char *value, char *into, uint size) {
    uint length = 0;
    if (!users) return UNINITIALIZED;
    if (!value) return NOT_SUPPORTED;
    while (value[length] && value[length] != '\n') length++;
    if (length >= size) return INSUFFICIENT_SIZE;
    for (uint at = 0; at < length; at++) into[at] = value[at];
    into[length] = 0;
    return SUCCESS;
}

static int count(void) {
    int gpus = 0;
    while (find(gpus, "UUID", NO_KEY, NO_KEY)) gpus++;
    return gpus;
}

/* Handles are the GPU's index and one, as 0 is no handle. */
static int index_of(void *gpu) { return (int)(unsigned long)gpu - 1; }

static int put(void *gpu, const char *name, int key, int second, int skipped, uint *into) {
    const char *value;
    if (!users) return UNINITIALIZED;
    if (index_of(gpu) < 0 || index_of(gpu) >= count()) return INVALID_ARGUMENT;
    value = word(find(index_of(gpu), name, key, second), skipped);
    if (!value) return NOT_SUPPORTED;
    *into = (uint)to_number(value);
    return SUCCESS;
}

#define NUMBER(name) \
    int nvmlDeviceGet##name(void *gpu, uint *into) { return put(gpu, #name, NO_KEY, NO_KEY, 0, into); }
#define KEYED(name) \
    int nvmlDeviceGet##name(void *gpu, int key, uint *into) { return put(gpu, #name, key, NO_KEY, 0, into); }
#define TWO(name) \
    int nvmlDeviceGet##name(void *gpu, uint *one, uint *two) { return pair(gpu, #name, one, two); }
#define TEXT(name) \
    int nvmlDeviceGet##name(void *gpu, char *into, uint size) { return put_text(of(gpu, #name), into, size); }

static int pair(void *gpu, const char *name, uint *one, uint *two) {
    int code = put(gpu, name, NO_KEY, NO_KEY, 0, one);
    return code ? code : put(gpu, name, NO_KEY, NO_KEY, 1, two);
}

static const char *of(void *gpu, const char *name) { return find(index_of(gpu), name, NO_KEY, NO_KEY); }

int nvmlInitWithFlags(uint flags) {
    int file = open(ANSWERS, READ_ONLY | CLOSE_ON_EXEC);
    unsigned long length = 0;
    long got;
    (void)flags;
    if (file < 0) return DRIVER_NOT_LOADED;
    while ((got = read(file, text + length, sizeof text - 1 - length)) > 0) length += (unsigned long)got;
    close(file);
    text[length] = 0;
    users++;
    return SUCCESS;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlInit(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return users ? users--, SUCCESS : UNINITIALIZED; }

const char *nvmlErrorString(int code) {
    switch (code) {
    case SUCCESS: return "Success (SIMULATED)";
    case UNINITIALIZED: return "Uninitialized (SIMULATED)";
    case INVALID_ARGUMENT: return "Invalid Argument (SIMULATED)";
    case NOT_SUPPORTED: return "Not Supported (SIMULATED)";
    case NOT_FOUND: return "Not Found (SIMULATED)";
    case INSUFFICIENT_SIZE: return "Insufficient Size (SIMULATED)";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded (SIMULATED)";
    }
    return "Unknown Error (SIMULATED)";
}

int nvmlSystemGetDriverVersion(char *into, uint size) {
    return put_text(find(LIBRARY, "driver_version", NO_KEY, NO_KEY), into, size);
}
int nvmlSystemGetNVMLVersion(char *into, uint size) {
    return put_text(find(LIBRARY, "nvml_version", NO_KEY, NO_KEY), into, size);
}
int nvmlSystemGetCudaDriverVersion(int *into) {
    const char *value = find(LIBRARY, "cuda_driver_version", NO_KEY, NO_KEY);
    if (!users || !value) return users ? NOT_SUPPORTED : UNINITIALIZED;
    *into = (int)to_number(value);
    return SUCCESS;
}
int nvmlSystemGetCudaDriverVersion_v2(int *into) { return nvmlSystemGetCudaDriverVersion(into); }

int nvmlDeviceGetCount_v2(uint *into) {
    if (!users) return UNINITIALIZED;
    *into = (uint)count();
    return SUCCESS;
}
int nvmlDeviceGetCount(uint *into) { return nvmlDeviceGetCount_v2(into); }

int nvmlDeviceGetHandleByIndex_v2(uint index, void **gpu) {
    if (!users) return UNINITIALIZED;
    if (index >= (uint)count()) return INVALID_ARGUMENT;
    *gpu = (void *)(unsigned long)(index + 1);
    return SUCCESS;
}
int nvmlDeviceGetHandleByIndex(uint index, void **gpu) { return nvmlDeviceGetHandleByIndex_v2(index, gpu); }

static int by(const char *name, const char *wanted, void **gpu) {
    if (!users) return UNINITIALIZED;
    for (int index = 0; index < count(); index++) {
        const char *value = find(index, name, NO_KEY, NO_KEY), *end = value ? after(value, wanted) : 0;
        if (end && (*end == '\n' || *end == ' ')) return nvmlDeviceGetHandleByIndex_v2((uint)index, gpu);
    }
    return NOT_FOUND;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **gpu) { return by("UUID", uuid, gpu); }
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **gpu) {
    int code = by("PciInfo.busId", address, gpu);
    return code == NOT_FOUND ? by("PciInfo.busIdLegacy", address, gpu) : code;
}

TEXT(Name)
TEXT(UUID)
NUMBER(Index)
NUMBER(MinorNumber)
TWO(CudaComputeCapability)

typedef struct { char legacy[16]; uint domain, bus, device, id, subsystem; char address[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(void *gpu, Pci *into) {
    int code = put(gpu, "PciInfo.domain", NO_KEY, NO_KEY, 0, &into->domain);
    if (code) return code;
    put(gpu, "PciInfo.bus", NO_KEY, NO_KEY, 0, &into->bus);
    put(gpu, "PciInfo.device", NO_KEY, NO_KEY, 0, &into->device);
    into->id = into->subsystem = 0;
    put_text(of(gpu, "PciInfo.busIdLegacy"), into->legacy, sizeof into->legacy);
    return put_text(of(gpu, "PciInfo.busId"), into->address, sizeof into->address);
}
int nvmlDeviceGetPciInfo_v2(void *gpu, Pci *into) { return nvmlDeviceGetPciInfo_v3(gpu, into); }

typedef struct { ulong64 total, free, used; } Memory;
typedef struct { uint version; ulong64 total, reserved, free, used; } Memory2;
int nvmlDeviceGetMemoryInfo(void *gpu, Memory *into) {
    uint code, unused;
    code = (uint)put(gpu, "MemoryInfo.total", NO_KEY, NO_KEY, 0, &unused);
    if (code) return (int)code;
    into->total = into->free = to_number(of(gpu, "MemoryInfo.total"));
    into->used = 0;
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo_v2(void *gpu, Memory2 *into) {
    Memory plain;
    int code = nvmlDeviceGetMemoryInfo(gpu, &plain);
    if (code) return code;
    into->total = plain.total, into->free = plain.free, into->used = into->reserved = 0;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *gpu, uint *into) {
    int code = put(gpu, "UtilizationRates.gpu", NO_KEY, NO_KEY, 0, into);
    return code ? code : put(gpu, "UtilizationRates.memory", NO_KEY, NO_KEY, 0, into + 1);
}
int nvmlDeviceGetTotalEccErrors(void *gpu, int kind, int counter, ulong64 *into) {
    uint number;
    int code = put(gpu, "TotalEccErrors", kind, counter, 0, &number);
    if (!code) *into = number;
    return code;
}
int nvmlDeviceGetCurrentClocksEventReasons(void *gpu, ulong64 *into) {
    uint number;
    int code = put(gpu, "CurrentClocksEventReasons", NO_KEY, NO_KEY, 0, &number);
    if (!code) *into = number;
    return code;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, ulong64 *into) {
    return nvmlDeviceGetCurrentClocksEventReasons(gpu, into);
}

/* No process is ever on a simulated GPU. */
static int processes(void *gpu, uint *count_of) {
    uint unused;
    int code = put(gpu, "Index", NO_KEY, NO_KEY, 0, &unused);
    if (!code) *count_of = 0;
    return code;
}
#define PROCESSES(name) \
    int nvmlDeviceGet##name(void *gpu, uint *number, void *list) { (void)list; return processes(gpu, number); }
PROCESSES(ComputeRunningProcesses)
PROCESSES(ComputeRunningProcesses_v2)
PROCESSES(ComputeRunningProcesses_v3)
PROCESSES(GraphicsRunningProcesses)
PROCESSES(GraphicsRunningProcesses_v2)
PROCESSES(GraphicsRunningProcesses_v3)

KEYED(Temperature)
KEYED(TemperatureThreshold)
KEYED(ClockInfo)
KEYED(MaxClockInfo)
KEYED(NvLinkState)
NUMBER(PowerUsage)
NUMBER(EnforcedPowerLimit)
NUMBER(PowerManagementLimit)
NUMBER(PowerManagementDefaultLimit)
NUMBER(CurrPcieLinkGeneration)
NUMBER(MaxPcieLinkGeneration)
NUMBER(CurrPcieLinkWidth)
NUMBER(MaxPcieLinkWidth)
NUMBER(PersistenceMode)
NUMBER(ComputeMode)
NUMBER(FanSpeed)
NUMBER(MaxMigDeviceCount)
TWO(EccMode)
TWO(MigMode)
