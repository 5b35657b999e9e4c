"""What all contestants share: requests and answers as JSON lines, the candidates, the clock.

It runs in every contestant's environment, so it needs NumPy and nothing else. A request is one line on
standard input, `{"do": "measure", "what": "optimize()"}`, and its answer one line on standard output; what a
library prints goes to standard error. Time is taken here, around the work alone, without sending and waiting.
"""

import json
import os
import sys
import time
import traceback

import numpy as np


def serve(contestant):
    """Answer requests by calling the contestant's methods, until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"answer": getattr(contestant, request.pop("do"))(**request)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


def grid(axes):
    """Return every combination of the axes' values, (M, d); the last axis moves fastest."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def probes(count):
    """Return the indices of a few candidates, at which the contestants' posteriors are compared."""
    return np.linspace(0, count - 1, 7).astype(int)


def timed(work):
    """Return what the work returns and how many seconds it took."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start
