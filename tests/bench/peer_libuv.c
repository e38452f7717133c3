/*
 * A peer: echo on libuv, written as its guide shows it, which frames nothing: what was read is
 * written back. A write request takes the buffer over, and frees it when it is done.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <uv.h>

struct reply {
    uv_write_t request;
    uv_buf_t buffer;
};

static uv_loop_t *loop;

static void allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    (void)handle;
    buffer->base = malloc(suggested);
    buffer->len = buffer->base != NULL ? suggested : 0;
}

static void on_written(uv_write_t *request, int status)
{
    struct reply *reply = (struct reply *)request;
    (void)status;
    free(reply->buffer.base);
    free(reply);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
    if (length > 0) {
        struct reply *reply = malloc(sizeof(*reply));
        reply->buffer = uv_buf_init(buffer->base, (unsigned)length);
        uv_write(&reply->request, stream, &reply->buffer, 1, on_written);
        return;
    }
    if (length < 0)
        uv_close((uv_handle_t *)stream, on_closed);
    free(buffer->base);
}

static void on_connection(uv_stream_t *server, int status)
{
    uv_tcp_t *client = malloc(sizeof(*client));
    if (status < 0 || client == NULL) {
        free(client);
        return;
    }
    uv_tcp_init(loop, client);
    if (uv_accept(server, (uv_stream_t *)client) != 0) {
        uv_close((uv_handle_t *)client, on_closed);
        return;
    }
    uv_tcp_nodelay(client, 1);
    uv_read_start((uv_stream_t *)client, allocate, on_read);
}

int main(void)
{
    struct sockaddr_in address;
    int size = sizeof(address);
    struct rlimit limit;
    uv_tcp_t server;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    loop = uv_default_loop();
    uv_tcp_init(loop, &server);
    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_bind(&server, (const struct sockaddr *)&address, 0);
    if (uv_listen((uv_stream_t *)&server, 4096, on_connection) != 0 ||
        uv_tcp_getsockname(&server, (struct sockaddr *)&address, &size) != 0)
        return EXIT_FAILURE;
    printf("libuv: echo on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return uv_run(loop, UV_RUN_DEFAULT);
}
