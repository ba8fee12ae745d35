// SPDX-License-Identifier: Apache-2.0

package peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * A process that is driven by lines. An actor is a thread, because locks belong to threads. Answers come in
 * any order.
 *
 * <pre>
 * request   id actor VERB kind name [arguments]
 * answer    id ok|no|err begin end [value]          begin and end in microseconds since 1970
 * </pre>
 */
abstract class Lines {
    private final Map<String, Actor> actors = new ConcurrentHashMap<>();

    /** Does a request, in the thread of its actor. False is answered with no. */
    abstract Object act(String verb, String kind, String name, String[] args) throws Exception;

    /** Reports whether a thread has begun to wait for a lock. */
    boolean waits(StackTraceElement[] stack) {
        return false;
    }

    /** Reports whether a request goes beside the one that its actor is busy with, in another thread of the same name. */
    boolean beside(String verb) {
        return false;
    }

    /** Answers requests until there are no more. */
    final void serve(String id) throws IOException {
        System.out.println("ready " + id);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            take(line.split(" "));
        }
        Runtime.getRuntime().halt(0); // locks that are held stay, as after a crash
    }

    private void take(String[] words) {
        Actor actor = actors.computeIfAbsent(words[1], Actor::new);
        if (words[2].equals("WAITS")) {
            answer(words[0], waits(actor.getStackTrace()) ? "ok" : "no", micros(), "");
        } else if (words[2].equals("INTERRUPT")) {
            answer(words[0], "ok", micros(), "");
            actor.interrupt();
        } else if (beside(words[2])) {
            new Thread(() -> actor.handle(words), actor.getName()).start();
        } else {
            actor.requests.add(words);
        }
    }

    static long micros() {
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
                    handle(requests.take());
                } catch (InterruptedException e) {
                    continue; // it was for a request that has ended
                }
            }
        }

        void handle(String[] words) {
            long begin = micros();
            try {
                Object value = act(words[2], words[3], words[4], Arrays.copyOfRange(words, 5, words.length));
                answer(words[0], Boolean.FALSE.equals(value) ? "no" : "ok", begin, value);
            } catch (Throwable e) {
                answer(words[0], "err", begin, e.getClass().getSimpleName() + ": " + e.getMessage());
            }
        }
    }
}
