import java.nio.channels.IllegalBlockingModeException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;

/** Roth, "Acceptor" and "Dispatcher": no line of the two listings makes an accepted channel non-blocking. */
public class Erratum31 {
    public static void main(String[] args) throws Exception {
        Show.Pair pair = new Show.Pair(); // accepted by a channel that blocks, as in the listing
        String end = "nothing";
        try {
            pair.server.register(Selector.open(), SelectionKey.OP_READ);
        } catch (IllegalBlockingModeException e) {
            end = "IllegalBlockingModeException";
        }
        Show.seen(!end.equals("nothing"), "what register throws for every client: %s", end);
    }
}
