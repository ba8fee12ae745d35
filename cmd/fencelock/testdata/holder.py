# SPDX-License-Identifier: Apache-2.0
"""Holds one lock, and does what it reads: check, lock or release. It writes what happens, with the time since 1970.

python3 holder.py SERVER TOKEN LOCK TTL
"""
import logging
import sys
import time

import fencelock


def report(*words):
    line = " ".join([*map(str, words), f"{time.time():.6f}"])
    sys.stdout.write(line + "\n")  # in one piece: callbacks run on threads, and print writes each word on its own
    sys.stdout.flush()


def act(client, lock, lease, command):
    if command == "lock":
        lease = client.lock(lock, wait=60, reason="a test", on_lost=lambda l: report("lost"), on_contended=lambda l: report("contended"))
        report("held", lease.token)
    elif command == "check":
        lease.check()
        report("valid", lease.token)
    elif command == "release":
        lease.release()
        report("released")
    return lease


def main(server, token, lock, ttl):
    logging.basicConfig(level=logging.INFO, format="%(created).6f %(message)s")  # why a call was repeated
    client, lease = fencelock.Client(server, token=token, owner="holder", ttl=float(ttl)), None
    for command in sys.stdin:
        try:
            lease = act(client, lock, lease, command.strip())
        except fencelock.Error as err:
            logging.warning("%s: %s", type(err).__name__, err)
            report(type(err).__name__)


if __name__ == "__main__":
    main(*sys.argv[1:])
