/*
 * What a file's name says about its content.
 */
#ifndef COMMON_APPS_HTTP_TYPES_H
#define COMMON_APPS_HTTP_TYPES_H

/** The content type for a name, by what stands behind its last dot. Any thread. */
const char *http_type_of(const char *name);

#endif
