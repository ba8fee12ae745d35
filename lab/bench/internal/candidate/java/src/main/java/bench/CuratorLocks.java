// SPDX-License-Identifier: Apache-2.0

package bench;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's InterProcessMutex: a line of nodes, each waiting for the one before it. */
final class CuratorLocks {
    /** The session timeout of the other candidates on ZooKeeper; Curator's own is a minute. */
    private static final int SESSION_MS = 15_000;

    private static final int CONNECT_MS = 15_000;

    private CuratorLocks() {}

    static Locks open(String addresses) {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(addresses, SESSION_MS, CONNECT_MS, new ExponentialBackoffRetry(1000, 3));
        client.start();
        return name -> {
            // A name may have slashes, which would be nodes of their own.
            InterProcessMutex mutex = new InterProcessMutex(client, "/curator/" + URLEncoder.encode(name, StandardCharsets.UTF_8));
            return new Locks.Turn() {
                @Override
                public void lock() throws Exception {
                    mutex.acquire();
                }

                @Override
                public void unlock() throws Exception {
                    mutex.release();
                }
            };
        };
    }
}
