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
import java.util.concurrent.locks.Lock;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

/**
 * A process with the lock registries of Spring Integration, driven by lines. An actor is a thread,
 * because its locks belong to threads. A kind is a mode of the registry: spin or pubsub. Answers come in
 * any order.
 *
 * <pre>
 * request   id actor VERB kind name [arguments]
 * answer    id ok|no|err begin end [value]          begin and end in microseconds since 1970
 * </pre>
 */
public final class Peer {
    private final Map<String, RedisLockRegistry> registries = new ConcurrentHashMap<>();
    private final Map<String, Actor> actors = new ConcurrentHashMap<>();

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
        System.out.println("ready spring");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            peer.actors.computeIfAbsent(words[1], name -> peer.new Actor(name)).requests.add(words);
        }
        Runtime.getRuntime().halt(0); // locks that are held stay, as after a crash
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
                try {
                    String[] words = requests.take();
                    long begin = micros();
                    try {
                        Object value = act(words[2], registries.get(words[3]).obtain(words[4]), Arrays.copyOfRange(words, 5, words.length));
                        answer(words[0], Boolean.FALSE.equals(value) ? "no" : "ok", begin, value);
                    } catch (Throwable e) {
                        answer(words[0], "err", begin, e.getClass().getSimpleName() + ": " + e.getMessage());
                    }
                } catch (InterruptedException e) {
                    continue;
                }
            }
        }

        private Object act(String verb, Lock lock, String[] args) throws Exception {
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
}
