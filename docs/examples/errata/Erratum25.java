import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;

/** Hitchens, 2006: a run handles one message, and then waits for an event. */
public class Erratum25 {
    public static void main(String[] args) throws Exception {
        Show.Pair pair = new Show.Pair();
        pair.server.configureBlocking(false);
        Selector selector = Selector.open();
        SelectionKey key = pair.server.register(selector, SelectionKey.OP_READ);
        InputQueue queue = new InputQueue();
        pair.send("one\ntwo\n");
        int handled = 0;
        while (selector.select(Show.WHILE) > 0) {
            selector.selectedKeys().clear();
            key.interestOps(0);
            ByteBuffer bytes = ByteBuffer.allocate(100);
            pair.server.read(bytes);
            queue.fill(new String(bytes.array(), 0, bytes.position()));
            if (queue.indexOf('\n') != -1) { // the slide says if, not while
                queue.dequeue(queue.indexOf('\n') + 1);
                handled++;
            }
            key.interestOps(SelectionKey.OP_READ);
        }
        Show.seen(handled == 1 && !queue.isEmpty(), "lines that came together: 2; handled when no event comes any more: %d",
            handled);
    }
}
