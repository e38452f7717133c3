import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;

/** Lea, "Using Multiple Reactors": the acceptor's thread registers with a selector that sleeps, then wakes it. */
public class Erratum23 {
    public static void main(String[] args) throws Exception {
        Show.Pair pair = new Show.Pair();
        pair.server.configureBlocking(false);
        Selector selector = Selector.open();
        Thread reactor = Show.start(() -> {
            while (true) {
                selector.select();
                for (SelectionKey key : selector.selectedKeys()) {
                    ByteBuffer bytes = ByteBuffer.allocate(1);
                    pair.server.read(bytes);
                    bytes.flip();
                    pair.server.write(bytes);
                }
                selector.selectedKeys().clear();
            }
        });
        Show.awaitSelect(reactor);
        Thread acceptor = Show.start(() -> {
            pair.server.register(selector, 0).interestOps(SelectionKey.OP_READ);
            selector.wakeup();
        });
        pair.send("x");
        boolean waits = Show.JDK < 11;
        String reply = pair.next(waits ? Show.WHILE : Show.AT_MOST);
        acceptor.join(waits ? 1 : Show.AT_MOST);
        Show.seen(waits == reply.equals("nothing") && waits == acceptor.isAlive(),
            "reply of a sub-reactor that slept: %s; the acceptor's thread waits: %b", reply, acceptor.isAlive());
    }
}
