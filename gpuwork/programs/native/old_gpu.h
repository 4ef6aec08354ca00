/* What the host's part of a separated program needs: launches by CUDA's driver. */
#pragma once
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <string.h>

#undef __host__
#undef __device__
#undef __forceinline__
#define __host__
#define __device__
#define __forceinline__ inline

extern const unsigned char gpuwork_cubin[];
struct GpuworkName {
    const char *name, *lowered;
};
extern const GpuworkName gpuwork_names[]; /* ends with a null */
extern int gpuwork_launch_error;

int gpuwork_launch(const char *name, dim3 grid, dim3 block, size_t shared, cudaStream_t stream, void **arguments);

template <class T> struct GpuworkKernel;
template <class... P> struct GpuworkKernel<void(P...)> {
    const char *name;
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    GpuworkKernel(const char *name, dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0)
        : name(name), grid(grid), block(block), shared(shared), stream(stream) {}
    void operator()(P... given) const {
        void *arguments[] = {(void *)&given..., (void *)0};
        gpuwork_launch(name, grid, block, shared, stream, arguments);
    }
};
