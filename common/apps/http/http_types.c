#include "common/apps/http/http_types.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const struct type {
    const char *ending;
    const char *type;
} types[] = {
    {"html", "text/html; charset=utf-8"},
    {"css", "text/css; charset=utf-8"},
    {"js", "text/javascript; charset=utf-8"},
    {"svg", "image/svg+xml"},
    {"png", "image/png"},
    {"htm", "text/html; charset=utf-8"},
    {"txt", "text/plain; charset=utf-8"},
    {"md", "text/markdown; charset=utf-8"},
    {"csv", "text/csv; charset=utf-8"},
    {"xml", "application/xml"},
    {"json", "application/json"},
    {"mjs", "text/javascript; charset=utf-8"},
    {"wasm", "application/wasm"},
    {"pdf", "application/pdf"},
    {"gif", "image/gif"},
    {"jpg", "image/jpeg"},
    {"jpeg", "image/jpeg"},
    {"webp", "image/webp"},
    {"ico", "image/vnd.microsoft.icon"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"webm", "video/webm"},
    {"gz", "application/gzip"},
    {"zip", "application/zip"},
    {"tar", "application/x-tar"},
};

const char *http_type_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof(types) / sizeof(types[0]); i++)
        if (strcasecmp(dot + 1, types[i].ending) == 0)
            return types[i].type;
    return "application/octet-stream";
}
