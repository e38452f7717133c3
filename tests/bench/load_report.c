/*
 * Latencies, and what is printed.
 *
 * A histogram has 64 buckets for each power of two, so a quantile is right to 1.6 percent, whatever
 * its size, and adding a sample costs the same for the first and the thousand millionth.
 */
#include "load.h"

#include <stdio.h>
#include <unistd.h>

enum { PARTS = 64, PARTS_LOG = 6 };

static size_t bucket_of(uint64_t ns)
{
    if (ns < PARTS)
        return (size_t)ns;
    unsigned power = 63 - (unsigned)__builtin_clzll(ns);
    uint64_t part = (ns >> (power - PARTS_LOG)) - PARTS;
    return (size_t)(power - PARTS_LOG + 1) * PARTS + (size_t)part;
}

/* The upper end of a bucket. */
static int64_t value_of(size_t bucket)
{
    if (bucket < PARTS)
        return (int64_t)bucket;
    unsigned shift = (unsigned)(bucket / PARTS) - 1;
    uint64_t part = bucket % PARTS + PARTS + 1;
    return (int64_t)(part << shift) - 1;
}

void histogram_add(struct histogram *histogram, int64_t ns)
{
    ns = ns > 0 ? ns : 0;
    histogram->buckets[bucket_of((uint64_t)ns)]++;
    histogram->count++;
    if (histogram->most < ns)
        histogram->most = ns;
}

int64_t histogram_quantile(const struct histogram *histogram, double part)
{
    double wanted = part * (double)histogram->count;
    uint64_t passed = 0;
    for (size_t i = 0; i < sizeof(histogram->buckets) / sizeof(histogram->buckets[0]); i++) {
        passed += histogram->buckets[i];
        if (passed > 0 && (double)passed >= wanted)
            return value_of(i) < histogram->most ? value_of(i) : histogram->most;
    }
    return histogram->most;
}

/* ---- printing ---- */

void report_progress(const struct load *load, double part)
{
    static int64_t last;
    int64_t now = now_ns();
    if (!isatty(STDERR_FILENO))
        return;
    if (part >= 1) {
        fputs("\r\033[K", stderr);
        return;
    }
    if (now - last < 200000000)
        return;
    last = now;
    fprintf(stderr, "\r%s: %3.0f %%, %llu replies", load->server.name, part * 100,
            (unsigned long long)load->replies);
}

static double seconds(const struct load *load)
{
    return (double)(load->ended - load->began) / 1e9;
}

/* Messages that were due in the measured time. */
static double offered(const struct load *load)
{
    return (double)load->settings.rate * seconds(load);
}

/* Microseconds of the server's CPU time for each reply. */
static double per_reply(const struct load *load, double cpu_seconds)
{
    return load->replies > 0 ? cpu_seconds * 1e6 / (double)load->replies : 0;
}

/* Microseconds. What was set aside is at the upper end. */
static double quantile_us(const struct load *load, const struct histogram *histogram, double part)
{
    double kept = 1 - (double)load->settings.set_aside / 100;
    return (double)histogram_quantile(histogram, part * kept) / 1000;
}

static void print_latency(const struct load *load, const char *name,
                          const struct histogram *histogram)
{
    printf("  %-13s p50 %.0f us, p90 %.0f us, p99 %.0f us, p99.9 %.0f us, most %.0f us\n", name,
           quantile_us(load, histogram, 0.5), quantile_us(load, histogram, 0.9),
           quantile_us(load, histogram, 0.99), quantile_us(load, histogram, 0.999),
           quantile_us(load, histogram, 1));
}

void report_text(const struct load *load)
{
    const struct load_settings *settings = &load->settings;
    printf("%s: %s, %llu connections and %llu idle, depth %llu, %llu bytes, ", load->server.name,
           load->traffic->name, (unsigned long long)settings->connections,
           (unsigned long long)settings->idle, (unsigned long long)settings->depth,
           (unsigned long long)settings->size);
    if (settings->rate > 0)
        printf("open loop at %llu/s\n", (unsigned long long)settings->rate);
    else
        printf("closed loop\n");
    printf("  %-13s %llu in %.2f s, %.0f/s\n", "replies", (unsigned long long)load->replies,
           seconds(load), (double)load->replies / seconds(load));
    print_latency(load, "latency", &load->latency);
    if (settings->rate > 0)
        print_latency(load, "from sending", &load->from_sending);
    if (settings->within > 0)
        printf("  %-13s %llu of %.0f within %llu ms, %llu refused\n", "in time",
               (unsigned long long)load->in_time, offered(load),
               (unsigned long long)settings->within, (unsigned long long)load->refused);
    if (settings->set_aside > 0)
        printf("  %-13s the slowest %llu %% of the replies\n", "left out",
               (unsigned long long)settings->set_aside);
    printf("  %-13s %.3f us a reply (user %.2f, system %.2f), %.2f processors\n", "server's CPU",
           per_reply(load, load->used.cpu), per_reply(load, load->used.user),
           per_reply(load, load->used.system), load->used.cpu / seconds(load));
    printf("  %-13s %ld threads, %lld bytes a connection\n", "server has", load->threads,
           load->memory);
}

static void json_latency(const struct load *load, const char *name,
                         const struct histogram *histogram)
{
    printf(", \"%s_us\": {\"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"p99.9\": %.1f, "
           "\"most\": %.1f}",
           name, quantile_us(load, histogram, 0.5), quantile_us(load, histogram, 0.9),
           quantile_us(load, histogram, 0.99), quantile_us(load, histogram, 0.999),
           quantile_us(load, histogram, 1));
}

void report_json(const struct load *load)
{
    const struct load_settings *settings = &load->settings;
    printf("{\"server\": \"%s\", \"traffic\": \"%s\", \"connections\": %llu, \"idle\": %llu, "
           "\"depth\": %llu, \"size\": %llu, \"rate\": %llu, \"set_aside\": %llu, ",
           load->server.name, load->traffic->name, (unsigned long long)settings->connections,
           (unsigned long long)settings->idle, (unsigned long long)settings->depth,
           (unsigned long long)settings->size, (unsigned long long)settings->rate,
           (unsigned long long)settings->set_aside);
    printf("\"seconds\": %.3f, \"replies\": %llu, \"all_replies\": %llu, \"replies_per_second\": "
           "%.1f, "
           "\"cpu_us_per_reply\": %.4f, \"user_us_per_reply\": %.3f, "
           "\"system_us_per_reply\": %.3f, \"processors\": %.3f, \"threads\": %ld, "
           "\"bytes_per_connection\": %lld",
           seconds(load), (unsigned long long)load->replies, (unsigned long long)load->all_replies,
           (double)load->replies / seconds(load), per_reply(load, load->used.cpu),
           per_reply(load, load->used.user), per_reply(load, load->used.system),
           load->used.cpu / seconds(load), load->threads, load->memory);
    printf(", \"load_processors\": %.3f", load->own_cpu / seconds(load));
    if (settings->within > 0)
        printf(", \"offered\": %.0f, \"in_time\": %llu, \"refused\": %llu", offered(load),
               (unsigned long long)load->in_time, (unsigned long long)load->refused);
    json_latency(load, "latency", &load->latency);
    if (settings->rate > 0)
        json_latency(load, "from_sending", &load->from_sending);
    printf("}\n");
}
