/** Lea, "Reactor 5": what comes behind the first request, and a request that is larger than the buffer. */
public class Erratum14 {
    public static void main(String[] args) throws Exception {
        LeaReactor reactor = new LeaReactor();
        Show.Pair two = reactor.client();
        two.send("a\nb\n");
        String first = two.next(Show.AT_MOST) + two.next(Show.AT_MOST).trim();
        String second = two.next(Show.WHILE);
        System.out.printf("two requests in one write: reply to the first: %s, to the second: %s%n", first, second);

        Show.Pair large = reactor.client();
        large.send("x".repeat(LeaReactor.MAX + 1) + "\n");
        String reply = large.next(Show.WHILE);
        boolean spins = reactor.spins();
        Show.seen(first.equals("a") && second.equals("nothing") && reply.equals("nothing") && spins,
            "a request larger than the buffer: %s; the loop spins: %b", reply, spins);
    }
}
