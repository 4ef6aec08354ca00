/* A stand-in for libcuda.so.1 with STUB_CUDA_COUNT GPUs (2 unless said otherwise) whose UUIDs end in their number.
 * STUB_CUDA_INIT is the code that cuInit returns.
 */
#include <stdlib.h>
#include <string.h>

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

int cuInit(unsigned flags) {
    (void)flags;
    return number("STUB_CUDA_INIT", 0);
}

int cuDeviceGetCount(int *count) {
    *count = number("STUB_CUDA_COUNT", 2);
    return 0;
}

int cuDeviceGet(int *device, int index) {
    *device = index;
    return index < number("STUB_CUDA_COUNT", 2) ? 0 : 101;
}

int cuDeviceGetUuid(unsigned char *uuid, int device) {
    memset(uuid, 0xab, 15);
    uuid[15] = (unsigned char)device;
    return 0;
}
