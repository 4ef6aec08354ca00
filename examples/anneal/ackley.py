import math

dimensions = 2
# -- Globals
A = 20.0
B = 0.2
C = 2 * math.pi
# -- Globals


def empty_state():
    return [0.0, 0.0]


def initialize(state, randoms):
    for i in range(2):
        state[i] = 60 * randoms[i] - 30


def generate_next(state, new_state, randoms, step):
    for i in range(2):
        new_state[i] = clamp(-30.0, state[i] + 2 * randoms[i] - 1, 30.0)


def cool(initial_temp, old_temp, step):
    return initial_temp * 0.999**step


def evaluate(state):
    squares = 0.0
    waves = 0.0
    for i in range(2):
        squares += state[i] * state[i]
        waves += math.cos(C * state[i])
    return -A * math.exp(-B * math.sqrt(squares / 2)) - math.exp(waves / 2) + A + math.e


def acceptance_func(e_old, e_new, temp, rnd):
    return e_new < e_old or rnd < math.exp((e_old - e_new) / temp)
