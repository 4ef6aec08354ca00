/* Launches the kernels that NVRTC compiled, by CUDA's driver, in the context of the runtime. */
#include "old_gpu.h"

int gpuwork_launch_error = 0;

typedef int (*LoadData)(void **module, const void *image);
typedef int (*GetFunction)(void **function, void *module, const char *name);
typedef int (*LaunchKernel)(
    void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
    cudaStream_t stream, void **arguments, void **extra);

static void *module = 0;

static int keep(int error) {
    if (error && !gpuwork_launch_error)
        gpuwork_launch_error = error;
    return error;
}

static void *find(const char *name) {
    static void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver ? dlsym(driver, name) : 0;
}

int gpuwork_launch(const char *name, dim3 grid, dim3 block, size_t shared, cudaStream_t stream, void **arguments) {
    LoadData load = (LoadData)find("cuModuleLoadData");
    GetFunction get = (GetFunction)find("cuModuleGetFunction");
    LaunchKernel launch = (LaunchKernel)find("cuLaunchKernel");
    if (!load || !get || !launch)
        return keep(cudaErrorInsufficientDriver);
    int error = cudaFree(0); /* makes the runtime's context */
    if (!error && !module)
        error = load(&module, gpuwork_cubin);
    if (error)
        return keep(error);
    for (const GpuworkName *one = gpuwork_names; one->name; one++)
        if (!strcmp(one->name, name)) {
            void *function = 0;
            error = get(&function, module, one->lowered);
            if (!error)
                error = launch(
                    function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, arguments, 0);
            return keep(error);
        }
    return keep(cudaErrorInvalidDeviceFunction);
}

extern "C" int gpuwork_finish() {
    cudaError_t ran = cudaDeviceSynchronize();
    cudaError_t left = cudaGetLastError();
    int launched = gpuwork_launch_error;
    gpuwork_launch_error = 0;
    return launched ? launched : (int)(ran != cudaSuccess ? ran : left);
}

extern "C" const char *gpuwork_words(int error) { return cudaGetErrorString((cudaError_t)error); }
