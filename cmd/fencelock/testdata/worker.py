# SPDX-License-Identifier: Apache-2.0
"""A worker of the demo: takes locks through the servers and writes to a guarded resource.

python3 worker.py SERVER TOKEN GUARD NAME TTL LOCK...
"""
import json
import random
import sys
import time
import urllib.error
import urllib.request

import fencelock


def guarded(url, **call):
    """Send a call with its token to the resource; None if the token is too old."""
    request = urllib.request.Request(url, json.dumps(call).encode())
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as err:
        if err.code == 409:
            return None
        raise


def work(client, guard, name, lock):
    try:
        with client.lock(lock, wait=5) as lease:
            value = guarded(guard, worker=name, lock=lock, token=str(lease.token), write=False, value=0)
            time.sleep(random.uniform(0, 0.02))
            if value is not None:
                guarded(guard, worker=name, lock=lock, token=str(lease.token), write=True, value=value + 1)
    except fencelock.Error as err:
        print(type(err).__name__, err, flush=True)


def main(server, token, guard, name, ttl, *locks):
    client = fencelock.Client(server, token=token, owner=name, ttl=float(ttl))
    while True:
        work(client, guard, name, random.choice(locks))


if __name__ == "__main__":
    main(*sys.argv[1:])
