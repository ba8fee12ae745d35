// SPDX-License-Identifier: Apache-2.0

package peer;

import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** A process with Redisson. */
public final class Peer extends Lines {
    private final RedissonClient client;

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
        RedissonClient client = Redisson.create(config);
        new Peer(client).serve(client.getId());
    }

    /** It waits for a message. */
    @Override
    boolean waits(StackTraceElement[] stack) {
        return Arrays.stream(stack).anyMatch(f -> f.getClassName().equals("java.util.concurrent.Semaphore"));
    }

    @Override
    Object act(String verb, String kind, String name, String[] args) throws Exception {
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
                return Thread.currentThread().getId();
            default:
                throw new IllegalArgumentException(verb);
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
