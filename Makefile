# Builds, runs, tests and documents the five stages. `make help` lists what you may ask for.
#
# One make reads all of it, nothing calls itself. A stage is a folder stage1-* to stage5-* with a
# main.c: what holds for one holds for all, so a new stage needs no edit here, and neither does a
# new file in common/, in a stage or in tests/, unless it is for one system only (PLATFORM).
# Everything that is built goes below build/:
#
#   build/stage2-single-reactor   the servers
#   build/libcommon.a             what no stage changes
#   build/tests/conformance ...   the tests
#   build/obj/                    objects, in folders like those of their sources
#   build/obj-points/             the same with test points, for the tests of stages
#   build/faults/                 the servers once more, with calls that tests can have fail
#   build/address/ ...            the same once more for each SANITIZER
#   build/site/                   the documents
#
# This file builds and runs. What is asked for less often is in tests/steps.mk, tests/tests.mk,
# tests/bench/bench.mk and docs/docs.mk. A line that starts with two # and a name is what `make help`
# prints; with three, only `make help-all` does.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
# Scripts compare what they have put into lower case and sorted, which differs from language to
# language: a Turkish lower-case I has no dot.
export LC_ALL := C
# A compiler for each processor, unless -j says how many. A make that another one calls shares its -j.
ifeq ($(filter -j%,$(MAKEFLAGS))$(filter-out 0,$(MAKELEVEL)),)
MAKEFLAGS += -j$(shell getconf _NPROCESSORS_ONLN)
endif
ifneq ($(filter clean,$(MAKECMDGOALS)),)
.NOTPARALLEL: # `make clean all` cleans first
endif

# ---- what can be asked for ---------------------------------------------------------------------

STAGES  := $(patsubst %/main.c,%,$(wildcard stage[1-5]-*/main.c))
NUMBERS := $(foreach s,$(STAGES),$(patsubst stage%,%,$(firstword $(subst -, ,$s))))

# $(call stage,2) is stage2-single-reactor; nothing where there is no such stage.
stage = $(filter stage$1-%,$(STAGES))

# Refuses a number that is no stage's: $(call check_stage,NAME OF THE VARIABLE).
check_stage = $(if $($1),$(if $(call stage,$($1)),,$(error \
    $1=$($1): no such stage; there are: $(or $(NUMBERS),none yet))))
$(call check_stage,STAGE)
$(if $(findstring .,$(FROM)),,$(call check_stage,FROM))
$(if $(findstring .,$(TO)),,$(call check_stage,TO))

SANITIZERS := address undefined thread address,undefined
ifneq ($(SANITIZER),)
ifeq ($(filter $(SANITIZERS),$(SANITIZER)),)
$(error SANITIZER=$(SANITIZER): not one of $(SANITIZERS))
endif
endif

BUILD := build
ifneq ($(words $(filter-out . ./ .. ../ /,$(BUILD))) of $(words $(BUILD)),1 of 1)
$(error BUILD=$(BUILD): not a folder that can be used for products only)
endif
OUT := $(BUILD)$(SANITIZER:%=/%)

# The newest version in the change log is ours: "## 1.1 (2026-11-23)".
VERSION_LINE := $(shell sed -n 's/^\#\# \([0-9.]*\) (\([0-9-]*\))$$/\1 \2/p' docs/changelog.md | head -n 1)
VERSION      := $(firstword $(VERSION_LINE))
VERSION_DATE := $(lastword $(VERSION_LINE))

# ---- compiler ----------------------------------------------------------------------------------

# CFLAGS is the user's to replace; what the sources depend on stays.
CFLAGS   ?= $(if $(SANITIZER),-O1,-O2) -g
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
            -Wmissing-prototypes -Werror
DEFINES  := -D_GNU_SOURCE -DCOURSE_VERSION=$(VERSION) $(if $(filter 1,$(NDEBUG)),-DNDEBUG)
# What the compiler says of itself: the bytes of a long, and __clang__ still by that name if it is another one.
COMPILER := $(shell echo __SIZEOF_LONG__ __clang__ | $(CC) $(CFLAGS) $(CPPFLAGS) -E -P -x c - 2>/dev/null)
# Where a long has 32 bits, files of more than 2 GiB, and times after 2038, have to be asked for.
DEFINES  += $(if $(filter 4,$(firstword $(COMPILER))),-D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 -Wno-psabi)
# A report needs lines, and no variables, for which gcc would take a third longer.
SANITIZE := $(SANITIZER:%=-fsanitize=% -fno-sanitize-recover=all -fno-omit-frame-pointer \
            $(if $(filter __clang__,$(COMPILER)),-fno-var-tracking))
LANGUAGE := -std=c11 $(DEFINES) -I.

# ADDED is an application's own; a CPPFLAGS of the user's would take the place of one that is its own.
COMPILE   = $(CC) $(LANGUAGE) $(ADDED) $(WARNINGS) -pthread $(CPPFLAGS) $(CFLAGS) $(SANITIZE) -MMD -MP
# Names are resolved when a program starts. At their first call the linker would save the vector
# registers on the stack, and with them a password that has just been copied. UBSan describes each place that
# it checks with pointers: where addresses are not known before, every start would write all of them.
LINK      = $(CC) $(CFLAGS) $(SANITIZE) $(if $(findstring undefined,$(SANITIZER)),-no-pie) \
            $(if $(filter thread,$(SANITIZER)),tests/tsan_signals.c) -pthread -Wl,-z,now $(LDFLAGS)

# Libraries of the system: LIBRARIES_stage4 for stage 4 and its tests, LIBRARIES_chat would be for the
# suite chat. The applications ask crypt(3) about passwords; CRYPT=none builds them without it, where
# the header or the library is missing, as in Debian for musl-gcc and gcc -m32.
CRYPT := crypt
ifeq ($(filter crypt none,$(CRYPT)),)
$(error CRYPT=$(CRYPT): not one of crypt, none)
endif
LIBRARIES_stage1 := $(if $(filter crypt,$(CRYPT)),-lcrypt)
LIBRARIES_stage2 := $(LIBRARIES_stage1)
LIBRARIES_stage3 := $(LIBRARIES_stage1)
LIBRARIES_stage4 := $(LIBRARIES_stage1)
LIBRARIES_stage5 := $(LIBRARIES_stage1)
LIBRARIES_pop3   := -lcrypt
LIBRARIES_common := $(LIBRARIES_stage1)
libraries = $(LIBRARIES_$(firstword $(subst -, ,$1))) $(LDLIBS)

# Where a kernel randomises many bits of the addresses, sanitized programs do not always start.
FIXED := $(if $(SANITIZER),$(shell setarch -R true 2>/dev/null && echo setarch -R))

# Short lines that tell what is being made; V=1 shows the commands instead.
Q   := $(if $(filter 1,$(V)),,@)
say  = $(if $(filter 1,$(V)),@:,@printf '  %-7s %s\n') $1 $(patsubst $(BUILD)/%,%,$2)

# ---- sources and objects -----------------------------------------------------------------------

# $(call objects,FOLDER) are the objects of the sources in one folder.
objects = $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard $1/*.c))

# Linux has epoll(7) and sendfile(2); any other system of POSIX has to do with poll(2) and read(2).
# PLATFORM=posix builds that variant on Linux too. We choose files instead of writing #ifdefs in them.
PLATFORM := $(if $(filter Linux,$(shell uname -s)),linux,posix)
SELECTORS_linux := events/selector_epoll events/selector_providers_linux
SELECTORS_posix := events/selector_providers_posix
SENDER_linux := bytes/file_sender_linux
SENDER_posix := bytes/file_sender_posix
LISTEN_linux := apps/application_listen
HASHES := apps/pop3/pop3_hash_
ELSEWHERE := $(filter-out $(SELECTORS_$(PLATFORM)) $(SENDER_$(PLATFORM)) $(LISTEN_$(PLATFORM)) $(HASHES)$(CRYPT), \
    $(SELECTORS_linux) $(SELECTORS_posix) $(SENDER_linux) $(SENDER_posix) $(LISTEN_linux) \
    $(HASHES)crypt $(HASHES)none)

# $(call with_points,OBJECTS) are the same with the points at which a test can hold a thread
# (common/base/test_point.h). Only the suites of stages link them; servers never do. Most sources have no
# such point, so that their objects are the same.
POINTED := $(patsubst %.c,$(OUT)/obj/%.o,$(shell grep -ls TEST_POINT common/*/*.c common/apps/*/*.c \
    $(STAGES:%=%/*.c)))
with_points = $(foreach o,$1,$(if $(filter $o,$(POINTED)),$(o:$(OUT)/obj/%=$(OUT)/obj-points/%),$o))

LIBRARY := $(OUT)/libcommon.a
LIBRARY_WITH_POINTS := $(OUT)/libcommon-points.a
# The rooms of common/, and of the applications in it.
ROOMS := $(sort $(patsubst %/,%,$(dir $(wildcard common/*/*.c common/apps/*/*.c))))
COMMON_OBJECTS := $(filter-out $(ELSEWHERE:%=$(OUT)/obj/common/%.o), \
    $(foreach room,$(ROOMS),$(call objects,$(room))))

# A stage's main.c names the applications that it serves. APP names the file of one more, or the folder of
# its files, which may be anywhere: its NAME_application becomes application_added, which those tables end
# with (common/apps/application_choice.h).
APP_FOLDER := $(patsubst %/.,%,$(wildcard $(patsubst %/,%,$(APP))/.))
APP_FILES  := $(if $(APP_FOLDER),$(sort $(wildcard $(APP_FOLDER)/*.c)),$(filter %.c,$(wildcard $(APP))))
APP_NAME   := $(basename $(notdir $(or $(APP_FOLDER),$(APP))))
ifneq ($(strip $(APP)),)
ifeq ($(and $(APP_FILES),$(filter 1,$(words $(APP)))),)
$(error APP=$(APP): expected the C file of an application, or a folder with C files, and there is no such file)
endif
ifneq ($(wildcard common/apps/$(APP_NAME)/$(APP_NAME).c),)
$(error APP=$(APP): there is an application $(APP_NAME) already, so this file needs another name)
endif
ifneq ($(shell echo '$(APP_NAME)' | grep -c '^[a-z][a-z0-9_]*$$'),1)
$(error APP=$(APP): expected a name of small letters, digits and _, because it names $(APP_NAME)_application)
endif
endif

# Its objects stand in obj/ by their whole paths. It is not our code, so a warning is no error.
APP_SOURCES := $(patsubst /%,%,$(abspath $(APP_FILES)))
APP_OBJECTS := $(APP_SOURCES:%.c=$(OUT)/obj/%.o)
$(APP_OBJECTS): private ADDED := -D$(APP_NAME)_application=application_added
$(APP_OBJECTS): private WARNINGS := $(filter-out -Werror,$(WARNINGS))
$(foreach s,$(APP_SOURCES),$(eval vpath $s /))
source = $(patsubst //%,/%,$<)
# The tables leave out what is not there, so a name that differs would go unnoticed.
find_added = $(if $(APP_OBJECTS),nm -g $(APP_OBJECTS) | grep -q ' [B-TV-Z] application_added$$' || \
    { echo 'APP=$(APP): expected a $(APP_NAME)_application that is not static in it and found none' >&2; exit 2; })

## all: build every stage; this is the default
.PHONY: all
all: $(STAGES:%=$(OUT)/%)

# What is linked depends on the folders of its sources too, or else it would keep a source that goes
# away, and on this file. The second expansion lets a list depend on the stem ($$*).
.SECONDEXPANSION:

$(STAGES:%=$(OUT)/%): $(OUT)/%: $$(call objects,$$*) $(APP_OBJECTS) $(OUT)/app $(LIBRARY) % Makefile
	$(Q)$(find_added)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $(filter %.o %.a,$^) $(call libraries,$*)

# A stage without its main(), for a server with another one (docs/own_main.md): build/libstage5.a.
without_main = $(filter-out %/main.o,$(call objects,$(call stage,$1)))
STAGE_LIBRARIES := $(NUMBERS:%=$(OUT)/libstage%.a)

$(STAGE_LIBRARIES): $(OUT)/libstage%.a: $$(call without_main,$$*) $$(call stage,$$*) Makefile
$(LIBRARY): $(COMMON_OBJECTS)
$(LIBRARY_WITH_POINTS): $(call with_points,$(COMMON_OBJECTS))
$(LIBRARY) $(LIBRARY_WITH_POINTS): common $(ROOMS) Makefile
$(LIBRARY) $(LIBRARY_WITH_POINTS) $(STAGE_LIBRARIES):
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$(OUT)/obj/%.o: %.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$(source))
	$(Q)$(COMPILE) -c -o $@ $(source)

$(OUT)/obj-points/%.o: %.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(COMPILE) -DTEST_POINTS -c -o $@ $(source)

# Change only when the commands, or APP, do, so that `make CC=clang` after `make` mixes nothing.
$(OUT)/flags: CONTENT = $(COMPILE) / $(LINK) $(LDLIBS)
$(OUT)/app: CONTENT = $(abspath $(APP_FILES))
$(OUT)/flags $(OUT)/app: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(CONTENT))' >$@.$$$$; \
	cmp -s $@.$$$$ $@ && rm $@.$$$$ || mv $@.$$$$ $@

.PHONY: FORCE
FORCE:

# Headers, as the compiler saw them.
-include $(wildcard $(OUT)/obj*/*.d $(OUT)/obj*/*/*.d $(OUT)/obj*/*/*/*.d $(OUT)/obj*/*/*/*/*.d)
-include $(APP_OBJECTS:.o=.d)

include tests/steps.mk tests/tests.mk tests/bench/bench.mk docs/docs.mk

# Goals that run tests do so one after the other, in the order in which they were named.
earlier :=
$(foreach goal,$(filter-out test-build test-all-build test-tools,$(filter test test-% soak,$(MAKECMDGOALS))), \
    $(if $(filter-out $(goal),$(earlier)),$(eval $(goal): | $(earlier)))$(eval earlier := $(goal)))

# ---- running and reading -----------------------------------------------------------------------

## run [STAGE=N or STEP=N.M] [ARGS="..."]: run a server, that of the last stage if none is named
.PHONY: run
RUN := $(if $(STEP),$(call step_program,$(STEP)),$(addprefix $(OUT)/,$(call stage,$(or \
    $(STAGE),$(lastword $(NUMBERS))))))
run: $(RUN)
	$(if $(RUN),,$(error there is no stage yet))@exec tests/steps.sh run $(FIXED) $< $(ARGS)

## diff FROM=N TO=N: what changes from one stage or step to another
.PHONY: diff
diff:
	$(if $(and $(FROM),$(TO)),,$(error diff: say between which stages: make diff FROM=1 TO=2))
	@$(if $(findstring .,$(FROM)$(TO)),tests/steps.sh diff $(FROM) $(TO),docs/stage_diff.sh \
	    $(call stage,$(FROM)) $(call stage,$(TO)))

### clean: remove everything that was built
.PHONY: clean
clean:
	rm -rf $(BUILD)

# $(call list,MARKS): the targets whose lines begin with one of these marks, each with what it does.
comma := ,
list = sed -n 's/^$1 \([a-z][^:]*\): /\1\t/p' $(filter Makefile %.mk,$(MAKEFILE_LIST)) | \
    awk -F '\t' '{ printf "  make %-33s %s\n", $$1, $$2 }'

### help: the targets of every day
.PHONY: help
help:
	@$(call list,##)

## help-all: all targets, and what can be said with each of them
.PHONY: help-all
help-all:
	@$(call list,###\{0$(comma)1\})
	@echo 'With each of them: V=1 (whole commands), CC=clang, CFLAGS=..., NDEBUG=1,'
	@echo 'SANITIZER=address|undefined|thread|address,undefined (in a folder of its own), BUILD=folder,'
	@echo 'APP=path/to/mine.c, or a folder mine (one more application, for --app mine).'
