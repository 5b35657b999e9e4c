"""What all contestants share: requests and answers as JSON lines, and the clock.

It runs in every contestant's environment, so it needs nothing but Python. A request is one line on
standard input, `{"do": "measure", "what": "optimize()"}`, and its answer one line on standard output; what a
library prints goes to standard error. Time is taken here, around the work alone, without sending and waiting.
"""

import json
import os
import sys
import time
import traceback


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


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def timed(work, clock="wall"):
    """Return what the work returns and how many seconds it took, by the clock on the wall or of the processor."""
    now = CLOCKS[clock]
    start = now()
    result = work()
    return result, now() - start
