import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;

/** Roth, and Lea, "Reactor 5": -1, which is the end of the stream, is read like "no data". */
public class Erratum27 {
    public static void main(String[] args) throws Exception {
        Show.Pair pair = new Show.Pair();
        pair.server.configureBlocking(false);
        Selector selector = Selector.open();
        pair.server.register(selector, SelectionKey.OP_READ);
        pair.client.close();
        int rounds = 0;
        while (rounds < 1000 && selector.select(Show.AT_MOST) > 0) {
            rounds++;
            selector.selectedKeys().clear();
            pair.server.read(ByteBuffer.allocate(10)); // onReadableEvent: the read queue stays empty
        }
        System.out.printf("Roth: rounds of the loop for a client that has left: %d, when we stopped counting%n", rounds);

        LeaReactor reactor = new LeaReactor();
        Show.Pair half = reactor.client();
        half.send("half a line");
        half.client.close();
        boolean spins = reactor.spins();
        Show.seen(rounds == 1000 && spins, "Lea: the loop spins after a client left in the middle of a line: %b", spins);
    }
}
