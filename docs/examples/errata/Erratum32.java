/** Lea, "Reactor 5": after the reply the key is cancelled, and the socket stays open. */
public class Erratum32 {
    public static void main(String[] args) throws Exception {
        Show.Pair pair = new LeaReactor().client();
        pair.send("hello\n");
        String reply = "";
        while (!reply.endsWith("\n"))
            reply += pair.next(Show.AT_MOST);
        String then = pair.next(Show.WHILE);
        pair.send("again\n");
        String second = pair.next(Show.WHILE);
        Show.seen(then.equals("nothing") && second.equals("nothing") && pair.server.isOpen(),
            "after the reply: %s; to a second request: %s; the server's socket is open: %b", then, second,
            pair.server.isOpen());
    }
}
