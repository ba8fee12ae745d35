// SPDX-License-Identifier: Apache-2.0

package bench;

import java.util.concurrent.locks.Lock;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson as it comes: a watchdog renews, and those who wait are told by a channel. */
final class RedissonLocks {
    private RedissonLocks() {}

    static Locks open(String address, boolean fair) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + address);
        RedissonClient client = Redisson.create(config);
        return name -> turn(fair ? client.getFairLock(name) : client.getLock(name));
    }

    private static Locks.Turn turn(Lock lock) {
        return new Locks.Turn() {
            @Override
            public void lock() throws InterruptedException {
                lock.lockInterruptibly();
            }

            @Override
            public void unlock() {
                lock.unlock();
            }
        };
    }
}
