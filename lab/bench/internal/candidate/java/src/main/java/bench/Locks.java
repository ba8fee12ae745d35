// SPDX-License-Identifier: Apache-2.0

package bench;

/** Locks of one candidate, by name. */
interface Locks {
    Turn of(String name);

    /**
     * One lock as one thread uses it. Not java.util.concurrent.locks.Lock: Curator's is none, and
     * nothing here needs the rest of it.
     */
    interface Turn {
        /** Waits for the lock; an interrupt ends the wait. */
        void lock() throws Exception;

        void unlock() throws Exception;
    }

    /** The candidate of that name, connected. */
    static Locks open(String candidate, String address) {
        switch (candidate) {
            case "redisson":
                return RedissonLocks.open(address, false);
            case "redisson-fair":
                return RedissonLocks.open(address, true);
            case "curator":
                return CuratorLocks.open(address);
            default:
                throw new IllegalArgumentException("no candidate is called " + candidate);
        }
    }
}
