// SPDX-License-Identifier: Apache-2.0

package bench;

import java.util.concurrent.locks.Lock;

/** Locks of one candidate, by name. */
interface Locks {
    Lock lock(String name);

    /** The candidate of that name, connected. */
    static Locks open(String candidate, String address) {
        switch (candidate) {
            case "redisson":
                return RedissonLocks.open(address, false);
            case "redisson-fair":
                return RedissonLocks.open(address, true);
            default:
                throw new IllegalArgumentException("no candidate is called " + candidate);
        }
    }
}
