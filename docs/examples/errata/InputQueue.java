/** The least that an input queue of the slides has to do: find a byte, and hand out bytes from the front. */
final class InputQueue {
    private final StringBuilder bytes = new StringBuilder();

    void fill(String received) {
        bytes.append(received);
    }

    boolean isEmpty() {
        return bytes.length() == 0;
    }

    int indexOf(char wanted) {
        return bytes.indexOf(String.valueOf(wanted));
    }

    String dequeue(int count) {
        String front = bytes.substring(0, count);
        bytes.delete(0, count);
        return front;
    }
}
