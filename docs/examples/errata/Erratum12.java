import java.nio.ByteBuffer;

/** Hitchens, 2008: the chat puts one buffer into the queues of all users, and a buffer has one position. */
public class Erratum12 {
    public static void main(String[] args) throws Exception {
        ByteBuffer message = ByteBuffer.wrap("hello\n".getBytes());
        Show.Pair ann = new Show.Pair();
        Show.Pair bob = new Show.Pair();
        int toAnn = ann.server.write(message);
        int toBob = bob.server.write(message);
        Show.seen(toAnn == 6 && toBob == 0, "written of one message to Ann: %d bytes, to Bob: %d", toAnn, toBob);
    }
}
