# SPDX-License-Identifier: Apache-2.0
"""A guard: the resource keeps the newest token that it has seen, and rejects writes with an older one.

    python3 guard_example.py http://localhost:7420 TOKEN

Here the resource is a row of SQLite. The check and the write are one statement: between two statements an older
holder could write.
"""
import sqlite3
import sys

from fencelock import Client

WRITE = "UPDATE stock SET pieces = ?, fence = ? WHERE item = ? AND fence <= ?"


class Stale(Exception):
    """A newer holder has written."""


def write(db, item, pieces, token):
    with db:
        if db.execute(WRITE, (pieces, token, item, token)).rowcount == 0:
            raise Stale(f"token {token} is older than the newest that {item} has seen")


def main(url, token):
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE stock (item TEXT PRIMARY KEY, pieces INTEGER, fence INTEGER)")
    db.execute("INSERT INTO stock VALUES ('nails', 100, 0)")
    with Client(url, token=token, owner="stocktaking") as client:
        with client.lock("stock/nails", wait=30) as first:
            write(db, "nails", 99, first.token)
        with client.lock("stock/nails", wait=30) as second:
            write(db, "nails", 98, second.token)
            try:
                write(db, "nails", 99, first.token)  # a holder that was paused, and does not know that it is late
            except Stale as err:
                print("rejected:", err)
    print("pieces:", db.execute("SELECT pieces FROM stock").fetchone()[0])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python3 guard_example.py URL TOKEN")
    main(*sys.argv[1:])
