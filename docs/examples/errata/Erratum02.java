/** Hitchens, 2008: null means "no message yet", and the chat returns it for an empty line, too. */
public class Erratum02 {
    static final InputQueue queue = new InputQueue();

    static String nextMessage() {
        int end = queue.indexOf('\n');
        if (end == -1)
            return null;
        if (end == 1 && queue.indexOf('\r') == 0) {
            queue.dequeue(2);
            return null; // the framework takes it for "nothing is there"
        }
        return queue.dequeue(end + 1);
    }

    /** A run, as the framework makes it after each read. */
    static int run(String received) {
        int handled = 0;
        queue.fill(received);
        while (nextMessage() != null)
            handled++;
        return handled;
    }

    public static void main(String[] args) {
        int first = run("\r\nhello\n");
        int second = run("more\n");
        Show.seen(first == 0 && second == 2, "messages after \\r\\nhello\\n: %d; after one more line: %d", first, second);
    }
}
