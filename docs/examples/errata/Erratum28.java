import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/** Hitchens, 2008, "Registering an InputHandler": the adapter gets its key after the key is registered. */
public class Erratum28 {
    static class Adapter {
        volatile SelectionKey key;
    }

    public static void main(String[] args) throws Exception {
        ReadWriteLock guard = new ReentrantReadWriteLock();
        Selector selector = Selector.open();
        Show.Pair pair = new Show.Pair();
        pair.server.configureBlocking(false);
        CountDownLatch passed = new CountDownLatch(1), registered = new CountDownLatch(1), over = new CountDownLatch(1);
        AtomicReference<Throwable> end = new AtomicReference<>();
        Thread dispatcher = Show.start(() -> {
            guard.writeLock().lock(); // the barrier
            guard.writeLock().unlock();
            passed.countDown(); // the scheduler stops this thread here
            Show.await(registered);
            try {
                selector.select();
                for (SelectionKey key : selector.selectedKeys())
                    ((Adapter) key.attachment()).key.interestOps(0);
            } catch (Throwable e) {
                end.set(e);
            }
            over.countDown();
        });
        pair.send("x");
        Show.await(passed);
        Adapter adapter = new Adapter();
        guard.readLock().lock();
        selector.wakeup();
        SelectionKey key = pair.server.register(selector, SelectionKey.OP_READ, adapter);
        registered.countDown(); // and that one here
        Show.await(over);
        adapter.key = key;
        guard.readLock().unlock();
        dispatcher.join();
        String name = end.get() == null ? "nothing" : end.get().getClass().getSimpleName();
        Show.seen(name.equals("NullPointerException"), "what ended the dispatcher, while the reader held the guard: %s", name);
    }
}
