import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;

/** Roth, "Dispatcher": announceWriteNeed for a channel that is not registered yet, or is closed already. */
public class Erratum34 {
    static String announce(Show.Pair pair, Selector selector) {
        try {
            pair.server.keyFor(selector).interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
            return "nothing";
        } catch (RuntimeException e) {
            return e.getClass().getSimpleName();
        }
    }

    public static void main(String[] args) throws Exception {
        Show.Pair pair = new Show.Pair();
        pair.server.configureBlocking(false);
        Selector selector = Selector.open();
        String before = announce(pair, selector);
        SelectionKey key = pair.server.register(selector, 0); // somebody has switched reading off
        announce(pair, selector);
        boolean reads = (key.interestOps() & SelectionKey.OP_READ) != 0;
        pair.server.close(); // a worker has closed the connection
        String after = announce(pair, selector);
        Show.seen(before.equals("NullPointerException") && reads && after.equals("CancelledKeyException"),
            "thrown before registration: %s; reading is on again: %b; thrown after the close: %s", before, reads, after);
    }
}
