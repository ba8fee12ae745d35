# SPDX-License-Identifier: Apache-2.0
"""Distributed locks with fencing tokens, through a server of `fencelock serve`.

    from fencelock import Client

    with Client("http://localhost:7420", token=TOKEN, owner="worker-3") as client:
        with client.lock("orders/42", wait=30) as lease:
            write(order, fence=lease.token)  # the resource rejects a token older than one it has seen

The standard library is enough. Two threads work for a client: one renews its leases, the other notices when
their trusted time is over, whatever the first one waits for.

    acquire ──▶ held ──▶ released    release(), or the end of the with block
                 └─────▶ lost        the server reports it, or trusted time is over: lease.lost is set,
                                     on_lost is called, check() and the with block raise Lost

A call that fails is repeated, at the next URL if there are several: every call has an id, so that repeating it changes
nothing. Leases outlive the server that they were acquired through, if another one answers in time.

A lock alone does not stop a process that was paused for longer than its lease: send lease.token with each write, and
let the resource reject older tokens (guard_example.py). Make a client after a fork, not before.
"""
import asyncio
import atexit
import contextlib
import functools
import http.client
import json
import logging
import os
import ssl
import threading
import time
import urllib.parse
import uuid
import weakref

__all__ = ["Client", "Lease", "Error", "Busy", "Grace", "Lost", "Denied", "Unavailable"]
log = logging.getLogger("fencelock")
MOST = 100  # leases that a call names


class Error(Exception):
    """What all errors of this module are."""


class Busy(Error, TimeoutError):
    """The lock was not free within the wait."""


class Lost(Error):
    """The lease has ended before it was released: another client may hold the lock."""


class Denied(Error):
    """The server rejected the call: wrong token, no right on the lock, or a bad argument."""


class Unavailable(Error, ConnectionError):
    """No server answered in time, or its store did not."""


class Grace(Unavailable):
    """The store is new or has lost its data, and grants no new lock for retry_after seconds."""

    def __init__(self, text, retry_after):
        super().__init__(text)
        self.retry_after = retry_after


def clock():
    """Seconds that count the time the machine was suspended, where the system can."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    """One acquisition. It is safe to use from several threads."""

    def __init__(self, client, name, reason, on_lost, on_contended, watch):
        self.name, self.reason = name, reason
        self.id = uuid.uuid4().hex
        self.token = 0  #: the fencing token: send it with each write; 0 on a store without tokens (memcached)
        self.lost = threading.Event()  #: set when the lease has ended before it was released
        self.contended = threading.Event()  #: set when another client waits for the lock, if watch was asked for
        self.why = ""  #: why it was lost
        self._client, self._on_lost, self._on_contended = client, on_lost, on_contended
        self._watch, self._since, self._deadline = watch or on_contended is not None, 0.0, 0.0
        self._moved = self._released = False
        self._leaving = False  # a release was sent while the lease was trusted
        # a call about it was sent and not answered: its server may have joined or queued it. It is read before _moved, which an
        # answer sets first
        self._asked = False
        self._conn = None  # that of the acquisition: a server keeps a position in the queue for those who come back to it

    @property
    def remaining(self):
        """Seconds for which the lease can be trusted without another answer of a server."""
        return 0.0 if self.lost.is_set() or self._released else max(0.0, self._deadline - clock())

    def valid(self):
        """Whether the lease is trusted at this moment. The process can be paused right after it."""
        return self.remaining > 0

    def check(self):
        """Raise Lost unless the lease is held. Call it between the steps of long work."""
        if not self.valid():
            raise Lost(f"lock {self.name!r}: {self.why or 'its trusted time is over, or it was released'}")

    def release(self):
        """Give the lock back. Raise Lost if the lease had ended before."""
        self._client._release(self)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.release()
        except Error:
            if kind is None:
                raise

    def _named(self, **more):
        return {"id": self.id, "lock": self.name, "token": str(self.token), "reason": self.reason,
                "watch": self._watch, "contended": self.contended.is_set(), "moved": self._moved, **more}

    def _answered(self, answer, sent):
        """Take an answer of a server to a call that was sent at an instant."""
        self._moved, self._asked = self._moved or answer.get("moved", False), False
        if answer["state"] == "lost":
            self._end(answer.get("why", ""))
        elif answer["state"] == "held":
            token = int(answer.get("token", 0))
            if self.token not in (0, token):
                return self._end("the lock was granted again since")
            self.token = token
            self._deadline = max(self._deadline, sent + answer["trusted_ms"] / 1000)
            if answer.get("contended") and not self.contended.is_set():
                self.contended.set()
                _run(self._on_contended, self)

    def _end(self, why):
        with self._client._changed:
            if self._released or self.lost.is_set() or self._client._leases.pop(self.id, None) is None:
                return
            self.why = why
            self.lost.set()
        log.warning("lock %r was lost: %s", self.name, why)
        _run(self._on_lost, self)


def _give_back(waiting):
    """Release what a canceled wait was granted; it ends with Busy otherwise."""
    if not waiting.cancelled() and waiting.exception() is None:
        threading.Thread(target=_quietly, args=(waiting.result().release,), daemon=True).start()


def _quietly(call):
    try:
        call()
    except Error as err:
        log.info("%s", err)


def _run(callback, lease):
    """Call back on a thread of its own: one that blocks must delay no renewal, and no other notice."""
    def call():
        try:
            callback(lease)
        except Exception:
            log.exception("a callback about lock %r failed", lease.name)
    try:
        if callback:
            threading.Thread(target=call, name="fencelock callback", daemon=True).start()
    except RuntimeError:  # there are too many threads
        call()


class Client:
    """A client of one or more servers. It is safe to use from several threads; leases end with close().

    url      of a server or a load balancer, or a list of them
    token    of a user with the right to take the locks; or give ssl_context with a client certificate
    owner    who you are, for the people who look at the locks
    ttl      seconds until the locks of a killed process are free; the servers have a limit
    """

    def __init__(self, url, token="", owner="", ttl=10.0, ssl_context=None):
        self._urls = [urllib.parse.urlsplit(u) for u in ([url] if isinstance(url, str) else url)]
        for u in self._urls:
            if u.scheme not in ("http", "https") or not u.netloc:
                raise ValueError(f"{u.geturl()!r} is not the URL of a server: write it as http://localhost:7420")
        self._headers = {"Content-Type": "application/json"}
        token = token.strip()  # a file ends with a newline
        if not (token.isascii() and token.isprintable()):
            raise ValueError("the token has characters that no token has")  # an error of http.client would show it
        if token:
            self._headers["Authorization"] = "Bearer " + token
        self._owner, self._ttl, self._ssl = owner, ttl, ssl_context
        self._session, self._session_lock = "", threading.Lock()
        self._idle, self._at = [], 0
        self._changed = threading.Condition()
        self._leases = {}  # held, by id
        self._leaving = {}  # released, and no server has answered that
        self._threads, self._closed, self._process = {}, False, os.getpid()
        # Its locks are free when the program ends, and not a TTL later. A client that nothing else refers to is not kept for that.
        close = weakref.WeakMethod(self.close)
        atexit.register(lambda: (close() or (lambda: None))())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def lock(self, name, wait=None, reason="", on_lost=None, on_contended=None, watch=False, cancel=None):
        """Wait for the lock and return a Lease, to be released or used in a with block.

        wait       seconds, 0 to try once; None waits forever. Busy is raised after that, and
                   Unavailable if no server answers, after ttl more seconds
        on_lost    called with the lease, on another thread, when the lease is lost
        on_contended  called with the lease, on another thread, when another client waits for the lock
        watch      sets lease.contended then, without a callback; both cost a call to the store
        cancel     a threading.Event: when it is set the wait ends, within a second, with Busy. A thread cannot be
                   stopped from outside, so a wait that nobody waits for any more would get the lock, and keep it
        """
        self._check_process()
        lease = Lease(self, name, reason, on_lost, on_contended, watch)
        until = None if wait is None else clock() + wait
        try:
            while not self._acquire(lease, until, 5.0 if cancel is None else 1.0):
                if until is not None and clock() >= until:
                    raise Busy(f"lock {name!r}: not free within {wait} s")
                if cancel is not None and cancel.is_set():
                    break
            if cancel is not None and cancel.is_set():
                raise Busy(f"lock {name!r}: the wait was canceled")
            self._put_back(lease)
            return lease
        except BaseException:
            self._abandon(lease)
            raise

    @contextlib.asynccontextmanager
    async def lock_async(self, name, **more):
        """lock() for asyncio, as `async with client.lock_async("orders/42") as lease`. A wait that is canceled gets no lock: the
        thread that waits gives back what it is granted after that."""
        cancel, loop = threading.Event(), asyncio.get_running_loop()
        waiting = loop.run_in_executor(None, functools.partial(self.lock, name, cancel=cancel, **more))
        try:
            lease = await asyncio.shield(waiting)
        except asyncio.CancelledError:
            cancel.set()
            waiting.add_done_callback(_give_back)
            raise
        try:
            yield lease
        except BaseException:
            with contextlib.suppress(Error):
                await asyncio.shield(loop.run_in_executor(None, lease.release))
            raise
        await asyncio.shield(loop.run_in_executor(None, lease.release))

    def _acquire(self, lease, until, most):
        """Make one call that waits, and report whether the lock is held."""
        left = most if until is None else max(0.0, min(most, until - clock()))
        body = {"session": self._open(None if until is None else until + self._ttl), "id": lease.id, "lock": lease.name, "wait_ms": int(left * 1000),
                "reason": lease.reason, "watch": lease._watch}
        lease._asked = True
        answer, sent = self._insist("/v1/acquire", body, left + self._ttl / 2, None if until is None else until + self._ttl, lease)
        if answer["state"] == "lost":  # it was granted, and its answer was not received in time: begin again
            lease.id = uuid.uuid4().hex
        if answer["state"] != "held":
            lease._asked = answer["state"] == "waiting"
            return False
        if sent + answer["trusted_ms"] / 1000 <= clock():  # this process was paused: the same id asks again
            lease._asked = True
            time.sleep(self._ttl / 100)
            return False
        lease._answered(answer, sent)
        with self._changed:
            if self._closed:
                raise Error("the client was closed")
            lease._since = sent
            self._leases[lease.id] = lease
            for work in self._watch, self._renew:
                if not self._threads.get(work.__name__):  # or the start of it failed: there were too many
                    thread = threading.Thread(target=work, name="fencelock", daemon=True)
                    thread.start()
                    self._threads[work.__name__] = thread
            self._changed.notify_all()
        return True

    def _abandon(self, lease):
        """Stop waiting. If no server answers, none keeps the position for longer than the TTL."""
        with self._changed:
            self._leases.pop(lease.id, None)
            lease._released = True
        if lease._asked or lease._moved or lease._deadline:
            try:
                body = lease._named(session=self._session, moved=True)
                self._insist("/v1/release", body, self._ttl / 4, clock() + self._ttl / 4, lease)
            except Error:
                pass
        self._put_back(lease)

    def _put_back(self, lease):
        """Let other calls use the connection of an acquisition that is over."""
        if lease._conn:
            self._idle.append(lease._conn)
            lease._conn = None

    def _check_process(self):
        """Raise in a process that was forked later. It would read the answers of the other one, and block: a lock that a
        thread had at the fork is not given back in the new process, which does not have that thread."""
        if os.getpid() != self._process:
            raise Error("the client was made before a fork; make one after it")

    def _release(self, lease):
        self._check_process()
        if lease._deadline <= clock():
            lease._end("it was not renewed in time")  # the thread that ends leases may not have run yet
        with self._changed:
            self._leaving = {id: l for id, l in self._leaving.items() if l._deadline > clock()}  # the others have ended anyway
            if lease._released and lease.id not in self._leaving:
                return
            lease._released = True
            self._leases.pop(lease.id, None)
            if not lease.lost.is_set():
                self._leaving[lease.id] = lease  # until an answer: a second release(), or close(), repeats the call
            body = lease._named(session=self._session, moved=lease._asked or lease._moved)
        if lease.lost.is_set():
            raise Lost(f"lock {lease.name!r}: {lease.why}")
        # A release that was sent in time, and whose answer did not come, may have been done: then another server no longer
        # has the lease, and answers the repetition with lost. The work was done under a lease that was trusted.
        failures, lease._leaving = [lease] if lease._leaving else [], True
        answer, _ = self._insist("/v1/release", body, self._ttl / 2, clock() + self._ttl, None, failures)
        with self._changed:
            self._leaving.pop(lease.id, None)
        if answer["state"] == "lost" and not failures:
            raise Lost(f"lock {lease.name!r}: {answer.get('why', '')}")

    def close(self):
        """Release all leases and stop the threads. After a fork it does nothing: the leases are those of the other process."""
        if os.getpid() != self._process:
            return
        with self._changed:
            leases, self._closed = [*self._leases.values(), *self._leaving.values()], True
            for lease in leases:
                lease._released = True
            self._leases.clear()
            self._leaving.clear()
            self._changed.notify_all()
        names = [lease._named(moved=lease._asked or lease._moved) for lease in leases]
        try:
            for i in range(0, len(names), MOST):
                body = {"session": self._session, "leases": names[i:i + MOST]}
                for answer in self._insist("/v1/end", body, self._ttl / 2, clock() + self._ttl)[0].get("leases", ()):
                    if answer["state"] == "lost":
                        log.warning("lock %r was lost: %s", answer.get("lock"), answer.get("why"))
        except Error as err:
            log.warning("locks were not released and end with their TTL: %s", err)
        for conn in self._idle:
            conn.close()

    def _open(self, until):
        """Make the session. Of several that threads make at once the first is kept; the others cost nothing."""
        if self._closed:
            raise Error("the client was closed")
        if not self._session:
            body = {"ttl_ms": int(self._ttl * 1000), "owner": self._owner}
            made, _ = self._insist("/v1/session", body, self._ttl / 2, until)
            with self._session_lock:
                self._session = self._session or made["session"]
        return self._session

    def _due(self):
        """Wait for leases to renew, the most urgent first; None if the client was closed. One that was acquired a moment ago
        is not named: if it is released soon no other server has joined it."""
        with self._changed:
            while not self._closed:
                old = clock() - self._ttl / 20
                due = [l for l in self._leases.values() if l._watch or l._since <= old]
                due = sorted(due, key=lambda l: l._deadline)[:MOST]
                for lease in due:
                    lease._asked = True
                if due:
                    return due
                self._changed.wait(self._ttl / 20 if self._leases else None)

    def _renew(self):
        """The thread that renews. A call waits at the server for news, for a fifth of the TTL, and is given up early
        enough for other tries, which do not wait: a server that is paused does not answer."""
        failures = 0
        while True:
            leases = self._due()
            if leases is None:
                return
            wait, patience = (0, self._ttl / 8) if failures or len(leases) == MOST else (self._ttl / 5, self._ttl / 6)
            body = {"session": self._session, "wait_ms": int(wait * 1000), "leases": [l._named() for l in leases]}
            try:
                answer, sent = self._call("/v1/renew", body, wait + patience)
                for lease, state in zip(leases, answer["leases"]):
                    lease._answered(state, sent)
                failures = 0
                if not wait or any(state.get("elsewhere") for state in answer["leases"]):  # it was answered at once
                    time.sleep(self._ttl / 20)
            except Exception as err:  # whatever a proxy answers, the thread goes on
                failures += 1
                for lease in leases:
                    lease._moved = True  # the server may have joined it
                log.info("a renewal failed: %s: %s", type(err).__name__, err)
                time.sleep(min(self._ttl / 20, 0.01 * 2 ** min(failures, 8)))

    def _watch(self):
        """The thread that ends leases at their deadline. It wakes up often, because a suspend moves the clock."""
        while True:
            with self._changed:
                if self._closed:
                    return
                now = clock()
                over = [l for l in self._leases.values() if l._deadline <= now]
                if not over:
                    ends = [l._deadline - now for l in self._leases.values()]
                    self._changed.wait(min(ends + [0.5]))
            for lease in over:
                lease._end("it was not renewed in time")

    def _insist(self, path, body, timeout, until, lease=None, failed=None):
        """Repeat a call until a server answers it, or until an instant; failed gets the errors in between."""
        failures = 0
        while True:
            try:
                return self._call(path, body, timeout, lease)
            except Grace:
                raise
            except Unavailable as err:
                failures += 1
                if failed is not None:
                    failed.append(err)
                pause = min(1.0, 0.01 * 2 ** min(failures, 8))
                if until is not None and clock() + pause >= until or self._closed and path == "/v1/acquire":
                    raise
                log.info("a call failed and is repeated: %s", err)
                time.sleep(pause)

    def _call(self, path, body, timeout, lease=None):
        """Make one call; return its answer and the instant before it was sent. An acquisition uses one connection."""
        text = json.dumps(body, ensure_ascii=False).encode()  # escapes would exceed what a server accepts
        sent, conn = clock(), self._connection(timeout, lease)
        try:
            if conn.sock:
                conn.sock.settimeout(timeout)
            conn.request("POST", conn.path + path, text, self._headers)
            response = conn.getresponse()
            status, text, later = response.status, response.read(), response.headers.get("Retry-After")
        except (OSError, ValueError, http.client.HTTPException) as err:
            self._leave(conn, lease)
            raise Unavailable(f"{conn.host}:{conn.port}{path}: {type(err).__name__}: {err}") from err
        try:
            answer = json.loads(text)
            ours = answer.keys() & {"session", "state", "leases"} or status != 200
            cut_off = any(l.get("elsewhere") for l in answer.get("leases", ()))
        except (ValueError, TypeError, AttributeError):  # it is not from a server of this API
            answer, ours, cut_off = {}, status != 200, False
        status, conn.used = status if ours else 502, sent
        grace = status == 503 and answer.get("code") == "grace"
        if status >= 500 and not grace or cut_off or path == "/v1/renew" and status != 200:  # another server may accept the renewal
            self._leave(conn, lease)
        elif lease:
            lease._conn = conn
        else:
            self._idle.append(conn)
        if status == 200:
            return answer, sent
        detail = f"{path}: {answer.get('detail') or answer.get('title') or 'the server answers ' + str(status)}"
        if grace:
            raise Grace(detail, float(later or 1))
        again = status >= 500 or status == 429 and answer.get("code") != "limit"
        raise (Unavailable if again else Denied)(detail)

    def _leave(self, conn, lease):
        """Go to another server: the open connections lead to one that does not answer, or that is cut off."""
        if lease:
            lease._moved = True  # it may have granted the lock
        if conn.at == self._at:  # no other thread has left it
            self._at += 1
        idle, self._idle = self._idle, []
        conn.close()
        try:
            while True:
                idle.pop().close()  # another thread may take one of them at this moment: then it is not closed
        except IndexError:
            pass

    def _connection(self, timeout, lease):
        conn = None
        if lease:
            conn, lease._conn = lease._conn, None
        try:
            while not conn:
                conn = self._idle.pop()
                if clock() - conn.used > 20:  # the server, or a proxy, may have closed it
                    conn = conn.close()
        except IndexError:
            at = self._at
            url = self._urls[at % len(self._urls)]
            conn = http.client.HTTPConnection(url.netloc)
            if url.scheme == "https":
                conn = http.client.HTTPSConnection(url.netloc, context=self._ssl or ssl.create_default_context())
            conn.path, conn.at = url.path.rstrip("/"), at
        conn.timeout = timeout
        return conn
