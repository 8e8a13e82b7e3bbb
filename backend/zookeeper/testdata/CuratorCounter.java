import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * One member of a mixed fleet: adds one to the number in a file, COUNT times, each time under Curator's lock. The file is read and
 * written without any care, so that every overlap with another holder may lose an addition.
 *
 * <p>java -cp CLASSPATH CuratorCounter.java CONNECT LOCKPATH FILE COUNT (no compilation: java does it)
 */
class CuratorCounter {
    public static void main(String[] args) throws Exception {
        if (args.length != 4) {
            System.err.println("usage: CuratorCounter CONNECT LOCKPATH FILE COUNT");
            System.exit(2);
        }
        Path file = Path.of(args[2]);
        int count = Integer.parseInt(args[3]);
        try (CuratorFramework client =
                CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new ExponentialBackoffRetry(50, 5))) {
            client.start();
            InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
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
            }
        }
        System.out.println("done " + count);
    }
}
