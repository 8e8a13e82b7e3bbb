import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.redisson.Redisson;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Measures threads that take and release one name, as readers or permits: java -cp redisson-all.jar Beside.java ADDRESS NAME readers|permits THREADS MILLISECONDS */
public class Beside {
    static final int WARM_UP = 3_000; // milliseconds for the JIT compiler

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress(args[0]);
        RedissonClient client = Redisson.create(config);
        int threads = Integer.parseInt(args[3]);
        Cycle cycle = args[2].equals("readers") ? readers(client, args[1]) : permits(client, args[1], 64);
        measure(cycle, threads, WARM_UP);
        System.out.println(measure(cycle, threads, Integer.parseInt(args[4])));
        client.shutdown();
    }

    interface Cycle {
        void run() throws Exception;
    }

    static Cycle readers(RedissonClient client, String name) {
        RReadWriteLock lock = client.getReadWriteLock(name + "-rw");
        return () -> {
            lock.readLock().lock();
            lock.readLock().unlock();
        };
    }

    static Cycle permits(RedissonClient client, String name, int n) {
        RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(name + "-permits");
        semaphore.trySetPermits(n);
        return () -> semaphore.release(semaphore.acquire(15, TimeUnit.SECONDS));
    }

    /** Returns the median and the 99th percentile in microseconds, and cycles per second. */
    static String measure(Cycle cycle, int threads, int milliseconds) throws Exception {
        double[][] took = new double[threads][];
        AtomicBoolean failed = new AtomicBoolean();
        Thread[] all = new Thread[threads];
        long start = System.nanoTime(), end = start + milliseconds * 1_000_000L;
        for (int i = 0; i < threads; i++) {
            int me = i;
            all[i] = new Thread(() -> {
                double[] mine = new double[1_000_000 / threads];
                int n = 0;
                try {
                    for (long now = System.nanoTime(); now < end && n < mine.length; ) {
                        cycle.run();
                        long then = System.nanoTime();
                        mine[n++] = (then - now) / 1e3;
                        now = then;
                    }
                } catch (Exception e) {
                    e.printStackTrace();
                    failed.set(true);
                }
                took[me] = Arrays.copyOf(mine, n);
            });
            all[i].start();
        }
        for (Thread t : all) {
            t.join();
        }
        if (failed.get()) {
            System.exit(1);
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        double[] times = Arrays.stream(took).flatMapToDouble(Arrays::stream).sorted().toArray();
        return times[times.length / 2] + " " + times[times.length * 99 / 100] + " " + times.length / seconds;
    }
}
