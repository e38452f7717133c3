import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;

/** Lea, "Handler with Thread Pool": a worker asks for write readiness and does not wake the selector. */
public class Erratum13 {
    public static void main(String[] args) throws Exception {
        Show.Pair pair = new Show.Pair();
        pair.server.configureBlocking(false);
        Selector selector = Selector.open();
        SelectionKey key = pair.server.register(selector, 0);
        Thread reactor = Show.start(() -> {
            while (true) {
                selector.select();
                selector.selectedKeys().clear();
                if (key.isWritable()) {
                    pair.server.write(ByteBuffer.wrap("r".getBytes()));
                    key.interestOps(0);
                }
            }
        });
        Show.awaitSelect(reactor);
        Show.start(() -> key.interestOps(SelectionKey.OP_WRITE)); // the worker, when it has processed
        String alone = pair.next(Show.WHILE);
        selector.wakeup(); // another client says something
        String then = pair.next(Show.AT_MOST);
        Show.seen(alone.equals("nothing") && then.equals("r"),
            "reply in %d ms: %s; after a wakeup: %s", Show.WHILE, alone, then);
    }
}
