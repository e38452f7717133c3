/*
 * Protohackers' problem 6, Speed Daemon: cameras report number plates, and whoever was too fast
 * between two cameras of a road gets a ticket, at most one a day, which a dispatcher of that road
 * takes. Messages are bytes: a type, and numbers with the highest byte first.
 */
#include "common/apps/strand_group.h"
#include "common/server/channel_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ERROR = 0x10,
    PLATE = 0x20,
    TICKET = 0x21,
    WANT_HEARTBEAT = 0x40,
    HEARTBEAT = 0x41,
    I_AM_CAMERA = 0x80,
    I_AM_DISPATCHER = 0x81,

    PLATE_MAX = 255,
    ROADS_MAX = 255,
    DAY = 86400, /* s */
    CARS = 4096, /* places of the table */
};

struct client {
    struct strand_member member; /* first */
    struct channel_timer heart;  /* these two are its own handler's; the rest is the strand's */
    bool wants_heartbeat;
    unsigned char type; /* I_AM_CAMERA, I_AM_DISPATCHER; 0: it has not said */
    unsigned road, mile, limit;
    unsigned roads[ROADS_MAX];
    size_t road_count;
};

struct sighting {
    struct sighting *next;
    unsigned road, mile;
    unsigned long time; /* s */
};

struct day {
    struct day *next;
    unsigned long number;
};

struct car {
    struct car *next;
    struct sighting *sightings;
    struct day *days; /* with a ticket */
    size_t length;
    unsigned char plate[PLATE_MAX];
};

struct ticket {
    struct ticket *next;
    unsigned road;
    size_t length;
    unsigned char bytes[PLATE_MAX + 20];
};

static struct strand_group clients;
static struct car *cars[CARS];
static struct ticket *tickets; /* for which there is no dispatcher yet */

/* ---- Bytes ----------------------------------------------------------------------------------- */

static unsigned long get(const unsigned char *bytes, size_t count)
{
    unsigned long number = 0;
    for (size_t i = 0; i < count; i++)
        number = number << 8 | bytes[i];
    return number;
}

static unsigned char *put(unsigned char *bytes, unsigned long number, size_t count)
{
    for (size_t i = count; i-- > 0; number >>= 8)
        bytes[i] = (unsigned char)number;
    return bytes + count;
}

static void complain(struct channel_facade *facade, const char *what)
{
    channel_printf(facade, "%c%c%s", ERROR, (int)strlen(what), what);
}

/* The bytes of the message that the input begins with; 0: there is no such type. */
static size_t length_of(const struct input_queue *input)
{
    size_t second = input_queue_length(input) > 1 ? input_queue_at(input, 1) : 0;
    switch (input_queue_at(input, 0)) {
    case PLATE: return 2 + second + 4;
    case WANT_HEARTBEAT: return 5;
    case I_AM_CAMERA: return 7;
    case I_AM_DISPATCHER: return 2 + 2 * second;
    default: return 0;
    }
}

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    struct input_queue *input = channel_input(facade);
    size_t length = input_queue_is_empty(input) ? 2 : length_of(input);
    (void)self;
    if (length == 0) {
        complain(facade, "no such message");
        return FRAMING_REFUSED;
    }
    if (input_queue_length(input) < 2 || input_queue_length(input) < length)
        return FRAMING_INCOMPLETE;
    *message = input_queue_dequeue(input, length);
    return FRAMING_MESSAGE;
}

/* ---- Tickets --------------------------------------------------------------------------------- */

static bool takes_tickets(const struct client *client, unsigned road)
{
    for (size_t i = 0; i < client->road_count; i++) {
        if (client->roads[i] == road)
            return true;
    }
    return false;
}

static void issue(struct ticket *ticket)
{
    struct strand_member *member = strand_group_first(&clients);
    while (member != NULL && !takes_tickets((struct client *)member, ticket->road))
        member = strand_group_next(&clients, member);
    if (member == NULL) {
        ticket->next = tickets;
        tickets = ticket;
        return;
    }
    channel_enqueue(member->facade, piece_bytes(ticket->bytes, ticket->length));
    free(ticket);
}

static bool has_ticket(const struct car *car, unsigned long first, unsigned long last)
{
    for (const struct day *day = car->days; day != NULL; day = day->next) {
        if (day->number >= first && day->number <= last)
            return true;
    }
    return false;
}

/* For all days from one sighting to the other. */
static void fine(struct car *car, const struct sighting *from, const struct sighting *to,
                 unsigned long speed)
{
    struct ticket *ticket = calloc(1, sizeof(*ticket));
    if (ticket == NULL || has_ticket(car, from->time / DAY, to->time / DAY)) {
        free(ticket);
        return;
    }
    for (unsigned long number = from->time / DAY; number <= to->time / DAY; number++) {
        struct day *day = calloc(1, sizeof(*day));
        if (day == NULL)
            break;
        *day = (struct day){car->days, number};
        car->days = day;
    }
    unsigned char *at = put(put(ticket->bytes, TICKET, 1), car->length, 1);
    at = (unsigned char *)memcpy(at, car->plate, car->length) + car->length;
    at = put(put(put(at, from->road, 2), from->mile, 2), from->time, 4);
    at = put(put(put(at, to->mile, 2), to->time, 4), speed, 2);
    ticket->length = (size_t)(at - ticket->bytes);
    ticket->road = from->road;
    issue(ticket);
}

/* ---- Cars ------------------------------------------------------------------------------------ */

static struct car *find(const unsigned char *plate, size_t length)
{
    unsigned long hash = 5381;
    for (size_t i = 0; i < length; i++)
        hash = hash * 33 + plate[i];
    struct car **place = &cars[hash % CARS];
    struct car *car = *place;
    while (car != NULL && (car->length != length || memcmp(car->plate, plate, length) != 0))
        car = car->next;
    if (car == NULL && (car = calloc(1, sizeof(*car))) != NULL) {
        memcpy(car->plate, plate, length);
        car->length = length;
        car->next = *place;
        *place = car;
    }
    return car;
}

/* Miles an hour in hundredths: half a mile too fast is too fast. */
static void compare(struct car *car, const struct sighting *one, const struct sighting *other,
                    unsigned limit)
{
    const struct sighting *from = one->time < other->time ? one : other;
    const struct sighting *to = from == one ? other : one;
    unsigned long miles = from->mile > to->mile ? from->mile - to->mile : to->mile - from->mile;
    if (from->road != to->road || from->time == to->time)
        return;
    unsigned long speed = miles * 360000 / (to->time - from->time);
    if (speed >= limit * 100 + 50)
        fine(car, from, to, speed);
}

static void see(const struct client *camera, struct message message)
{
    size_t length = message.data[1];
    struct car *car = find(message.data + 2, length);
    struct sighting *seen = calloc(1, sizeof(*seen));
    if (car == NULL || seen == NULL) {
        free(seen);
        return;
    }
    *seen = (struct sighting){car->sightings, camera->road, camera->mile,
                              get(message.data + 2 + length, 4)};
    for (struct sighting *other = car->sightings; other != NULL; other = other->next)
        compare(car, seen, other, camera->limit);
    car->sightings = seen;
}

/* ---- Clients --------------------------------------------------------------------------------- */

static void become_camera(struct client *client, const unsigned char *data)
{
    client->type = I_AM_CAMERA;
    client->road = (unsigned)get(data + 1, 2);
    client->mile = (unsigned)get(data + 3, 2);
    client->limit = (unsigned)get(data + 5, 2);
}

/* It gets what has waited for it. */
static void become_dispatcher(struct client *client, const unsigned char *data)
{
    struct ticket *waiting = tickets;
    client->type = I_AM_DISPATCHER;
    client->road_count = data[1];
    for (size_t i = 0; i < client->road_count; i++)
        client->roads[i] = (unsigned)get(data + 2 + 2 * i, 2);
    tickets = NULL;
    while (waiting != NULL) {
        struct ticket *ticket = waiting;
        waiting = ticket->next;
        issue(ticket);
    }
}

static bool said(struct strand_group *group, struct strand_member *member, struct message message)
{
    struct client *client = (struct client *)member;
    unsigned char type = message.data[0];
    (void)group;
    if (type == PLATE && client->type == I_AM_CAMERA) {
        see(client, message);
    } else if (type == I_AM_CAMERA && client->type == 0) {
        become_camera(client, message.data);
    } else if (type == I_AM_DISPATCHER && client->type == 0) {
        become_dispatcher(client, message.data);
    } else {
        complain(member->facade, type == PLATE ? "you are no camera" : "you have said who you are");
        channel_close(member->facade);
    }
    return true;
}

static void beat(struct channel_timer *timer, struct channel_facade *facade)
{
    (void)timer;
    channel_printf(facade, "%c", HEARTBEAT);
}

/* A timer is the connection's own, so this is done here, and not in the strand. */
static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade) NO_LOCK_HELD
{
    struct client *client = (struct client *)self;
    if (message.data[0] != WANT_HEARTBEAT)
        return strand_member_handle_input(self, message, facade);
    if (client->wants_heartbeat) {
        complain(facade, "you have a heartbeat");
        return false;
    }
    unsigned long tenths = get(message.data + 1, 4);
    client->wants_heartbeat = true;
    client->heart.fired = beat;
    if (tenths > 0)
        channel_repeat_timer(facade, &client->heart, (int64_t)tenths * 100);
    return true;
}

static const struct strand_group_verbs group_verbs = {.said = said};

static const struct input_handler_verbs verbs = {.next_message = next_message,
                                                 .handle_input = handle_input,
                                                 .started = strand_member_started,
                                                 .left = strand_member_left,
                                                 .stopping = strand_member_stopping};

static void *start(struct server *server)
{
    return strand_group_open(&clients, server, &group_verbs) ? &clients : NULL;
}

static void forget(struct car *car)
{
    while (car->sightings != NULL) {
        struct sighting *seen = car->sightings;
        car->sightings = seen->next;
        free(seen);
    }
    while (car->days != NULL) {
        struct day *day = car->days;
        car->days = day->next;
        free(day);
    }
    free(car);
}

static void finish(void *data)
{
    (void)data;
    for (size_t i = 0; i < CARS; i++) {
        while (cars[i] != NULL) {
            struct car *car = cars[i];
            cars[i] = car->next;
            forget(car);
        }
    }
    while (tickets != NULL) {
        struct ticket *ticket = tickets;
        tickets = ticket->next;
        free(ticket);
    }
}

/* A camera may see no car for a day. */
static const char *const defaults[] = {"--idle-timeout", "0", NULL};

const struct application speed_application = {
    .name = "speed",
    .needs = OFFERS_STRANDS | OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_TIMERS,
    .defaults = defaults,
    .verbs = &verbs,
    .handler_size = sizeof(struct client),
    .max_message = 2 + 2 * ROADS_MAX,
    .start = start,
    .finish = finish,
};
