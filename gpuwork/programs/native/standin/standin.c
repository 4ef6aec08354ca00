/* What the stand-in's header declares. */
#include "cuda_runtime.h"

#include <stdlib.h>
#include <string.h>

static cudaError_t last = cudaSuccess;

static cudaError_t keep(cudaError_t error) {
    if (error != cudaSuccess)
        last = error;
    return error;
}

cudaError_t cudaMallocManagedStandin(void **pointer, size_t bytes) {
    if (bytes == 0)
        return keep(cudaErrorInvalidValue);
    *pointer = malloc(bytes);
    return keep(*pointer ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *pointer) {
    free(pointer);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    (void)kind;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemset(void *pointer, int value, size_t bytes) {
    memset(pointer, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }

cudaError_t cudaGetLastError(void) {
    cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void) { return last; }

const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    }
    return "unknown error";
}
