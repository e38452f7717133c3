import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;

/** Hitchens, 2006: the loop over the selected keys takes none of them out. */
public class Erratum24 {
    public static void main(String[] args) throws Exception {
        Show.Pair pair = new Show.Pair();
        pair.server.configureBlocking(false);
        Selector selector = Selector.open();
        pair.server.register(selector, SelectionKey.OP_READ);
        pair.send("x");
        int invoked = 0;
        for (int i = 0; i < 6; i++) { // each time but the first because some thread called wakeup
            selector.select();
            for (SelectionKey key : selector.selectedKeys()) {
                key.interestOps(0); // its handler runs from now on, and does not return
                invoked++;
            }
            selector.wakeup();
        }
        Show.seen(invoked == 6, "handlers that one event started in six rounds: %d", invoked);
    }
}
