#include "common/server/end_reason.h"

const char *end_reason_text(enum end_reason reason)
{
    switch (reason) {
    case END_NONE: break;
    case END_PEER_CLOSED: return "the client has closed";
    case END_PEER_LOST: return "the connection was lost";
    case END_CLOSED: return "closed by the application";
    case END_TOO_LONG: return "a message was too long";
    case END_REFUSED: return "what it sent is no message";
    case END_IDLE: return "idle timeout";
    case END_REQUEST: return "request timeout";
    case END_PROGRESS: return "progress timeout";
    case END_LIFETIME: return "lifetime";
    case END_CAP: return "too much output waited";
    case END_SERVER: return "the server stops";
    case END_RESOURCES: return "no memory or no thread";
    }
    return "it has not ended";
}
