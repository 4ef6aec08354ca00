#include "kmeans.h"

#include <cuda_runtime.h>

/* The cluster whose centroid is nearest to a row. */
__host__ __device__ static long nearest(const double *row, const double *centroids, long clusters, long columns) {
    long best = 0;
    double least = -1;
    for (long cluster = 0; cluster < clusters; cluster++) {
        double distance = 0;
        for (long column = 0; column < columns; column++) {
            double difference = row[column] - centroids[cluster * columns + column];
            distance += difference * difference;
        }
        if (least < 0 || distance < least) {
            least = distance;
            best = cluster;
        }
    }
    return best;
}

#ifdef GPUWORK_STANDIN
/* The host in place of a GPU. */
static int assign(int block_size, Dataset data, const double *centroids, AggregationResult result) {
    (void)block_size;
    for (long row = 0; row < data.rows; row++) {
        const double *values = data.values + row * data.columns;
        long cluster = nearest(values, centroids, result.clusters, data.columns);
        result.counts[cluster] += 1;
        for (long column = 0; column < data.columns; column++)
            result.sums[cluster * data.columns + column] += values[column];
    }
    return cudaSuccess;
}
#else
/* atomicAdd of doubles needs a GPU of compute capability 6.0. */
__global__ void assign_rows(Dataset data, const double *centroids, AggregationResult result) {
    long step = (long)gridDim.x * blockDim.x;
    for (long row = (long)blockIdx.x * blockDim.x + threadIdx.x; row < data.rows; row += step) {
        const double *values = data.values + row * data.columns;
        long cluster = nearest(values, centroids, result.clusters, data.columns);
        atomicAdd((unsigned long long *)&result.counts[cluster], 1ULL);
        for (long column = 0; column < data.columns; column++)
            atomicAdd(&result.sums[cluster * data.columns + column], values[column]);
    }
}

static int assign(int block_size, Dataset data, const double *centroids, AggregationResult result) {
    long blocks = (data.rows + block_size - 1) / block_size;
    assign_rows<<<(unsigned)(blocks < 4096 ? blocks : 4096), block_size>>>(data, centroids, result);
    return cudaDeviceSynchronize();
}
#endif

extern "C" int run_iteration(
    int block_size, GlobalParams *params, Dataset *data, GlobalState *state, AggregationResult *result) {
    (void)params;
    return assign(block_size, *data, state->centroids, *result);
}

extern "C" int setup_dataset(Dataset *data) {
    return cudaMallocManaged(&data->values, sizeof(double) * data->rows * data->columns);
}

extern "C" int setup_global_state(GlobalState *state) {
    return cudaMallocManaged(&state->centroids, sizeof(double) * state->clusters * state->columns);
}

extern "C" int setup_aggregation_result(AggregationResult *result) {
    int error = cudaMallocManaged(&result->counts, sizeof(long) * result->clusters);
    return error ? error : cudaMallocManaged(&result->sums, sizeof(double) * result->clusters * result->columns);
}

extern "C" int free_dataset(Dataset *data) { return cudaFree(data->values); }

extern "C" int free_global_state(GlobalState *state) { return cudaFree(state->centroids); }

extern "C" int free_aggregation_result(AggregationResult *result) {
    int error = cudaFree(result->counts);
    return error ? error : cudaFree(result->sums);
}
