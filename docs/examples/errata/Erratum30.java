import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** Roth, "Threading Architecture": ten threads, a try inside the loop, and null, the end, is a line like others. */
public class Erratum30 {
    static final int THREADS = 10;
    static final AtomicLong rounds = new AtomicLong();

    static void work(Socket socket) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
        OutputStream out = socket.getOutputStream();
        while (true) {
            rounds.incrementAndGet();
            try {
                String request = in.readLine();
                out.write((request + "\n").getBytes());
                out.flush();
            } catch (Exception e) {
                // the listing has three dots here
            }
        }
    }

    static Socket client(ServerSocket server, String line) throws IOException {
        Socket socket = new Socket(server.getInetAddress(), server.getLocalPort());
        socket.getOutputStream().write(line.getBytes());
        return socket;
    }

    public static void main(String[] args) throws Exception {
        ThreadPoolExecutor pool = new ThreadPoolExecutor(THREADS, THREADS, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>());
        ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        Show.start(() -> {
            while (true) {
                Socket socket = server.accept();
                pool.execute(() -> {
                    try {
                        work(socket);
                    } catch (IOException e) {
                        // the connection is over
                    }
                });
            }
        });
        for (int i = 0; i < THREADS; i++) {
            Socket socket = client(server, "hi\n");
            socket.getInputStream().read();
            socket.close();
        }
        long before = rounds.get();
        Show.await(() -> rounds.get() > before + 10_000);
        Socket eleventh = client(server, "hi\n");
        eleventh.setSoTimeout(Show.WHILE);
        boolean answered = true;
        try {
            eleventh.getInputStream().read();
        } catch (SocketTimeoutException e) {
            answered = false;
        }
        Show.seen(!answered && pool.getActiveCount() == THREADS,
            "ten clients have come and gone: threads that still run for them: %d; the eleventh is answered: %b",
            pool.getActiveCount(), answered);
    }
}
