# SPDX-License-Identifier: Apache-2.0
"""A process with redis-py's Lock, driven by lines.

request   id actor VERB kind name [arguments]
answer    id ok|no|err begin end [value]          begin and end in microseconds since 1970
"""

import sys
import time

import redis

host, port = sys.argv[1].rsplit(":", 1)
client = redis.Redis(host=host, port=int(port))
locks = {}


def micros():
    return int(time.time() * 1e6)


def act(verb, name, args):
    if verb == "TRY":
        lock = client.lock(name, timeout=float(args[0]) / 1000)
        locks[name] = lock
        return lock.acquire(blocking=False)
    if verb == "UNLOCK":
        locks.pop(name).release()
        return True
    raise ValueError(verb)


print("ready redis-py", flush=True)
for line in sys.stdin:
    words = line.split()
    begin = micros()
    try:
        word, value = ("ok" if act(words[2], words[4], words[5:]) else "no"), ""
    except Exception as e:
        word, value = "err", type(e).__name__ + ": " + str(e)
    print(words[0], word, begin, micros(), value, flush=True)
