// SPDX-License-Identifier: Apache-2.0

package bench;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;

/**
 * A worker that is not Go. It speaks what lab/bench/internal/worker speaks: a line of JSON for the
 * candidate and the place, then a task on each line, answered by a result on each line.
 */
public final class Worker {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Java is slow before it has compiled what runs often; nobody wants to measure that. */
    private static final Duration WARM_UP = Duration.ofSeconds(3);

    /** Whether the time of the task has passed: from then on an interrupt is no failure. */
    private static volatile boolean over;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        JsonNode spec = JSON.readTree(in.readLine());
        Locks locks = Locks.open(spec.get("Candidate").asText(), spec.get("Place").get("Addr").asText());
        int process = spec.get("Place").get("Process").asInt();
        Locks.Turn own = locks.of("warm/" + process);
        for (Instant end = Instant.now().plus(WARM_UP); Instant.now().isBefore(end); ) {
            own.lock();
            own.unlock();
        }
        System.out.println("\"ready\"");
        for (String line; (line = in.readLine()) != null; ) {
            System.out.println(JSON.writeValueAsString(run(locks, JSON.readTree(line), process)));
        }
        System.exit(0); // the client's threads would keep it alive
    }

    private static ObjectNode run(Locks locks, JsonNode task, int process) throws InterruptedException {
        int threads = Math.max(1, task.get("Goroutines").asInt());
        long wait = Duration.between(Instant.now(), OffsetDateTime.parse(task.get("At").asText()).toInstant()).toMillis();
        if (wait > 0) {
            Thread.sleep(wait);
        }
        over = false;
        long cpu = cpu();
        long began = System.nanoTime();
        long end = began + task.get("For").asLong();
        List<Loop> loops = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            loops.add(new Loop(locks, task, process * threads + i));
        }
        loops.forEach(Thread::start);
        Thread.sleep(Math.max(0, (end - System.nanoTime()) / 1_000_000));
        over = true;
        if (!task.get("Own").asBoolean()) {
            loops.forEach(Thread::interrupt); // nobody waits for a name of his own; let him finish
        }
        for (Loop l : loops) {
            l.join();
        }
        return result(loops, System.nanoTime() - began, cpu() - cpu);
    }

    private static ObjectNode result(List<Loop> loops, long took, long cpu) {
        ObjectNode r = JSON.createObjectNode();
        ArrayNode each = r.putArray("Each");
        ArrayNode latencies = r.putArray("Latencies");
        ArrayNode turns = r.putArray("Turns");
        int ops = 0;
        int failed = 0;
        for (Loop l : loops) {
            ops += l.ops;
            each.add(l.ops);
            l.latencies.forEach(latencies::add);
            for (long[] t : l.turns) {
                turns.addObject().put("Worker", l.worker).put("Acquired", t[0]).put("Released", t[1]);
            }
            if (l.failure != null) {
                failed++;
                r.put("Err", l.failure);
            }
        }
        r.put("Ops", ops).put("Took", took).put("Failed", failed);
        r.putObject("Cost").put("CPU", cpu);
        return r;
    }

    /** Processor time of all threads, in ns. */
    private static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    /** One thread that takes turns. */
    private static final class Loop extends Thread {
        private final Locks.Turn lock;
        private final long section;
        private final boolean notes;
        final int worker;
        final List<Double> latencies = new ArrayList<>();
        final List<long[]> turns = new ArrayList<>();
        int ops;
        String failure;

        Loop(Locks locks, JsonNode task, int worker) {
            String name = task.get("Name").asText();
            this.lock = locks.of(task.get("Own").asBoolean() ? name + "/" + worker : name);
            this.section = task.get("Section").asLong();
            this.notes = task.get("Turns").asBoolean();
            this.worker = worker;
        }

        @Override
        public void run() {
            try {
                while (!over) {
                    turn();
                }
            } catch (InterruptedException e) {
                // it is over
            } catch (Exception e) {
                if (!over) {
                    failure = e.toString();
                }
            }
        }

        private void turn() throws Exception {
            long from = System.nanoTime();
            lock.lock();
            try {
                long acquired = now();
                if (section > 0) {
                    Thread.sleep(section / 1_000_000, (int) (section % 1_000_000));
                }
                if (notes) {
                    turns.add(new long[] {acquired, now()});
                }
            } finally {
                Thread.interrupted(); // an interrupted thread would not wait for the answer
                lock.unlock();
            }
            ops++;
            if (latencies.size() < 4096) {
                latencies.add((System.nanoTime() - from) / 1000.0);
            }
        }

        /** The wall clock in ns, as the other processes read it. */
        private static long now() {
            Instant t = Instant.now();
            return t.getEpochSecond() * 1_000_000_000L + t.getNano();
        }
    }
}
