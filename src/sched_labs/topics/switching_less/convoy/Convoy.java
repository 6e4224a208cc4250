import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.locks.ReentrantLock;

/** The producers of convoy.c with Java's ReentrantLock, fair and not, each with and without tryLock first.
 *
 *  java Convoy PRODUCERS ITEMS TRIES BUDGET_MS VARIANT,VARIANT...      variants: fair, fair_try, unfair, unfair_try
 *
 *  As there, the lock is held while the producers arrive, and the clock starts when it is released.
 *  Every variant runs once before it is measured, so that the compiler of the virtual machine has done its work.
 *  run lock=java_fair items=... elapsed_ns=... voluntary=... involuntary=... turns=... jain_ppm=... finished=1
 */
public class Convoy {
    static byte[] queue;
    static int queued;
    static volatile long end;

    public static void main(String[] words) throws Exception {
        int producers = Integer.parseInt(words[0]), items = Integer.parseInt(words[1]);
        int tries = Integer.parseInt(words[2]);
        long budget = Long.parseLong(words[3]) * 1_000_000L;
        endWithStandardInput();
        queue = new byte[items];
        for (String variant : words[4].split(",")) {
            ReentrantLock lock = new ReentrantLock(variant.startsWith("fair"));
            int first = variant.endsWith("_try") ? tries : 0;
            round(variant, lock, producers, items, first, Math.min(budget, 50_000_000L), false);
            round(variant, lock, producers, items, first, budget, true);
        }
        System.out.println("done");
        System.exit(0);
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

    /** Voluntary and involuntary switches of the calling thread, as the kernel has counted them. */
    static long[] switches() throws Exception {
        long[] counts = new long[2];
        for (String line : Files.readAllLines(Path.of("/proc/thread-self/status"))) {
            if (line.startsWith("voluntary_ctxt_switches:"))
                counts[0] = Long.parseLong(line.substring(24).trim());
            if (line.startsWith("nonvoluntary_ctxt_switches:"))
                counts[1] = Long.parseLong(line.substring(27).trim());
        }
        return counts;
    }

    static void round(String name, ReentrantLock lock, int producers, int items, int tries, long budget,
                      boolean report) throws Exception {
        queued = 0;
        int share = items / producers;
        long[][] counted = new long[producers][2];
        long[] last = new long[producers];
        CyclicBarrier gate = new CyclicBarrier(producers + 1);
        Thread[] threads = new Thread[producers];
        for (int i = 0; i < producers; i++) {
            int number = i;
            threads[i] = new Thread(() -> {
                try {
                    gate.await();
                    long[] before = switches();
                    int mine = 0;
                    while (mine < share && System.nanoTime() < end) {
                        boolean held = false;
                        for (int t = 0; t < tries && !held; t++)
                            held = lock.tryLock();
                        if (!held)
                            lock.lock();
                        try {
                            queue[queued++] = (byte) number;
                        } finally {
                            lock.unlock();
                        }
                        mine++;
                    }
                    last[number] = System.nanoTime(); // what follows puts no item
                    long[] after = switches();
                    counted[number][0] = after[0] - before[0];
                    counted[number][1] = after[1] - before[1];
                } catch (Exception error) {
                    error.printStackTrace();
                    Runtime.getRuntime().halt(1);
                }
            });
            threads[i].start();
        }
        end = Long.MAX_VALUE;
        lock.lock();
        gate.await();
        Thread.sleep(20);
        long start = System.nanoTime();
        end = start + budget;
        lock.unlock();
        for (Thread thread : threads)
            thread.join();
        long elapsed = 0;
        for (long one : last)
            elapsed = Math.max(elapsed, one - start);
        if (!report)
            return;
        long voluntary = 0, involuntary = 0, turns = 0;
        for (long[] one : counted) {
            voluntary += one[0];
            involuntary += one[1];
        }
        double[] put = new double[producers];
        for (int i = 0; i < queued; i++)
            if (i == 0 || queue[i] != queue[i - 1])
                turns++;
        for (int i = 0; i < queued; i++)
            if (++put[queue[i]] >= share)
                break;
        double sum = 0, squares = 0;
        for (double one : put) {
            sum += one;
            squares += one * one;
        }
        System.out.printf("run lock=java_%s items=%d elapsed_ns=%d voluntary=%d involuntary=%d turns=%d "
                + "jain_ppm=%d finished=%d%n", name, queued, elapsed, voluntary, involuntary, turns,
                Math.round(1e6 * sum * sum / (producers * squares)), queued == share * producers ? 1 : 0);
    }
}
