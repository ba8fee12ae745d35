// SPDX-License-Identifier: Apache-2.0

package peer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.LockInternals;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;
import org.apache.curator.retry.RetryNTimes;

/** A process with Curator. */
public final class Peer extends Lines {
    private final CuratorFramework client;
    private final Map<String, Mutex> mutexes = new ConcurrentHashMap<>();
    private final Map<String, InterProcessReadWriteLock> pairs = new ConcurrentHashMap<>();
    private final Map<String, Leadership> leaderships = new ConcurrentHashMap<>();
    private final Map<String, Lease> permits = new ConcurrentHashMap<>();
    private final Map<String, CountDownLatch> revoked = new ConcurrentHashMap<>();

    private Peer(CuratorFramework client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        CuratorFrameworkFactory.Builder builder = CuratorFrameworkFactory.builder().connectString(args[0])
                .sessionTimeoutMs(Integer.parseInt(args[1])).connectionTimeoutMs(Integer.parseInt(args[1]))
                .retryPolicy(new RetryNTimes(50, 200));
        if (args.length > 2 && args[2].equals("compress")) {
            builder.enableCompression();
        }
        CuratorFramework client = builder.build();
        client.start();
        client.blockUntilConnected();
        new Peer(client).serve(String.valueOf(client.getZookeeperClient().getZooKeeper().getSessionId()));
    }

    /** It waits for the deletion of a node. */
    @Override
    boolean waits(StackTraceElement[] stack) {
        for (StackTraceElement f : stack) {
            if (!f.getClassName().equals("java.lang.Object")) {
                return f.getClassName().endsWith(".LockInternals");
            }
        }
        return false;
    }

    @Override
    Object act(String verb, String kind, String name, String[] args) throws Exception {
        switch (verb) {
            case "EXPIRE":
                client.getZookeeperClient().getZooKeeper().getTestable().injectSessionExpiration();
                return "";
            case "REVOKE":
                Revoker.attemptRevoke(client, name);
                return "";
            case "CZXID":
                return client.checkExists().forPath(name).getCzxid();
            case "SORT":
                List<String> sorted = LockInternals.getSortedChildren("lock-", new StandardLockInternalsDriver(), new ArrayList<>(Arrays.asList(args)));
                return String.join(" ", sorted);
            case "LEADER": // who is it, by the data of its node
                return new LeaderSelector(client, name, new Leadership(name)).getLeader().getId();
            default:
        }
        if (kind.equals("semaphore")) {
            return permit(verb, name);
        }
        if (kind.equals("latch") || kind.equals("select")) {
            return lead(verb, kind, name);
        }
        InterProcessMutex lock = lock(kind, name);
        switch (verb) {
            case "LOCK":
                lock.acquire();
                return "";
            case "TRY":
                return lock.acquire(Long.parseLong(args[0]), TimeUnit.MILLISECONDS);
            case "UNLOCK":
                lock.release();
                return "";
            case "CYCLE": // the value is from when until when it was held, or that it was lost
                lock.acquire();
                long from = micros();
                Thread.sleep(Long.parseLong(args[0]));
                long until = micros();
                boolean lost = client.checkExists().forPath(node(lock)) == null;
                lock.release();
                return lost ? "lost" : from + " " + until;
            case "HELD":
                return lock.isOwnedByCurrentThread();
            case "NODE":
                return node(lock);
            case "NODES":
                return String.join(",", lock.getParticipantNodes());
            case "REVOCABLE":
                CountDownLatch asked = new CountDownLatch(1);
                revoked.put(name, asked);
                lock.makeRevocable(forLock -> asked.countDown());
                return "";
            case "REVOKED":
                return revoked.get(name).await(Long.parseLong(args[0]), TimeUnit.MILLISECONDS);
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    private Object permit(String verb, String name) throws Exception {
        if (verb.equals("LOCK")) {
            permits.put(Thread.currentThread().getName() + " " + name, new InterProcessSemaphoreV2(client, name, 2).acquire());
        } else {
            permits.remove(Thread.currentThread().getName() + " " + name).close();
        }
        return "";
    }

    private Object lead(String verb, String kind, String name) throws Exception {
        String key = Thread.currentThread().getName() + " " + kind + " " + name;
        switch (verb) {
            case "LOCK":
                Leadership l = new Leadership(name);
                leaderships.put(key, l);
                l.begin(kind);
                return l.await();
            case "BEGIN": // without waiting
                Leadership begun = new Leadership(name);
                leaderships.put(key, begun);
                begun.begin(kind);
                return "";
            case "HELD":
                return leaderships.get(key).leads();
            case "AWAIT":
                return leaderships.get(key).await();
            case "UNLOCK":
                leaderships.remove(key).end();
                return "";
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    private InterProcessMutex lock(String kind, String name) {
        switch (kind) {
            case "mutex":
                return mutexes.computeIfAbsent(name, n -> new Mutex(client, n));
            case "read":
                return pairs.computeIfAbsent(name, n -> new InterProcessReadWriteLock(client, n)).readLock();
            case "write":
                return pairs.computeIfAbsent(name, n -> new InterProcessReadWriteLock(client, n)).writeLock();
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private static String node(InterProcessMutex lock) {
        if (lock instanceof Mutex) {
            return ((Mutex) lock).path();
        }
        if (lock instanceof InterProcessReadWriteLock.WriteLock) {
            return ((InterProcessReadWriteLock.WriteLock) lock).getLockPath();
        }
        return ((InterProcessReadWriteLock.ReadLock) lock).getLockPath();
    }

    /** Shows the path of its node. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String path() {
            return getLockPath();
        }
    }

    /** A LeaderLatch or a LeaderSelector. */
    private final class Leadership extends LeaderSelectorListenerAdapter {
        private final String name;
        private final CountDownLatch leading = new CountDownLatch(1);
        private final CountDownLatch ended = new CountDownLatch(1);
        private LeaderLatch latch;
        private LeaderSelector selector;

        Leadership(String name) {
            this.name = name;
        }

        void begin(String kind) throws Exception {
            if (kind.equals("latch")) {
                latch = new LeaderLatch(client, name, "java");
                latch.start();
            } else {
                selector = new LeaderSelector(client, name, this);
                selector.setId("java");
                selector.start();
            }
        }

        boolean await() throws Exception {
            if (latch != null) {
                latch.await();
            } else {
                leading.await();
            }
            return true;
        }

        boolean leads() {
            return latch != null ? latch.hasLeadership() : selector.hasLeadership();
        }

        void end() throws Exception {
            ended.countDown();
            if (latch != null) {
                latch.close();
            } else {
                selector.close();
            }
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws Exception {
            leading.countDown();
            ended.await();
        }
    }
}
