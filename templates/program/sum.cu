#include "sum.h"

#include <cuda_runtime.h>

#ifdef GPUWORK_STANDIN
/* The same on the host, for machines without a GPU. */
static int add_up(int block_size, Dataset data, long column, double *sum) {
    (void)block_size;
    for (long row = 0; row < data.rows; row++) *sum += data.values[row * data.columns + column];
    return cudaSuccess;
}
#else
/* Each thread adds up some rows; atomicAdd of doubles needs a GPU of compute capability 6.0. */
__global__ void add_rows(Dataset data, long column, double *sum) {
    double mine = 0;
    long step = (long)gridDim.x * blockDim.x;
    for (long row = (long)blockIdx.x * blockDim.x + threadIdx.x; row < data.rows; row += step)
        mine += data.values[row * data.columns + column];
    atomicAdd(sum, mine);
}

static int add_up(int block_size, Dataset data, long column, double *sum) {
    long blocks = (data.rows + block_size - 1) / block_size;
    add_rows<<<(unsigned)(blocks < 4096 ? blocks : 4096), block_size>>>(data, column, sum);
    return cudaDeviceSynchronize();
}
#endif

extern "C" int run_iteration(
    int block_size, GlobalParams *params, Dataset *data, GlobalState *state, AggregationResult *result) {
    (void)params;
    double *sum;
    int error = cudaMallocManaged(&sum, sizeof(double));
    if (error) return error;
    *sum = 0;
    error = add_up(block_size, *data, state->column, sum);
    result->sum += *sum;
    result->rows += data->rows;
    int freed = cudaFree(sum);
    return error ? error : freed;
}

/* Arrays are where the GPU reaches them; structures without arrays need nothing. */
extern "C" int setup_dataset(Dataset *data) {
    return cudaMallocManaged(&data->values, sizeof(double) * data->rows * data->columns);
}

extern "C" int setup_global_state(GlobalState *state) {
    (void)state;
    return cudaSuccess;
}

extern "C" int setup_aggregation_result(AggregationResult *result) {
    (void)result;
    return cudaSuccess;
}

extern "C" int free_dataset(Dataset *data) { return cudaFree(data->values); }

extern "C" int free_global_state(GlobalState *state) {
    (void)state;
    return cudaSuccess;
}

extern "C" int free_aggregation_result(AggregationResult *result) {
    (void)result;
    return cudaSuccess;
}
