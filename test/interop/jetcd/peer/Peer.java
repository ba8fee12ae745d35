// SPDX-License-Identifier: Apache-2.0

package peer;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.etcd.jetcd.lock.LockResponse;
import io.etcd.jetcd.support.CloseableClient;
import io.grpc.stub.StreamObserver;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A process with jetcd, driven by lines. An actor has a lease, which it keeps alive. Answers come in
 * any order.
 *
 * <pre>
 * request   id actor VERB kind name [arguments]
 * answer    id ok|no|err begin end [value]          begin and end in microseconds since 1970
 * </pre>
 */
public final class Peer {
    private final Client client;
    private final long ttl;
    private final Map<String, Actor> actors = new ConcurrentHashMap<>();

    private Peer(Client client, long ttl) {
        this.client = client;
        this.ttl = ttl;
    }

    public static void main(String[] args) throws Exception {
        Client client = Client.builder().endpoints("http://" + args[0]).build();
        Peer peer = new Peer(client, Long.parseLong(args[1]) / 1000);
        System.out.println("ready jetcd");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            new Thread(() -> peer.take(words)).start();
        }
        Runtime.getRuntime().halt(0); // locks that are held stay, as after a crash
    }

    private void take(String[] words) {
        long begin = micros();
        try {
            Object value = actors.computeIfAbsent(words[1], a -> new Actor()).act(words[2], words[4]);
            answer(words[0], "ok", begin, value);
        } catch (Throwable e) {
            answer(words[0], "err", begin, e.getClass().getSimpleName() + ": " + e.getMessage());
        }
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

    private static ByteSequence bytes(String text) {
        return ByteSequence.from(text, StandardCharsets.UTF_8);
    }

    private final class Actor {
        private long lease;
        private CloseableClient renewal;
        private volatile CompletableFuture<LockResponse> waiting;
        private volatile ByteSequence key;

        Object act(String verb, String name) throws Exception {
            switch (verb) {
                case "LOCK":
                    begin();
                    waiting = client.getLockClient().lock(bytes(name), lease);
                    key = waiting.get().getKey();
                    return key.toString(StandardCharsets.UTF_8);
                case "UNLOCK":
                    client.getLockClient().unlock(key).get();
                    return "";
                case "GIVEUP": // canceling the future leaves the key: the call goes on at the server
                    waiting.cancel(true);
                    renewal.close();
                    client.getLeaseClient().revoke(lease).get();
                    return "";
                default:
                    throw new IllegalArgumentException(verb);
            }
        }

        private synchronized void begin() throws Exception {
            if (renewal == null) {
                lease = client.getLeaseClient().grant(ttl).get().getID();
                renewal = client.getLeaseClient().keepAlive(lease, new Ignored());
            }
        }
    }

    /** The answers to keep-alives. */
    private static final class Ignored implements StreamObserver<LeaseKeepAliveResponse> {
        @Override
        public void onNext(LeaseKeepAliveResponse r) {}

        @Override
        public void onError(Throwable e) {}

        @Override
        public void onCompleted() {}
    }
}
