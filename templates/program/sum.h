#ifndef SUM_H
#define SUM_H

#ifdef __cplusplus
extern "C" {
#endif

/* The settings, which `--set` fills in. */
typedef struct {
    long column;
} GlobalParams;

/* The table, or some of its rows. */
typedef struct {
    long rows;
    long columns;
    double *values; /* rows x columns */
} Dataset;

/* What one iteration gives for some rows. */
typedef struct {
    long rows;
    double sum;
} AggregationResult;

/* What each iteration is given; after `done`, it is the result. */
typedef struct {
    int done;
    long column;
    long rows;
    double sum;
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
