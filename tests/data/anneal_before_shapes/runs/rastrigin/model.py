import math

dimensions = 2
# -- Globals
SIZE = 2
MOST = 5.12
# -- Globals


def empty_state():
    return [0.0] * SIZE


def initialize(state, randoms):
    for i in range(SIZE):
        state[i] = MOST * (2 * randoms[i] - 1)


def generate_next(state, new_state, randoms, step):
    for i in range(SIZE):
        new_state[i] = clamp(-MOST, state[i] + randoms[i] - 0.5, MOST)


def cool(initial_temp, old_temp, step):
    return old_temp * 0.998


def evaluate(state):
    energy = 10.0 * SIZE
    for i in range(SIZE):
        energy += state[i] * state[i] - 10.0 * math.cos(2 * math.pi * state[i])
    return energy


def acceptance_func(e_old, e_new, temp, rnd):
    return e_new < e_old or rnd < math.exp((e_old - e_new) / temp)
