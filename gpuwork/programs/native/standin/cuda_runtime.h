/* A stand-in for CUDA's runtime on a machine without a GPU: memory is the host's, and no kernel can be launched.

   A program that launches kernels only where GPUWORK_STANDIN is not defined builds and runs with it. */
#ifndef GPUWORK_STANDIN
#define GPUWORK_STANDIN 1

#include <stddef.h>

#define __host__
#define __device__
#define __global__ static
#define __shared__ static
#define __constant__ static
#define __forceinline__ inline

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2
} cudaError_t;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};

cudaError_t cudaMallocManagedStandin(void **pointer, size_t bytes);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemset(void *pointer, int value, size_t bytes);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorString(cudaError_t error);

#ifdef __cplusplus
}

template <class T> static inline cudaError_t cudaMallocManaged(T **pointer, size_t bytes, unsigned = 1) {
    return cudaMallocManagedStandin((void **)pointer, bytes);
}

template <class T> static inline cudaError_t cudaMalloc(T **pointer, size_t bytes) {
    return cudaMallocManagedStandin((void **)pointer, bytes);
}

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

/* So that a kernel that is never launched compiles. */
static const dim3 threadIdx(0, 0, 0), blockIdx(0, 0, 0), blockDim, gridDim;
static inline void __syncthreads() {}
template <class T, class U> static inline T atomicAdd(T *where, U value) {
    T before = *where;
    *where += (T)value;
    return before;
}
#endif
#endif
