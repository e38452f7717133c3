# A lab: stage @NUMBER@, built by you, out of @PREVIOUS@.
#
#   make             build `server` from all sources here, against common/ of the repository
#   make test        grade it; CRITERION_TEST_PATTERN='suite/test' chooses tests
#   make changes     what you have changed since the beginning
#   make solution    how your sources differ from those of @STAGE@
#
# SANITIZER=address, undefined or thread finds what tests do not. This file is yours too: a server in
# another language needs another one, and is graded all the same.

TOP      := @TOP@
BUILD    ?= build
CFLAGS   ?= -O2 -g
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
SANITIZE := $(SANITIZER:%=-fsanitize=% -fno-omit-frame-pointer)
LIBRARY  := $(BUILD)$(SANITIZER:%=/%)/libcommon.a
THERE     = $(MAKE) --no-print-directory -C $(TOP) BUILD=$(BUILD) SANITIZER=$(SANITIZER)

.PHONY: server test changes solution
server:
	@$(THERE) $(LIBRARY)
	$(CC) -std=c11 -D_GNU_SOURCE -I. -I$(TOP) $(WARNINGS) $(CFLAGS) $(SANITIZE) -pthread \
	    -o $@ *.c $(abspath $(if $(filter /%,$(BUILD)),,$(TOP)/)$(LIBRARY)) @LIBRARIES@

test: server
	@$(THERE) test-stage@NUMBER@ SERVER=$(CURDIR)/server

changes:
	@diff -ru --exclude=README.md --exclude=Makefile --exclude=server $(TOP)/@PREVIOUS@ . || true

solution:
	@diff -ru --exclude=README.md --exclude=Makefile --exclude=server . $(TOP)/@STAGE@ || true
