/*
 * Protohackers' problem 9, Job Centre: clients put jobs into queues by priority, and take them out.
 * A "get" may wait until there is a job, and a client that leaves gives back the jobs that it has.
 */
#include "common/apps/strand_group.h"
#include "docs/examples/protohackers/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Jobs ------------------------------------------------------------------------------------ */

struct client {
    struct strand_member member; /* first */
    char *wants;                 /* the queues of a "get" that waits; NULL: none does */
};

struct job {
    struct job *next;
    struct client *worker; /* who has taken it; NULL: nobody */
    unsigned long long id, priority;
    struct span queue, body; /* in text */
    char text[];
};

static struct strand_group centre;
static struct job *jobs;
static unsigned long long last_id;

static bool is_among(struct span queue, const char *queues)
{
    struct span rest = {queues, queues + strlen(queues)};
    struct span value;
    while (next_value(&rest, NULL, &value, 0)) {
        if (is_same(value, queue))
            return true;
    }
    return false;
}

static struct job **find(unsigned long long id)
{
    struct job **place = &jobs;
    while (*place != NULL && (*place)->id != id)
        place = &(*place)->next;
    return place;
}

static struct job *best_of(const char *queues)
{
    struct job *best = NULL;
    for (struct job *job = jobs; job != NULL; job = job->next) {
        if (job->worker == NULL && (best == NULL || job->priority > best->priority) &&
            is_among(job->queue, queues))
            best = job;
    }
    return best;
}

static void give(struct job *job, struct client *client)
{
    job->worker = client;
    channel_printf(client->member.facade,
                   "{\"status\":\"ok\",\"id\":%llu,\"job\":%.*s,\"pri\":%llu,\"queue\":%.*s}\n",
                   job->id, (int)(job->body.end - job->body.at), job->body.at, job->priority,
                   (int)(job->queue.end - job->queue.at), job->queue.at);
}

static void forget_wish(struct client *client)
{
    free(client->wants);
    client->wants = NULL;
}

/* A job is free: one that waits for it gets it. */
static void offer(struct job *job)
{
    job->worker = NULL;
    for (struct strand_member *member = strand_group_first(&centre); member != NULL;
         member = strand_group_next(&centre, member)) {
        struct client *client = (struct client *)member;
        if (client->wants == NULL || !is_among(job->queue, client->wants))
            continue;
        give(job, client);
        forget_wish(client);
        strand_member_go_on(member);
        return;
    }
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void answer(struct client *client, const char *status)
{
    channel_printf(client->member.facade, "{\"status\":\"%s\"}\n", status);
}

static void complain(struct client *client, const char *what)
{
    channel_printf(client->member.facade, "{\"status\":\"error\",\"error\":\"%s\"}\n", what);
}

static void put(struct client *client, struct span request)
{
    struct span queue = member_of(request, "\"queue\"");
    struct span body = member_of(request, "\"job\"");
    unsigned long long priority;
    if (*queue.at != '"' || *body.at != '{' ||
        !read_number(member_of(request, "\"pri\""), &priority)) {
        complain(client, "put wants a queue, a job and a pri");
        return;
    }
    size_t queue_length = (size_t)(queue.end - queue.at);
    size_t body_length = (size_t)(body.end - body.at);
    struct job *job = calloc(1, sizeof(*job) + queue_length + body_length);
    if (job == NULL) {
        complain(client, "no memory");
        return;
    }
    char *behind_queue = (char *)memcpy(job->text, queue.at, queue_length) + queue_length;
    memcpy(behind_queue, body.at, body_length);
    job->queue = (struct span){job->text, behind_queue};
    job->body = (struct span){behind_queue, behind_queue + body_length};
    job->id = ++last_id;
    job->priority = priority;
    job->next = jobs;
    jobs = job;
    channel_printf(client->member.facade, "{\"status\":\"ok\",\"id\":%llu}\n", job->id);
    offer(job);
}

/* False: it waits. */
static bool get(struct client *client, struct span request)
{
    struct span queues = member_of(request, "\"queues\"");
    if (*queues.at != '[') {
        complain(client, "get wants queues");
        return true;
    }
    client->wants = strndup(queues.at, (size_t)(queues.end - queues.at));
    struct job *job = client->wants != NULL ? best_of(client->wants) : NULL;
    if (job == NULL && client->wants != NULL && is(member_of(request, "\"wait\""), "true"))
        return false;
    forget_wish(client);
    if (job != NULL)
        give(job, client);
    else
        answer(client, "no-job");
    return true;
}

static void delete_job(struct client *client, unsigned long long id)
{
    struct job **place = find(id);
    struct job *job = *place;
    answer(client, job != NULL ? "ok" : "no-job");
    if (job != NULL)
        *place = job->next;
    free(job);
}

static void abort_job(struct client *client, unsigned long long id)
{
    struct job *job = *find(id);
    bool is_taken = job != NULL && job->worker != NULL;
    if (is_taken && job->worker != client) {
        complain(client, "it is another client's job");
        return;
    }
    answer(client, is_taken ? "ok" : "no-job");
    if (is_taken)
        offer(job);
}

static bool said(struct strand_group *group, struct strand_member *member, struct message line)
{
    struct client *client = (struct client *)member;
    const char *end = (const char *)line.data + line.length;
    struct span request = {skip_space((const char *)line.data, end), end};
    (void)group;
    const char *behind = skip_value(request.at, end, 0);
    bool is_object = behind != NULL && *request.at == '{' && skip_space(behind, end) == end;
    struct span kind = is_object ? member_of(request, "\"request\"") : request;
    unsigned long long id = 0;
    bool has_id = is_object && read_number(member_of(request, "\"id\""), &id);
    if (is(kind, "\"get\""))
        return get(client, request);
    if (is(kind, "\"put\""))
        put(client, request);
    else if (is(kind, "\"delete\"") && has_id)
        delete_job(client, id);
    else if (is(kind, "\"abort\"") && has_id)
        abort_job(client, id);
    else
        complain(client, "no such request");
    return true;
}

static void left(struct strand_group *group, struct strand_member *member)
{
    (void)group;
    forget_wish((struct client *)member);
    for (struct job *job = jobs; job != NULL; job = job->next) {
        if (job->worker == (struct client *)member)
            offer(job);
    }
}

static const struct strand_group_verbs verbs = {.said = said, .left = left};

static void *start(struct server *server)
{
    return strand_group_open(&centre, server, &verbs) ? &centre : NULL;
}

static void finish(void *data)
{
    (void)data;
    while (jobs != NULL) {
        struct job *job = jobs;
        jobs = job->next;
        free(job);
    }
}

const struct application jobs_application = {
    .name = "jobs",
    .needs = OFFERS_STRANDS | OFFERS_OUTPUT_FROM_ELSEWHERE,
    .verbs = &strand_member_verbs,
    .handler_size = sizeof(struct client),
    .max_message = 100000,
    .start = start,
    .finish = finish,
};
