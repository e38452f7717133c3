import java.net.URI;
import java.util.List;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;

/** Gives the compiler what some listings of the sources say, in as few lines as show the mistake. */
public class NotCompiled {
    /** Whether the compiler takes a class with this in it. */
    static boolean compiles(String members) {
        String text = "import java.nio.channels.*; import java.util.concurrent.*; abstract class T { " + members + " }";
        JavaFileObject file = new SimpleJavaFileObject(URI.create("string:///T.java"), JavaFileObject.Kind.SOURCE) {
            @Override
            public CharSequence getCharContent(boolean ignored) {
                return text;
            }
        };
        return ToolProvider.getSystemJavaCompiler()
            .getTask(null, null, problem -> { }, List.of("-proc:none", "-implicit:none", "-Xlint:none", "-d",
                System.getProperty("java.io.tmpdir")), null, List.of(file))
            .call();
    }

    static int refused;

    /** Tries the member as it is printed, and as it would have to be. */
    static void show(String where, String printed, String meant) {
        boolean asExpected = !compiles(printed) && compiles(meant);
        System.out.printf("%s: %s%n", where, asExpected ? "refused" : "NOT as expected");
        if (asExpected)
            refused++;
    }

    public static void main(String[] args) {
        show("Hitchens, 2008, HandlerFutureTask Class: get() throws InterruptedException, too",
            "void done(Future<?> f) { try { f.get(); } catch (ExecutionException e) { } }",
            "void done(Future<?> f) { try { f.get(); } catch (ExecutionException | InterruptedException e) { } }");
        show("Hitchens, 2008: prepareToRun has no parameter where it is declared, and an argument where it is called",
            "void prepareToRun() { } void invoke(SelectionKey key) { prepareToRun(key); }",
            "void prepareToRun() { } void invoke(SelectionKey key) { prepareToRun(); }");
        show("Hitchens, 2008: invokeHandler passes a key that it has not got",
            "void prepareToRun(Object k) { } void invoke(Object adapter) { prepareToRun(key); }",
            "void prepareToRun(Object k) { } void invoke(Object adapter, Object key) { prepareToRun(key); }");
        show("Hitchens, 2008: checkStatusChangeQueue, the other way round",
            "void check() { } void loop(Object queue) { check(queue); }", "void check() { } void loop(Object queue) { check(); }");
        show("Hitchens, 2008: the chat's parameter is facade, and its body says channelFacade",
            "Object message(Object facade) { return channelFacade; }", "Object message(Object facade) { return facade; }");
        show("Lea, per-state handlers: SelectionKey has no interest()",
            "void run(SelectionKey sk) { sk.interest(SelectionKey.OP_WRITE); }",
            "void run(SelectionKey sk) { sk.interestOps(SelectionKey.OP_WRITE); }");
        show("Lea, API: SocketChannel has no isInputOpen()",
            "boolean open(SocketChannel c) { return c.isInputOpen(); }",
            "boolean open(SocketChannel c) { return !c.socket().isInputShutdown(); }");
        show("Lea, API: FileChannel has no MAP_RO",
            "Object mode() { return FileChannel.MAP_RO; }", "Object mode() { return FileChannel.MapMode.READ_ONLY; }");
        show("Roth, Threading Architecture: response is once called resonse",
            "Object answer(Object response) { return resonse; }", "Object answer(Object response) { return response; }");
        show("Roth, The Reactor Pattern: the text names a method selectedKey",
            "Object keys(Selector s) { return s.selectedKey(); }", "Object keys(Selector s) { return s.selectedKeys(); }");
        Show.seen(refused == 10, "listings that the compiler refuses: %d of 10", refused);
    }
}
