import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;

/** Lea, "Handler with Thread Pool": the key stays interested in reading while a worker processes. */
public class Erratum22 {
    public static void main(String[] args) throws Exception {
        Show.Pair pair = new Show.Pair();
        pair.server.configureBlocking(false);
        Selector selector = Selector.open();
        pair.server.register(selector, SelectionKey.OP_READ);
        pair.send("question");
        selector.select();
        selector.selectedKeys().clear();
        pair.server.read(ByteBuffer.allocate(100)); // state = PROCESSING, and a worker has it
        int quiet = selector.selectNow();
        pair.send("x");
        int rounds = 0;
        while (rounds < 1000 && selector.select(Show.AT_MOST) > 0) {
            rounds++;
            selector.selectedKeys().clear(); // run() does nothing in this state
        }
        Show.seen(quiet == 0 && rounds == 1000,
            "rounds of the loop for one byte during processing: %d, when we stopped counting", rounds);
    }
}
