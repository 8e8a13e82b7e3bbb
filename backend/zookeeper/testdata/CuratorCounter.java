import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * One member of a mixed fleet: adds one to the number in a file, COUNT times, each time under Curator's lock. The file is read and
 * written without any care, so that every overlap with another holder may lose an addition. With LOCK readwrite it adds under the write
 * lock of an InterProcessReadWriteLock, and each time looks twice at the number under its read lock.
 *
 * <p>java -cp CLASSPATH CuratorCounter.java CONNECT LOCKPATH FILE COUNT LOCK (no compilation: java does it)
 */
class CuratorCounter {
    public static void main(String[] args) throws Exception {
        if (args.length != 5) {
            System.err.println("usage: CuratorCounter CONNECT LOCKPATH FILE COUNT mutex|readwrite");
            System.exit(2);
        }
        Path file = Path.of(args[2]);
        int count = Integer.parseInt(args[3]);
        try (CuratorFramework client =
                CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new ExponentialBackoffRetry(50, 5))) {
            client.start();
            InterProcessReadWriteLock both = args[4].equals("readwrite") ? new InterProcessReadWriteLock(client, args[1]) : null;
            InterProcessMutex mutex = both != null ? both.writeLock() : new InterProcessMutex(client, args[1]);
            for (int i = 0; i < count; i++) {
                if (!mutex.acquire(60, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("no lock within 60 s");
                }
                try {
                    long value = Long.parseLong(Files.readString(file).trim());
                    Thread.yield();
                    Files.writeString(file, Long.toString(value + 1));
                } finally {
                    mutex.release();
                }
                if (both == null) {
                    continue;
                }
                if (!both.readLock().acquire(60, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("no read lock within 60 s");
                }
                try {
                    String before = Files.readString(file);
                    Thread.sleep(2);
                    if (before.isEmpty() || !before.equals(Files.readString(file))) {
                        throw new IllegalStateException("the number changed under the read lock");
                    }
                } finally {
                    both.readLock().release();
                }
            }
        }
        System.out.println("done " + count);
    }
}
