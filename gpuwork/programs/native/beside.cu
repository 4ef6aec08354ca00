/* Built into each program's library: what the process that runs it asks of CUDA. */
#include <cuda_runtime.h>

/* Waits for the kernels, and tells the error that they, or their launch, left. */
extern "C" int gpuwork_finish() {
    cudaError_t ran = cudaDeviceSynchronize();
    cudaError_t left = cudaGetLastError();
    return (int)(ran != cudaSuccess ? ran : left);
}

extern "C" const char *gpuwork_words(int error) { return cudaGetErrorString((cudaError_t)error); }
