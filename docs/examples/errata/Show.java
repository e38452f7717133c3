import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * What the programs of docs/errata.md share. Each of them does what one slide or listing does, stops its
 * threads where the scheduler could stop them, so that it does not depend on luck, and reports what a user
 * sees. A program ends with status 0 if it saw what the page says, with 1 if not, and with 2 if it got stuck.
 */
final class Show {
    /** 8, 11, 17, ...: what a fault depends on, if it depends on the JDK. */
    static final int JDK = Integer.parseInt(System.getProperty("java.specification.version").replaceFirst("^1\\.", ""));
    static final int WHILE = 700; // milliseconds in which nothing is to happen
    static final int AT_MOST = 20_000; // milliseconds that something may take that has to happen

    interface Body {
        void run() throws Exception;
    }

    private Show() {
    }

    /** A thread that does not keep the program from ending. */
    static Thread start(Body body) {
        Thread thread = new Thread(() -> {
            try {
                body.run();
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** The two ends of a connection; both block at first. */
    static final class Pair {
        final SocketChannel client;
        final SocketChannel server;

        Pair() throws IOException {
            try (ServerSocketChannel listener = ServerSocketChannel.open()) {
                listener.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
                client = SocketChannel.open(listener.getLocalAddress());
                server = listener.accept();
            }
        }

        void send(String text) throws IOException {
            client.write(ByteBuffer.wrap(text.getBytes()));
        }

        /** What the client receives next: a character, "end" at the end of the stream, or "nothing". */
        String next(int milliseconds) throws IOException {
            client.configureBlocking(false);
            try (Selector selector = Selector.open()) {
                client.register(selector, SelectionKey.OP_READ);
                ByteBuffer one = ByteBuffer.allocate(1);
                if (selector.select(milliseconds) == 0)
                    return "nothing";
                return client.read(one) < 0 ? "end" : "" + (char) one.get(0);
            } finally {
                client.configureBlocking(true);
            }
        }
    }

    /** Waits until a thread sleeps in the system's select. */
    static void awaitSelect(Thread thread) throws InterruptedException {
        for (int i = 0; i < AT_MOST; i++, Thread.sleep(1)) {
            StackTraceElement[] stack = thread.getStackTrace();
            if (stack.length > 0 && stack[0].isNativeMethod() && stack[0].getClassName().startsWith("sun.nio.ch"))
                return;
        }
        stuck("a thread that was to select");
    }

    static void await(CountDownLatch latch) throws InterruptedException {
        if (!latch.await(AT_MOST, TimeUnit.MILLISECONDS))
            stuck("a latch");
    }

    /** Waits until a condition holds that another thread makes true. */
    static void await(java.util.function.BooleanSupplier condition) throws InterruptedException {
        for (int i = 0; !condition.getAsBoolean(); i++, Thread.sleep(1))
            if (i > AT_MOST)
                stuck("a condition");
    }

    private static void stuck(String what) {
        System.out.println("waited in vain for " + what);
        System.exit(2);
    }

    /** Reports the last of what was seen, and whether all of it is what the page says. */
    static void seen(boolean asThePageSays, String format, Object... values) {
        System.out.printf(format + "%n", values);
        System.out.println((asThePageSays ? "as" : "NOT as") + " the page says, on JDK " + JDK);
        System.exit(asThePageSays ? 0 : 1);
    }
}
