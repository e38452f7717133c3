/** Hitchens, both talks: the echo handler takes the bytes before the line feed, and leaves the line feed. */
public class Erratum21 {
    public static void main(String[] args) {
        InputQueue queue = new InputQueue();
        queue.fill("hello\n");
        int messages = 0, empty = 0;
        int end;
        while ((end = queue.indexOf('\n')) != -1 && messages < 1000) {
            messages++;
            if (queue.dequeue(end).isEmpty())
                empty++;
        }
        Show.seen(empty == 999, "messages of one line: %d, when we stopped counting; empty: %d", messages, empty);
    }
}
