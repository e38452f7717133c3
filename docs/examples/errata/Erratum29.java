import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/** Hitchens, 2006, "Last: Cleanup and Resume": interest is on again before the handler leaves the map. */
public class Erratum29 {
    static final Object guard = new Object();
    static final Map<SelectionKey, Object> runningHandlers = new HashMap<>();
    static final int EVENTS = 60;

    /** A thread that changes a key asks the map first: if its handler runs, the change is the adapter's. */
    static boolean seemsToRun(SelectionKey key) {
        synchronized (runningHandlers) {
            return runningHandlers.containsKey(key);
        }
    }

    public static void main(String[] args) throws Exception {
        int wrong = 0;
        for (int i = 0; i < EVENTS; i++)
            if (!secondRunIsKnown())
                wrong++;
        Show.seen(wrong == EVENTS, "runs that were not in the map of running handlers: %d of %d", wrong, EVENTS);
    }

    /** Whether a handler that runs for the second time is in the map, in the schedule that is forced here. */
    static boolean secondRunIsKnown() throws Exception {
        Show.Pair pair = new Show.Pair();
        pair.server.configureBlocking(false);
        Selector selector = Selector.open();
        SelectionKey key = pair.server.register(selector, SelectionKey.OP_READ);
        CountDownLatch passed = new CountDownLatch(1), resumed = new CountDownLatch(1);
        CountDownLatch running = new CountDownLatch(1), removed = new CountDownLatch(1);

        pair.send("12"); // two events: the first run reads one byte
        selector.select();
        selector.selectedKeys().clear();
        synchronized (runningHandlers) {
            key.interestOps(0);
            runningHandlers.put(key, "first");
        }
        Show.start(() -> { // the worker of the first run
            pair.server.read(ByteBuffer.allocate(1));
            Show.await(passed);
            synchronized (guard) { // resumeSelection
                selector.wakeup();
                key.interestOps(SelectionKey.OP_READ);
                resumed.countDown(); // the scheduler stops this thread here
                Show.await(running);
                synchronized (runningHandlers) {
                    runningHandlers.remove(key);
                }
            }
            removed.countDown();
        });
        Show.start(() -> { // the dispatcher
            synchronized (guard) {
            }
            passed.countDown(); // and this one here
            Show.await(resumed);
            while (selector.select() == 0) // the first time for the wakeup
                ;
            synchronized (runningHandlers) {
                key.interestOps(0);
                runningHandlers.put(key, "second");
            }
            running.countDown(); // and executes the second run
        });
        Show.await(removed);
        boolean known = seemsToRun(key); // the second run has begun, and none has ended since
        pair.client.close();
        pair.server.close();
        selector.close();
        return known;
    }
}
