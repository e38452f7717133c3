import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.ArrayDeque;
import java.util.Queue;

/**
 * A worker asks for writing just before the dispatcher sets the interest: whose request is overwritten? The
 * other thread is played by a call at each place where it could come in between.
 */
public class Erratum18 {
    static final int READ = SelectionKey.OP_READ;
    static final int WRITE = SelectionKey.OP_WRITE;

    public static void main(String[] args) throws Exception {
        boolean hitchens = hitchens();
        int roth = 0;
        int otherwise = 0;
        for (int place = 0; place < 4; place++) {
            roth += roth(place, true) ? 1 : 0;
            otherwise += roth(place, false) ? 1 : 0;
        }
        Show.seen(!hitchens && roth == 4 && otherwise == 3, "Hitchens' prepareToRun: Bob's line leaves: %b%n"
            + "Roth's loop: the reply leaves in %d of 4 schedules; if the reset came last: in %d", hitchens, roth, otherwise);
    }

    /** Hitchens, 2008: Ann has sent something, and Bob's line for her comes before her handler's run. */
    static boolean hitchens() throws Exception {
        Show.Pair ann = new Show.Pair();
        ann.server.configureBlocking(false);
        Selector selector = Selector.open();
        SelectionKey key = ann.server.register(selector, READ);
        Queue<ByteBuffer> output = new ArrayDeque<>();
        int interest = READ; // the adapter's copy
        ann.send("x");
        selector.select(); // and the status changes have been looked at

        output.add(ByteBuffer.wrap("b".getBytes())); // Bob's thread: enqueue, which enables write selection
        interest |= WRITE;

        interest = key.interestOps(); // the dispatcher: prepareToRun copies what the key has
        int ready = key.readyOps();
        key.interestOps(0);
        selector.selectedKeys().clear();

        if ((ready & WRITE) != 0 && !output.isEmpty()) // the run: drain, if the channel is ready for it
            ann.server.write(output.poll());
        ann.server.read(ByteBuffer.allocate(10)); // a line for the others, so no reply for Ann
        key.interestOps(interest); // done, and resumeSelection
        if (selector.select(Show.WHILE) > 0 && key.isWritable())
            ann.server.write(output.poll());
        return output.isEmpty();
    }

    /** Roth: he appends first and announces then, and his handler drains after the interest was reset. */
    static boolean roth(int place, boolean resetFirst) throws Exception {
        Show.Pair ann = new Show.Pair();
        ann.server.configureBlocking(false);
        Selector selector = Selector.open();
        SelectionKey key = ann.server.register(selector, READ | WRITE); // an earlier announcement
        Queue<ByteBuffer> output = new ArrayDeque<>();
        Show.Body worker = () -> {
            output.add(ByteBuffer.wrap("r".getBytes()));
            selector.wakeup();
            key.interestOps(READ | WRITE);
        };
        boolean written = false;
        if (place == 0)
            worker.run();
        while (selector.select(Show.WHILE) > 0) {
            boolean writable = key.isWritable();
            selector.selectedKeys().clear();
            if (place == 1)
                worker.run();
            if (!writable)
                continue;
            if (resetFirst)
                key.interestOps(READ);
            if (place == 2)
                worker.run();
            ByteBuffer reply = output.poll();
            if (reply != null)
                written = ann.server.write(reply) == 1;
            if (place == 3)
                worker.run();
            if (!resetFirst)
                key.interestOps(READ);
            place = -1;
        }
        return written;
    }
}
