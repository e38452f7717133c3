/*
 * HOST:PORT: what is one, and what it stands for. No name is looked up here.
 */
#include "common/server/host_port.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(host_port, .timeout = 120);

static bool is_one(const char *text)
{
    return host_port_is_one(text, strlen(text));
}

Test(host_port, is_a_name_or_an_address_and_a_port)
{
    static const char *const good[] = {"a:1",
                                       "localhost:80",
                                       "127.0.0.1:65535",
                                       "www.example-1.org:8080",
                                       "my_host:7002",
                                       "[::1]:80",
                                       "[::]:1",
                                       "[2001:db8::0:1]:443",
                                       "xn--bcher-kva.example:80",
                                       "[::ffff:192.0.2.128]:80",
                                       "[fe80::1%eth0]:80",
                                       "none:1"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        cr_assert(is_one(good[i]), "%s", good[i]);
}

Test(host_port, is_nothing_else)
{
    static const char *const bad[] = {"",
                                      ":",
                                      "a",
                                      "a:",
                                      ":80",
                                      "a:0",
                                      "a:65536",
                                      "a:x",
                                      "a:+1",
                                      "a: 1",
                                      "a:1 ",
                                      "a:000080",
                                      "a b:80",
                                      " a:80",
                                      "a\n:80",
                                      "a,b:80",
                                      "a/b:80",
                                      "a%b:80",
                                      "b\xc3\xbc:80",
                                      "::1:80",
                                      "[:80",
                                      "]:80",
                                      "[]:80",
                                      "[a:80",
                                      "a]:80",
                                      "[::1:80",
                                      "::1]:80",
                                      "[[::1]]:80",
                                      "[::1]80",
                                      "[::1]",
                                      "[::1]:",
                                      "[::1]]:80",
                                      "[a]:80",
                                      "[127.0.0.1]:80",
                                      "[::1%]:80",
                                      "[::1%a b]:80",
                                      "[%eth0]:80",
                                      "[1:2:3:4:5:6:7:8:9]:80"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_not(is_one(bad[i]), "%s", bad[i]);
}

/* The text goes on behind it, as in a list. */
Test(host_port, ends_where_its_length_says)
{
    cr_assert(host_port_is_one("a:1,b:2", 3));
    cr_assert_not(host_port_is_one("a:1,b:2", 4));
    cr_assert_not(host_port_is_one("a:1,b:2", 2));
    cr_assert_not(host_port_is_one("[::1]:80", 4));
    cr_assert_not(host_port_is_one("[:80", 2));
    cr_assert_not(host_port_is_one("[:80", 0));
}

Test(host_port, has_a_longest)
{
    char text[2 * HOST_PORT_SIZE];
    for (size_t length = 3; length < sizeof(text); length++) {
        memset(text, 'h', length - 2);
        memcpy(text + length - 2, ":1", 3);
        cr_assert_eq(is_one(text), length < HOST_PORT_SIZE, "%zu bytes", length);
    }
    memset(text, '[', sizeof(text));
    memcpy(text + 300, "]:80", 5);
    cr_assert_not(is_one(text));
}

static void reads(const char *text, const char *expected)
{
    char got[ENDPOINT_TEXT_SIZE];
    struct endpoint endpoint;
    cr_assert(host_port_read(text, &endpoint), "%s", text);
    endpoint_format(&endpoint, got);
    cr_assert_str_eq(got, expected);
}

Test(host_port, is_read_without_a_name_server_if_it_has_no_name)
{
    struct endpoint endpoint;
    reads("127.0.0.1:80", "127.0.0.1:80");
    reads("[::1]:65535", "[::1]:65535");
    reads("[2001:db8::0:1]:7002", "[2001:db8::1]:7002");
    cr_assert_not(host_port_read("localhost:80", &endpoint));
    cr_assert_not(host_port_read("127.0.0.1", &endpoint), "it is not one");
}
