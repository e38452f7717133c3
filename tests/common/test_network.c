/*
 * Networks: what names one and what does not, and who is in it.
 */
#include "common/server/network.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(network, .timeout = 120);

static bool contains(const char *network_text, const char *address)
{
    struct network network;
    struct endpoint endpoint;
    cr_assert(network_parse(&network, network_text), "%s is refused", network_text);
    cr_assert(endpoint_parse(&endpoint, address, 7005));
    return network_contains(&network, &endpoint);
}

static void expect_in(const char *network, const char *address)
{
    cr_assert(contains(network, address), "%s is not in %s", address, network);
}

static void expect_out(const char *network, const char *address)
{
    cr_assert_not(contains(network, address), "%s is in %s", address, network);
}

/* The last bit that counts and the first that does not, wherever in a byte they are. */
Test(network, every_length_decides_at_its_own_bit)
{
    for (unsigned bits = 0; bits <= 32; bits++) {
        char network[64];
        char first_out[64];
        char last_in[64];
        const uint32_t base = 0x0a5a5a5a;
        uint32_t out = bits == 0 ? base : base ^ (uint32_t)(UINT64_C(1) << (32 - bits));
        uint32_t in = base ^ (bits == 32 ? 0 : (uint32_t)((UINT64_C(1) << (32 - bits)) - 1));
        snprintf(network, sizeof(network), "10.90.90.90/%u", bits);
        snprintf(first_out, sizeof(first_out), "%u.%u.%u.%u", out >> 24, out >> 16 & 255,
                 out >> 8 & 255, out & 255);
        snprintf(last_in, sizeof(last_in), "%u.%u.%u.%u", in >> 24, in >> 16 & 255, in >> 8 & 255,
                 in & 255);
        expect_in(network, last_in);
        if (bits > 0)
            expect_out(network, first_out);
    }
    expect_in("2001:db8::8000/113", "2001:db8::ffff");
    expect_out("2001:db8::8000/113", "2001:db8::7fff");
    expect_out("::/128", "::1");
}

Test(network, an_address_is_in_whose_first_bits_are_the_networks)
{
    expect_in("127.0.0.1", "127.0.0.1"); /* alone it is a network of one */
    expect_out("127.0.0.1", "127.0.0.2");
    expect_in("2001:db8::1", "2001:db8::1");
    expect_out("2001:db8::1", "2001:db8::2");
    expect_in("127.0.0.1/32", "127.0.0.1");
    expect_out("127.0.0.1/32", "127.0.0.0");
    expect_in("10.0.0.0/8", "10.0.0.0"); /* whole bytes */
    expect_in("10.0.0.0/8", "10.255.255.255");
    expect_out("10.0.0.0/8", "11.0.0.0");
    expect_out("10.0.0.0/8", "9.255.255.255");
    expect_in("2001:db8::/32", "2001:db8:ffff::1");
    expect_out("2001:db8::/32", "2001:db9::1");
    expect_in("10.1.2.3/8", "10.9.9.9"); /* what the length leaves out need not be zero */
    expect_in("2001:db8::1/32", "2001:db8::2");
    expect_in("0.0.0.0/0", "192.0.2.1"); /* no bits at all: everybody of that kind */
    expect_out("0.0.0.0/0", "2001:db8::1");
    expect_in("::/0", "2001:db8::1");
    expect_in("::/0", "192.0.2.1");
}

/* A client of IPv4 that came to a socket of IPv6 is the same client. */
Test(network, mapped_addresses)
{
    expect_in("10.0.0.0/8", "::ffff:10.1.2.3");
    expect_out("10.0.0.0/8", "::ffff:11.1.2.3");
    expect_in("::ffff:10.0.0.0/104", "10.1.2.3");
    expect_out("::ffff:10.0.0.0/104", "11.1.2.3");
    expect_out("10.0.0.0/8", "::a00:1");
    expect_out("::/96", "0.0.0.1");
}

Test(network, an_address_that_is_not_known_is_in_none)
{
    struct network network;
    struct endpoint nobody = {0};
    cr_assert(network_parse(&network, "0.0.0.0/0"));
    cr_assert_not(network_contains(&network, &nobody));
    cr_assert(network_parse(&network, "::/0"));
    cr_assert_not(network_contains(&network, &nobody));
}

Test(network, what_is_refused)
{
    static const char *const bad[] = {
        "",
        "x",
        "/",
        "/8",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/x",
        "10.0.0.0/-1",
        "10.0.0.0/8/8",
        "10.0.0/8",
        "10.0.0.0/ 8",
        "10.0.0.0/99999999999999999999",
        "::/129",
        "::1/",
        "10.0.0.0/8x",
        " 10.0.0.0",
        "256.0.0.0/8",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "localhost",
        "10.0.0.0 /8",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/8",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct network network;
        cr_assert_not(network_parse(&network, bad[i]), "`%s` is taken", bad[i]);
    }
    expect_in("10.0.0.0/32", "10.0.0.0"); /* lengths at the edge */
    expect_in("::/128", "::");
    expect_in("1111:2222:3333:4444:5555:6666:255.255.255.255/128",
              "1111:2222:3333:4444:5555:6666:255.255.255.255");
}

/* ---- lists ---- */

static void expect_in_list(const char *text, const char *address, bool expected)
{
    struct network_list list;
    struct endpoint endpoint;
    cr_assert(network_list_parse(&list, text), "`%s` is refused", text);
    cr_assert(endpoint_parse(&endpoint, address, 1));
    cr_assert_eq(network_list_contains(&list, &endpoint), expected, "%s in %s", address, text);
}

Test(network, a_list_contains_what_one_of_its_networks_does)
{
    expect_in_list("127.0.0.1", "127.0.0.1", true);
    expect_in_list("127.0.0.1", "127.0.0.2", false);
    expect_in_list("10.0.0.0/8,127.0.0.1,::1", "127.0.0.1", true);
    expect_in_list("10.0.0.0/8,127.0.0.1,::1", "10.255.0.0", true);
    expect_in_list("10.0.0.0/8,127.0.0.1,::1", "::1", true);
    expect_in_list("10.0.0.0/8,127.0.0.1,::1", "11.0.0.0", false);
}

Test(network, a_list_has_a_network_before_and_behind_each_comma_and_at_most_sixteen)
{
    static const char *const bad[] = {"",         ",",        "::1,",  ",::1",
                                      "::1,,::2", "::1 ,::2", "::1,x", "::1;::2"};
    static const char sixteen[] = "::1,::1,::1,::1,::1,::1,::1,::1,::1,::1,::1,::1,::1,::1,::1,::2";
    static const char seventeen[] =
        "::1,::1,::1,::1,::1,::1,::1,::1,::1,::1,::1,::1,::1,::1,::1,::2,::3";
    struct network_list list;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_not(network_list_parse(&list, bad[i]), "`%s` is taken", bad[i]);
    expect_in_list(sixteen, "::2", true);
    cr_assert_not(network_list_parse(&list, seventeen));
    cr_assert(network_list_parse(&list, "::4"), "one that failed is no part of the next");
    expect_in_list("::4", "::1", false);
}
