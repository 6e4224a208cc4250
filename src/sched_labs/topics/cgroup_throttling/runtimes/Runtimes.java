import java.nio.file.Files;
import java.nio.file.Path;

/** A service with work in the background, on as many threads as Java counts CPUs: the same as runtimes.go.
 *
 *  java Runtimes CPU_STAT TURNS DURATION_MS GAP_US REQUEST_US
 *
 *  One thread answers requests, each a fixed amount of work, due every GAP_US whether or not the last one is done.
 *  Beside it one thread for each of availableProcessors() works in the background until the end.
 *  Where nobody sets -XX:ActiveProcessorCount, Java asks the machine and the control group, in which it has to be
 *  when it starts.  TURNS of the loop are a microsecond's work; with 0 the program only measures how many are.
 *  The records are those of runtimes.go.
 */
public class Runtimes {
    static final int UNIT_US = 100;       // of the background's work
    static volatile long sink;            // the loop's result has to go somewhere, or the compiler leaves the loop out

    static void work(long turns) {
        long x = 1;
        for (long i = 0; i < turns; i++) {  // Marsaglia's xorshift: each turn needs the one before
            x ^= x << 13;
            x ^= x >>> 7;
            x ^= x << 17;
        }
        sink = x;
    }

    /** Turns in a microsecond: the quickest of many tries is one that nobody disturbed, compiled by then. */
    static long calibrate() {
        final long turns = 20_000;
        long best = Long.MAX_VALUE;
        for (int i = 0; i < 1000; i++) {
            long start = System.nanoTime();
            work(turns);
            best = Math.min(best, System.nanoTime() - start);
        }
        return turns * 1000 / best;
    }

    static void stat(String path) throws Exception {
        System.out.println("stat " + Files.readString(Path.of(path)).strip().replace(' ', '=').replace('\n', ' '));
    }

    static String periods(String path) throws Exception {
        return Files.readString(Path.of(path)).lines().filter(line -> line.startsWith("nr_periods")).findAny().get();
    }

    /** Returns when a period of the quota begins, so that a whole number of them has as many quotas. */
    static void waitForAPeriod(String path) throws Exception {
        String before = periods(path);
        while (periods(path).equals(before)) { }
    }

    /** Reads the line that starts us; ends the program when whoever started it has gone. */
    static void endWithStandardInput() throws Exception {
        while (System.in.read() != '\n') { }
        Thread watcher = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException gone) { }
            Runtime.getRuntime().halt(1);
        });
        watcher.setDaemon(true);
        watcher.start();
    }

    public static void main(String[] words) throws Exception {
        long turns = Long.parseLong(words[1]), duration = 1_000_000 * Long.parseLong(words[2]);
        long gap = 1000 * Long.parseLong(words[3]), request = Long.parseLong(words[4]);
        endWithStandardInput();
        int cpus = Runtime.getRuntime().availableProcessors();
        System.out.println("seen cpus=" + cpus + " version=" + System.getProperty("java.version"));
        long measured = calibrate();      // and work() is compiled
        if (turns == 0) {
            System.out.println("work turns=" + measured + "\ndone");
            System.exit(0);
        }
        Thread.sleep(200);                // periods in which a group pays for what starting Java took
        long[] units = new long[cpus], latencies = new long[(int) ((duration + gap - 1) / gap)];
        Thread[] threads = new Thread[cpus + 1];
        waitForAPeriod(words[0]);
        stat(words[0]);
        long start = System.nanoTime();
        for (int i = 0; i < cpus; i++) {
            int worker = i;
            threads[i] = new Thread(() -> {
                long done = 0;
                for (; System.nanoTime() - start < duration; done++)
                    work(UNIT_US * turns);
                units[worker] = done;
            });
        }
        threads[cpus] = new Thread(() -> {
            for (int i = 0; i < latencies.length; i++) {
                long due = i * gap, early = due - (System.nanoTime() - start);
                if (early > 0)
                    java.util.concurrent.locks.LockSupport.parkNanos(early);
                work(request * turns);
                latencies[i] = System.nanoTime() - start - due;
            }
        });
        for (Thread thread : threads)
            thread.start();
        for (Thread thread : threads)
            thread.join();
        long elapsed = System.nanoTime() - start, sum = 0;
        stat(words[0]);
        for (long done : units)
            sum += done;
        for (int i = 0; i < latencies.length; i++)
            System.out.println("request due_ns=" + i * gap + " latency_ns=" + latencies[i]);
        System.out.println("background units=" + sum + " elapsed_ns=" + elapsed + "\ndone");
        System.exit(0);
    }
}
