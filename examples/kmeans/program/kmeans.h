#ifndef KMEANS_H
#define KMEANS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    long clusters;
    long max_iterations;
    double tolerance;
} GlobalParams;

typedef struct {
    long rows;
    long columns;
    double *values; /* rows x columns */
} Dataset;

typedef struct {
    long clusters;
    long columns;
    long *counts; /* of each cluster */
    double *sums; /* clusters x columns */
} AggregationResult;

typedef struct {
    int done;
    long iteration;
    double moved;
    long clusters;
    long columns;
    double *centroids; /* clusters x columns */
} GlobalState;

int run_iteration(int block_size, GlobalParams *params, Dataset *data, GlobalState *state, AggregationResult *result);

int setup_dataset(Dataset *data);
int setup_global_state(GlobalState *state);
int setup_aggregation_result(AggregationResult *result);

int free_dataset(Dataset *data);
int free_global_state(GlobalState *state);
int free_aggregation_result(AggregationResult *result);

#ifdef __cplusplus
}
#endif
#endif
