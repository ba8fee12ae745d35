// SPDX-License-Identifier: Apache-2.0

package peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * A process with Redisson, driven by lines. An actor is a thread, because Redisson's locks belong
 * to threads. Answers come in any order.
 *
 * <pre>
 * request   id actor VERB kind name [arguments]
 * answer    id ok|no|err begin end [value]          begin and end in microseconds since 1970
 * </pre>
 */
public final class Peer {
    private final RedissonClient client;
    private final Map<String, Actor> actors = new ConcurrentHashMap<>();

    private Peer(RedissonClient client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.setLockWatchdogTimeout(Long.parseLong(args[1]));
        int timeout = Integer.parseInt(args[2]);
        String[] addresses = args[0].split(",");
        if (addresses.length == 1) {
            config.useSingleServer().setAddress("redis://" + addresses[0]).setTimeout(timeout)
                    .setConnectionMinimumIdleSize(2).setConnectionPoolSize(16);
        } else {
            for (int i = 0; i < addresses.length; i++) {
                addresses[i] = "redis://" + addresses[i];
            }
            config.useClusterServers().addNodeAddress(addresses).setTimeout(timeout)
                    .setMasterConnectionMinimumIdleSize(2).setSlaveConnectionMinimumIdleSize(1);
        }
        Peer peer = new Peer(Redisson.create(config));
        System.out.println("ready " + peer.client.getId());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            peer.take(line.split(" "));
        }
        Runtime.getRuntime().halt(0); // locks that are held stay, as after a crash
    }

    private void take(String[] words) {
        if (words[2].equals("WAITS")) { // has it begun to wait for a message?
            Actor other = actors.get(words[1]);
            boolean waits = other != null && Arrays.stream(other.getStackTrace())
                    .anyMatch(f -> f.getClassName().equals("java.util.concurrent.Semaphore"));
            answer(words[0], waits ? "ok" : "no", micros(), "");
            return;
        }
        if (words[2].equals("INTERRUPT")) {
            Actor other = actors.get(words[1]);
            answer(words[0], other == null ? "no" : "ok", micros(), "");
            if (other != null) {
                other.interrupt();
            }
            return;
        }
        actors.computeIfAbsent(words[1], Actor::new).requests.add(words);
    }

    private static long micros() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    private static void answer(String id, String word, long begin, Object value) {
        synchronized (System.out) {
            System.out.println(id + " " + word + " " + begin + " " + micros() + " " + value);
        }
    }

    private final class Actor extends Thread {
        final LinkedBlockingQueue<String[]> requests = new LinkedBlockingQueue<>();

        Actor(String name) {
            super(name);
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            while (true) {
                String[] words;
                try {
                    words = requests.take();
                } catch (InterruptedException e) {
                    continue; // it was for a request that has ended
                }
                long begin = micros();
                try {
                    Object value = act(words[2], words[3], words[4], Arrays.copyOfRange(words, 5, words.length));
                    answer(words[0], Boolean.FALSE.equals(value) ? "no" : "ok", begin, value);
                } catch (Throwable e) {
                    answer(words[0], "err", begin, e.getClass().getSimpleName() + ": " + e.getMessage());
                }
            }
        }

        private Object act(String verb, String kind, String name, String[] args) throws Exception {
            RLock lock = lock(kind, name);
            switch (verb) {
                case "LOCK":
                    lock.lockInterruptibly(Long.parseLong(args[0]), TimeUnit.MILLISECONDS);
                    return "";
                case "TRY":
                    return lock.tryLock(Long.parseLong(args[0]), Long.parseLong(args[1]), TimeUnit.MILLISECONDS);
                case "UNLOCK":
                    lock.unlock();
                    return "";
                case "CYCLE": // the value is from when until when it was held
                    lock.lockInterruptibly();
                    long from = micros();
                    Thread.sleep(Long.parseLong(args[0]));
                    long until = micros();
                    lock.unlock();
                    return from + " " + until;
                case "FORCE":
                    return lock.forceUnlock();
                case "HELD":
                    return lock.isHeldByCurrentThread();
                case "LOCKED":
                    return lock.isLocked();
                case "COUNT":
                    return lock.getHoldCount();
                case "TTL":
                    return lock.remainTimeToLive();
                case "TOKEN": // not in every version
                    return lock.getClass().getMethod("lockAndGetToken").invoke(lock);
                case "TOKENLEASE": // with a lease
                    return lock.getClass().getMethod("lockAndGetToken", long.class, TimeUnit.class)
                            .invoke(lock, Long.parseLong(args[0]), TimeUnit.MILLISECONDS);
                case "TRYTOKEN":
                    return lock.getClass().getMethod("tryLockAndGetToken").invoke(lock);
                case "TRYSECONDS": // without a lease
                    return lock.tryLock(Long.parseLong(args[0]), TimeUnit.SECONDS);
                case "MULTI": // as an RMultiLock of this lock alone
                    client.getMultiLock(lock).lock(Long.parseLong(args[0]), TimeUnit.MILLISECONDS);
                    return "";
                case "LATCHSET":
                    return client.getCountDownLatch(name).trySetCount(Long.parseLong(args[0]));
                case "LATCHAWAIT":
                    return client.getCountDownLatch(name).await(Long.parseLong(args[0]), TimeUnit.MILLISECONDS);
                case "LATCHDELETE":
                    return client.getCountDownLatch(name).delete();
                case "LAST":
                    return lock.getClass().getMethod("getToken").invoke(lock);
                case "THREAD":
                    return getId();
                default:
                    throw new IllegalArgumentException(verb);
            }
        }
    }

    private RLock lock(String kind, String name) throws Exception {
        switch (kind) {
            case "lock":
                return client.getLock(name);
            case "fair":
                return client.getFairLock(name);
            case "spin":
                return client.getSpinLock(name);
            case "read":
                return client.getReadWriteLock(name).readLock();
            case "write":
                return client.getReadWriteLock(name).writeLock();
            case "fenced": // not in every version
                return (RLock) RedissonClient.class.getMethod("getFencedLock", String.class).invoke(client, name);
            default:
                throw new IllegalArgumentException(kind);
        }
    }
}
