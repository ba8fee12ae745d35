// SPDX-License-Identifier: Apache-2.0

package peer;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

/** A process with the lock registries of Spring Integration. A kind is a mode of the registry: spin or pubsub. */
public final class Peer extends Lines {
    private final Map<String, RedisLockRegistry> registries = new ConcurrentHashMap<>();

    /** Arguments: host:port, how long a lease is in ms. A registry is called as its mode is. */
    public static void main(String[] args) throws Exception {
        int colon = args[0].lastIndexOf(':');
        LettuceConnectionFactory connections =
                new LettuceConnectionFactory(args[0].substring(0, colon), Integer.parseInt(args[0].substring(colon + 1)));
        connections.afterPropertiesSet();
        connections.start();
        Peer peer = new Peer();
        for (RedisLockType type : RedisLockType.values()) {
            String name = type == RedisLockType.SPIN_LOCK ? "spin" : "pubsub";
            RedisLockRegistry registry = new RedisLockRegistry(connections, name, Long.parseLong(args[1]));
            registry.setRedisLockType(type);
            peer.registries.put(name, registry);
        }
        peer.serve("spring");
    }

    /** It waits for a message, and has found the lock held after it began to listen. */
    @Override
    boolean waits(StackTraceElement[] stack) {
        for (StackTraceElement f : stack) {
            if (!f.getClassName().startsWith("java.") && !f.getClassName().startsWith("jdk.")) {
                return f.getClassName().endsWith("RedisPubSubLock");
            }
        }
        return false;
    }

    @Override
    Object act(String verb, String kind, String name, String[] args) throws Exception {
        Lock lock = registries.get(kind).obtain(name);
        switch (verb) {
            case "LOCK":
                lock.lockInterruptibly();
                return "";
            case "TRY":
                return lock.tryLock(Long.parseLong(args[0]), TimeUnit.MILLISECONDS);
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
            default:
                throw new IllegalArgumentException(verb);
        }
    }
}
