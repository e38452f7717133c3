import java.net.StandardSocketOptions;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;

/** Hitchens, 2008: which key can be cancelled between select and the loop over the selected keys? */
public class Erratum11 {
    public static void main(String[] args) throws Exception {
        Selector selector = Selector.open();

        // Not that of a handler that runs: its interest is off, so it is not selected, even after a reset.
        int selected = 0;
        for (int i = 0; i < 20; i++) {
            Show.Pair pair = new Show.Pair();
            pair.server.configureBlocking(false);
            SelectionKey key = pair.server.register(selector, 0);
            Selector other = Selector.open(); // says when the reset has arrived
            pair.server.register(other, SelectionKey.OP_READ);
            pair.client.setOption(StandardSocketOptions.SO_LINGER, 0);
            pair.client.close();
            other.select();
            selector.selectNow();
            if (selector.selectedKeys().remove(key))
                selected++;
            pair.server.close();
            other.close();
        }
        System.out.printf("keys without interest that were selected after a reset: %d of 20%n", selected);

        // But unregisterChannel is public: any thread may call it while the loop is between the two.
        Show.Pair pair = new Show.Pair();
        pair.server.configureBlocking(false);
        SelectionKey key = pair.server.register(selector, SelectionKey.OP_READ);
        pair.send("x");
        selector.select();
        Show.start(key::cancel).join();
        String end = "none";
        try {
            for (SelectionKey each : selector.selectedKeys())
                each.interestOps(0);
        } catch (CancelledKeyException e) {
            end = "CancelledKeyException";
        }
        Show.seen(selected == 0 && !end.equals("none"), "the loop after unregisterChannel of another thread: %s", end);
    }
}
