import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Roth: a task for each read event, and each begins by locking its connection. */
public class Erratum16 {
    static final int WORKERS = 4;

    public static void main(String[] args) throws Exception {
        ThreadPoolExecutor pool = new ThreadPoolExecutor(WORKERS, WORKERS, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>());
        Object busy = new Object(), other = new Object();
        CountDownLatch never = new CountDownLatch(1), served = new CountDownLatch(1);
        for (int i = 0; i < WORKERS; i++) // four reads of one client that sends on while it is worked for
            pool.execute(() -> {
                synchronized (busy) {
                    try {
                        never.await();
                    } catch (InterruptedException e) {
                        // ends
                    }
                }
            });
        Show.await(() -> pool.getActiveCount() == WORKERS);
        pool.execute(() -> {
            synchronized (other) {
                served.countDown();
            }
        });
        boolean inTime = served.await(Show.WHILE, TimeUnit.MILLISECONDS);
        Show.seen(!inTime, "workers that one client holds: %d of %d; another client is served: %b",
            pool.getActiveCount(), WORKERS, inTime);
    }
}
