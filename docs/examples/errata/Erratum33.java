import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Roth, "Dispatcher-Level EventHandler": what is read goes into a queue, and nothing stops the reading. */
public class Erratum33 {
    static final int SENT = 16 << 20;

    public static void main(String[] args) throws Exception {
        Show.Pair pair = new Show.Pair();
        pair.server.configureBlocking(false);
        Selector selector = Selector.open();
        pair.server.register(selector, SelectionKey.OP_READ);
        Queue<ByteBuffer> readQueue = new ConcurrentLinkedQueue<>();
        Show.start(() -> {
            ByteBuffer bytes = ByteBuffer.allocate(SENT);
            while (bytes.hasRemaining())
                pair.client.write(bytes);
        });
        int queued = 0;
        int tasks = 0;
        while (queued < SENT && selector.select(Show.AT_MOST) > 0) { // its worker handles the first piece meanwhile
            selector.selectedKeys().clear();
            ByteBuffer bytes = ByteBuffer.allocate(4096);
            queued += pair.server.read(bytes);
            readQueue.add(bytes);
            tasks++;
        }
        Show.seen(queued == SENT && tasks == readQueue.size(),
            "one client, one slow handler: %d MiB in the read queue, and all that was sent; tasks submitted: %s",
            queued >> 20, tasks >= SENT / 4096 ? "one for each 4 KiB" : "" + tasks);
    }
}
