# SPDX-License-Identifier: Apache-2.0
"""A process with kazoo, driven by lines. An actor is a thread with a lock object of its own.

request   id actor VERB kind name [arguments]
answer    id ok|no|err begin end [value]          begin and end in microseconds since 1970
"""

import queue
import sys
import threading
import time

from kazoo.client import KazooClient

client = KazooClient(hosts=sys.argv[1], timeout=float(sys.argv[2]))
writing = threading.Lock()


def micros():
    return int(time.time() * 1e6)


def answer(id, word, begin, value=""):
    with writing:
        print(id, word, begin, micros(), value, flush=True)


class Actor(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.requests = queue.Queue()
        self.locks = {}
        self.start()

    def lock(self, kind, name):
        key = kind + " " + name
        if key not in self.locks:
            if kind == "read":
                self.locks[key] = client.ReadLock(name, "python")
            else:
                patterns = ["-lock-"] if kind == "pattern" else ()
                self.locks[key] = client.Lock(name, "python", extra_lock_patterns=patterns)
        return self.locks[key]

    def act(self, verb, kind, name, args):
        lock = self.lock(kind, name)
        if verb == "LOCK":
            return lock.acquire()
        if verb == "TRY":
            return lock.acquire(blocking=False)
        if verb == "UNLOCK":
            return lock.release()
        raise ValueError(verb)

    def run(self):
        while True:
            words = self.requests.get()
            begin = micros()
            try:
                ok = self.act(words[2], words[3], words[4], words[5:])
                answer(words[0], "no" if ok is False else "ok", begin)
            except Exception as e:
                answer(words[0], "err", begin, repr(e))


client.start()
print("ready", client.client_id[0], flush=True)
actors = {}
for line in sys.stdin:
    words = line.split()
    if words[1] not in actors:
        actors[words[1]] = Actor()
    actors[words[1]].requests.put(words)
