import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;

/** The basic design of Lea's slides "Reactor 1" to "Reactor 5", for lines of text: one thread, two states. */
final class LeaReactor {
    static final int MAX = 64; // bytes that each of the two buffers holds
    final Selector selector = Selector.open();
    final Thread thread;
    volatile long rounds;

    LeaReactor() throws IOException {
        thread = Show.start(() -> {
            while (true) {
                selector.select();
                rounds++;
                for (SelectionKey key : selector.selectedKeys())
                    ((Runnable) key.attachment()).run();
                selector.selectedKeys().clear();
            }
        });
    }

    /** A client that this reactor serves. Its acceptor would be in the way here. */
    Show.Pair client() throws Exception {
        Show.Pair pair = new Show.Pair();
        new Handler(pair.server);
        return pair;
    }

    private final class Handler implements Runnable {
        private final SocketChannel socket;
        private final SelectionKey key;
        private final ByteBuffer input = ByteBuffer.allocate(MAX);
        private ByteBuffer reply;

        Handler(SocketChannel socket) throws IOException {
            this.socket = socket;
            socket.configureBlocking(false);
            selector.wakeup(); // before it registers, so that erratum 23 does not get in the way
            key = socket.register(selector, 0, this);
            key.interestOps(SelectionKey.OP_READ);
            selector.wakeup();
        }

        @Override
        public void run() {
            try {
                if (reply == null)
                    read();
                else
                    send();
            } catch (IOException e) {
                // the slide does nothing here
            }
        }

        private int lineEnd() {
            for (int i = 0; i < input.position(); i++)
                if (input.get(i) == '\n')
                    return i + 1;
            return -1;
        }

        private void read() throws IOException {
            socket.read(input); // what it returns, the slide ignores
            if (lineEnd() >= 0) {
                reply = ByteBuffer.wrap(input.array(), 0, lineEnd());
                key.interestOps(SelectionKey.OP_WRITE);
            }
        }

        private void send() throws IOException {
            socket.write(reply);
            if (!reply.hasRemaining())
                key.cancel();
        }
    }

    /** Whether the loop goes round without a pause. */
    boolean spins() throws InterruptedException {
        long before = rounds;
        Thread.sleep(Show.WHILE);
        return rounds - before > 100;
    }
}
