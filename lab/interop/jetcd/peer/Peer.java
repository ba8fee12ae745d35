// SPDX-License-Identifier: Apache-2.0

package peer;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.etcd.jetcd.lock.LockResponse;
import io.etcd.jetcd.support.CloseableClient;
import io.grpc.stub.StreamObserver;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;

/** A process with jetcd. */
public final class Peer extends Lines {
    private final Client client;
    private final long ttl;
    private final Map<String, Holder> holders = new ConcurrentHashMap<>();

    private Peer(Client client, long ttl) {
        this.client = client;
        this.ttl = ttl;
    }

    public static void main(String[] args) throws Exception {
        Client client = Client.builder().endpoints("http://" + args[0]).build();
        new Peer(client, Long.parseLong(args[1]) / 1000).serve("jetcd");
    }

    /** A wait is given up while its actor waits. */
    @Override
    boolean beside(String verb) {
        return verb.equals("GIVEUP");
    }

    @Override
    Object act(String verb, String kind, String name, String[] args) throws Exception {
        return holders.computeIfAbsent(Thread.currentThread().getName(), a -> new Holder()).act(verb, name);
    }

    private static ByteSequence bytes(String text) {
        return ByteSequence.from(text, StandardCharsets.UTF_8);
    }

    /** What an actor has: a lease, which it keeps alive, and a key. */
    private final class Holder {
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
