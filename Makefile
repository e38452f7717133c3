# Builds, runs, tests and documents the five stages. `make help` lists what there is to ask for.
#
# One make reads all of it, nothing calls itself. A stage is a folder stage1-* to stage5-* with a
# main.c: what holds for one holds for all, so a new stage needs no edit here, and neither does a
# new file in common/, in a stage or in tests/. Everything that is built goes below build/:
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
# A line that starts with two # and a name is what `make help` prints.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
ifneq ($(filter clean,$(MAKECMDGOALS)),)
.NOTPARALLEL: # `make -j clean all` cleans first
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
$(call check_stage,FROM)
$(call check_stage,TO)

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

# ---- compiler ----------------------------------------------------------------------------------

# CFLAGS is the user's to replace; what the sources depend on stays.
CFLAGS   ?= $(if $(SANITIZER),-O1,-O2) -g
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
            -Wmissing-prototypes -Werror
SANITIZE := $(SANITIZER:%=-fsanitize=% -fno-sanitize-recover=all -fno-omit-frame-pointer)
DEFINES  := -D_GNU_SOURCE $(if $(filter 1,$(NDEBUG)),-DNDEBUG)
LANGUAGE := -std=c11 $(DEFINES) -I.

COMPILE   = $(CC) $(LANGUAGE) $(WARNINGS) -pthread $(CPPFLAGS) $(CFLAGS) $(SANITIZE) -MMD -MP
LINK      = $(CC) $(CFLAGS) $(SANITIZE) -pthread $(LDFLAGS)

# Libraries of the system: LIBRARIES_stage4 for stage 4 and its tests, LIBRARIES_chat would be for the
# suite chat. The applications ask crypt(3) about passwords.
LIBRARIES_stage4 := -lcrypt
LIBRARIES_stage5 := -lcrypt
LIBRARIES_pop3   := -lcrypt
libraries = $(LIBRARIES_$(firstword $(subst -, ,$1))) $(LDLIBS)

# Where a kernel randomises many bits of the addresses, sanitized programs do not always start.
FIXED := $(if $(SANITIZER),$(shell setarch -R true 2>/dev/null && echo setarch -R))

# Short lines that tell what is being made; V=1 shows the commands instead.
Q   := $(if $(filter 1,$(V)),,@)
say  = $(if $(filter 1,$(V)),@:,@printf '  %-7s %s\n') $1 $(patsubst $(BUILD)/%,%,$2)

# ---- sources and objects -----------------------------------------------------------------------

# $(call objects,FOLDER) are the objects of the sources in one folder.
objects = $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard $1/*.c))

# Selectors differ from system to system, and how files are sent. A file is chosen instead of #ifdefs
# in all of them.
PLATFORM := $(patsubst Linux,linux,$(patsubst %BSD,bsd,$(patsubst Darwin,bsd,$(shell uname -s))))
PLATFORM := $(if $(filter linux bsd,$(PLATFORM)),$(PLATFORM),posix)
SELECTORS_linux := selector_epoll selector_providers_linux
SELECTORS_bsd   := selector_kqueue selector_providers_bsd
SELECTORS_posix := selector_providers_posix
SENDER_linux := file_sender_linux
SENDER_bsd   := file_sender_posix
SENDER_posix := file_sender_posix
ELSEWHERE := $(filter-out $(SELECTORS_$(PLATFORM)) $(SENDER_$(PLATFORM)), \
    $(SELECTORS_linux) $(SELECTORS_bsd) $(SELECTORS_posix) $(SENDER_linux) $(SENDER_posix))

# $(call with_points,OBJECTS) are the same with the points at which a test can hold a thread
# (common/test_point.h). Only the suites of stages link them; servers never do.
with_points = $(patsubst $(OUT)/obj/%,$(OUT)/obj-points/%,$1)

LIBRARY := $(OUT)/libcommon.a
LIBRARY_WITH_POINTS := $(OUT)/libcommon-points.a
LIBRARY_OBJECTS := $(filter-out $(ELSEWHERE:%=$(OUT)/obj/common/%.o), \
    $(call objects,common) $(call objects,common/apps))

## all: build every stage; this is the default
.PHONY: all
all: $(STAGES:%=$(OUT)/%)

# What is linked depends on the folders of its sources too, or else it would keep a source that goes
# away, and on this file. The second expansion lets a list depend on the stem ($$*).
.SECONDEXPANSION:

$(STAGES:%=$(OUT)/%): $(OUT)/%: $$(call objects,$$*) $(LIBRARY) % Makefile
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $(filter %.o %.a,$^) $(call libraries,$*)

$(LIBRARY): $(LIBRARY_OBJECTS)
$(LIBRARY_WITH_POINTS): $(call with_points,$(LIBRARY_OBJECTS))
$(LIBRARY) $(LIBRARY_WITH_POINTS): common $(wildcard common/apps) Makefile
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$(OUT)/obj/%.o: %.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -c -o $@ $<

$(OUT)/obj-points/%.o: %.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(COMPILE) -DTEST_POINTS -c -o $@ $<

# Changes only when the commands do, so that `make CC=clang` after `make` mixes nothing.
$(OUT)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(COMPILE) / $(LINK) $(LDLIBS))' >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

.PHONY: FORCE
FORCE:

# Headers, as the compiler saw them.
-include $(wildcard $(OUT)/obj*/*/*.d $(OUT)/obj*/*/*/*.d)

## run [STAGE=N] [ARGS="..."]: run the server of a stage, of the last one if none is named
.PHONY: run
RUN := $(call stage,$(or $(STAGE),$(lastword $(NUMBERS))))
run: $(RUN:%=$(OUT)/%)
	$(if $(RUN),,$(error there is no stage yet))@exec $(FIXED) $< $(ARGS)

# ---- tests -------------------------------------------------------------------------------------

# Criterion is asked for only here, so that servers build and run without it. The answers are kept
# in files that the compiler reads with @, because they are not there before it is installed.
CRITERION := $(OUT)/criterion.cflags
NEED_CRITERION := tests/need.sh Criterion 'pkg-config --exists criterion' libcriterion-dev pkg-config

$(CRITERION):
	@$(NEED_CRITERION)
	@mkdir -p $(@D)
	@pkg-config --libs criterion >$(@:.cflags=.libs)
	@pkg-config --cflags criterion >$@

# A stage's own tests may include its headers by their bare names, as the stage does, and call all
# of its functions but main(): Criterion brings one, and with another one no test would run.
tested_stage = $(call stage,$(patsubst stage%,%,$(firstword $(subst /, ,$1))))
tested_objects = $(call with_points,$(filter-out %/main.o,$(call objects,$(call tested_stage,$1))))

$(OUT)/obj/tests/%.o: tests/%.c $(OUT)/flags | $(CRITERION)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -Itests $(addprefix -I,$(call tested_stage,$*)) @$(CRITERION) -c -o $@ $<

# The provider for kqueue(2) is tested on Linux too, on top of an imitation with its own header.
$(OUT)/obj/tests/common/kqueue_on_poll.o: private override CPPFLAGS += -Itests/common/fake_kqueue

TEST_OBJECTS := $(call objects,tests/support) \
    $(if $(filter thread,$(SANITIZER)),$(OUT)/obj/tests/tsan_arena.o)
LINK_TEST = $(LINK) -o $@ $(filter %.o %.a,$^) @$(CRITERION:.cflags=.libs) \
    $(call libraries,$*)

APP_SUITES   := chat pop3 http
SUITES       := $(foreach s,common conformance soak $(APP_SUITES),$(if $(wildcard tests/$s/*.c),$s))
STAGE_SUITES := $(foreach n,$(NUMBERS),$(if $(wildcard tests/stage$n/*.c),stage$n))

$(SUITES:%=$(OUT)/tests/%): $(OUT)/tests/%: $$(call objects,tests/$$*) $(TEST_OBJECTS) \
    $(LIBRARY) tests/% $(wildcard tests/support) Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK_TEST)

# What those suites share that look inside the framework of stages 4 and 5.
inside = $(if $(filter stage4 stage5,$1),$(call objects,tests/inside))

$(STAGE_SUITES:%=$(OUT)/tests/%): $(OUT)/tests/%: $$(call objects,tests/$$*) $(TEST_OBJECTS) \
    $$(call inside,$$*) $$(call tested_objects,$$*) $(LIBRARY_WITH_POINTS) tests/% \
    $(wildcard tests/inside tests/support) Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK_TEST)

# The part of a stage's suite that grades any server, linked without anything of the stage.
graded_objects = $(patsubst %.c,$(OUT)/obj/%.o,$(shell tests/black_box.sh tests/$1))
GRADED := $(foreach s,$(STAGE_SUITES),$(if $(shell tests/black_box.sh tests/$s),$s-graded))

$(GRADED:%=$(OUT)/tests/%): $(OUT)/tests/%-graded: $$(call graded_objects,$$*) $(TEST_OBJECTS) \
    $(LIBRARY) tests/% $(wildcard tests/support) tests/black_box.sh Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK_TEST)

$(OUT)/tests/faulty-server: $(OUT)/obj/tests/faulty/faulty_server.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(LDLIBS)

# Servers whose calls can fail (tests/faults/shim.c): the same objects, linked in another way. The
# names that are wrapped are those of the shim's WRAP lines.
FAULT_SERVERS := $(if $(wildcard tests/faults/shim.c),$(STAGES:%=$(OUT)/faults/%))
WRAPPED := $(shell sed -n 's/^WRAP.[^,]*, \([a-z0-9_]*\),.*/\1/p' tests/faults/shim.c 2>/dev/null)

$(FAULT_SERVERS): $(OUT)/faults/%: $$(call objects,$$*) $(OUT)/obj/tests/faults/shim.o \
    $(LIBRARY) % Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) $(WRAPPED:%=-Wl,--wrap=%) -o $@ $(filter %.o %.a,$^) $(call libraries,$*)

FAULT_OBJECTS := $(filter-out %/shim.o,$(call objects,tests/faults))
$(OUT)/tests/faults: $(FAULT_OBJECTS) $(TEST_OBJECTS) tests/faults $(wildcard tests/support) Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK_TEST)

# Each suite is NAME=COMMAND for tests/run.sh. The suites of `make test` are run by one command,
# one after the other: some tests measure time and want the machine for themselves.
GATE = SANITIZER=$(SANITIZER) tests/gate.sh

run_common = $(if $(filter common,$(SUITES)),'common=$(GATE) $(OUT)/tests/common')

# What a stage goes through: what every server answers to, the applications where it has some, and what
# this stage promises.
WITH_APPS := 4 5
black_box = $(filter conformance soak $(if $(filter $1,$(WITH_APPS)),$(APP_SUITES)),$(SUITES))
suites_of = $(call black_box,$1) $(filter stage$1$(if $(SERVER),-graded),$(STAGE_SUITES) $(GRADED))

# Another server is graded by the tests that need nothing but the program, and not by those that show
# a weakness of the stage or what goes wrong without its guard.
export GRADED_TESTS := !(*/cannot_yet_*|*/lesson_*|*_without_the_guard_*)
PATTERN = $(if $(SERVER),CRITERION_TEST_PATTERN="$${CRITERION_TEST_PATTERN:-$$GRADED_TESTS}")

# $(call run_stage,N): all of that, one after the other.
run_stage = $(foreach s,$(call suites_of,$1), \
    'stage$1$(if $(filter $s,$(SUITES)), $s)=SERVER="$(call server,$1)" $(PATTERN) $(GATE) \
    $(OUT)/tests/$s')
server = $(or $(SERVER),$(OUT)/$(call stage,$1))
need_stage = $(if $(SERVER),,$(OUT)/$(call stage,$1)) \
    $(addprefix $(OUT)/tests/,$(call suites_of,$1))

need_faulty := $(if $(wildcard tests/faulty/faulty_server.c),$(OUT)/tests/faulty-server \
    $(SUITES:%=$(OUT)/tests/%))
run_faulty = $(if $(need_faulty),'faulty=FAULTY_SERVER=$(OUT)/tests/faulty-server \
    CONFORMANCE=$(OUT)/tests/conformance tests/faulty/run.sh')

need_faults := $(if $(FAULT_SERVERS),$(FAULT_SERVERS) $(OUT)/tests/faults)
run_faults = $(if $(need_faults),$(foreach n,$(NUMBERS),\
    'stage$n faults=$1 SERVER=$(OUT)/faults/$(call stage,$n) $(GATE) $(OUT)/tests/faults'))

run_cases = 'cases=tests/cases.sh'

run_docs = $(if $(wildcard README.md),'documents=BUILD=$(BUILD) tests/docs.sh')

run_makefile = 'makefile=tests/makefile.sh'

run_threads = $(if $(wildcard docs/threads.md),'threads=tests/threads_table.sh')

# Without spin, and where it cannot be installed, this suite is skipped.
run_model = $(if $(wildcard docs/model/*.pml),'model=tests/need.sh spin \
    "command -v spin && command -v gcc" spin gcc; tests/model.sh')

ifneq ($(SERVER),)
ifeq ($(wildcard $(SERVER)),)
$(error SERVER=$(SERVER): no such program)
endif
ifneq ($(filter test,$(MAKECMDGOALS)),)
$(error SERVER= is for one stage: make test-stageN SERVER=$(SERVER))
endif
endif

## test: build and run all tests; installs Criterion if it is missing
.PHONY: test
test: all test-build
	@tests/run.sh $(run_common) $(foreach n,$(NUMBERS),$(call run_stage,$n)) \
	    $(call run_faults,FAULTS=few) \
	    $(if $(SANITIZER),,$(run_faulty) $(run_cases) $(run_docs) $(run_makefile) $(run_threads))

## test-common: run the tests of common/
.PHONY: test-common
test-common: $(addprefix $(OUT)/tests/,$(filter common,$(SUITES)))
	@tests/run.sh $(run_common)

## test-stageN [SERVER=path]: run the tests of stage N, against another server if one is named
STAGE_TESTS := $(NUMBERS:%=test-stage%)
.PHONY: $(STAGE_TESTS)
$(STAGE_TESTS): test-stage%: $$(call need_stage,$$*)
	@tests/run.sh $(call run_stage,$*)

## test-faulty: show that the tests catch each fault of a faulty server
.PHONY: test-faulty
test-faulty: $(need_faulty)
	@tests/run.sh $(run_faulty)

## test-faults: have each call that servers make fail, one after the other and by chance
.PHONY: test-faults
test-faults: $(need_faults)
	@tests/run.sh $(call run_faults,FAULTS=all BUDGET=600)

## soak [MINUTES=N] [STAGE=N]: all kinds of clients for so long (10); 100,000 that come and go
.PHONY: soak
SOAKED := $(or $(STAGE),$(NUMBERS))
SOAK_SECONDS = $(or $(SECONDS),$(shell expr 60 '*' $(or $(MINUTES),10)))
soak: $(OUT)/tests/soak $(foreach n,$(SOAKED),$(OUT)/$(call stage,$n))
	@tests/run.sh $(foreach n,$(SOAKED),'stage$n soak=SERVER=$(OUT)/$(call stage,$n) \
	    SOAK_CONNECTIONS=100000 SOAK_IDLE=10000 SOAK_SECONDS=$(SOAK_SECONDS) \
	    CRITERION_JOBS=1 BUDGET=$(shell expr $(SOAK_SECONDS) + 1200) $(GATE) $<')

## test-cases: show that each of the forty cases has its tests, and which they are
.PHONY: test-cases
test-cases:
	@tests/cases.sh --list
	@tests/run.sh $(run_cases)

## withstands: run every test of the forty cases for every stage, and write docs/withstands.md's table
.PHONY: withstands
withstands: all test-build $$(PEERS) $$(filter %/raw_epoll %/raw_threads,$$(BENCH_TOOLS))
	@OUT=$(OUT) tests/withstands.sh $(STAGES)

## coverage: which lines of the servers no test has run; builds and runs everything once more
.PHONY: coverage
coverage:
	@tests/need.sh gcov 'command -v gcov' gcc
	@tests/coverage.sh $(BUILD)/coverage test-common $(STAGE_TESTS) test-faults

## test-memcheck [MEMCHECK="suites"]: run the tests of common/, or some suites, under valgrind
.PHONY: test-memcheck
test-memcheck: $(addprefix $(OUT)/tests/,$(filter common,$(SUITES)))
	@tests/need.sh valgrind 'command -v valgrind' valgrind
	@tests/run.sh $(if $^,'memcheck=tests/vggate.sh memcheck $< $(MEMCHECK)')

## test-lab [STAGE=N]: go through the labs with the solutions that are there
.PHONY: test-lab
test-lab: $(addprefix $(OUT)/tests/,$(filter-out common,$(SUITES)) $(GRADED)) all
	@tests/run.sh 'labs=BUILD=$(BUILD) tests/lab.sh $(STAGE)'

## test-exercise STAGE=N [SIZE=small] [SERVER=path]: test what you have made of an exercise
.PHONY: test-exercise
EXERCISES := $(if $(wildcard tests/exercises/*.c),$(OUT)/tests/exercises)
$(EXERCISES): $(OUT)/tests/%: $$(call objects,tests/$$*) $(TEST_OBJECTS) $(LIBRARY) tests/% Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK_TEST)
test-exercise: $(EXERCISES) $(if $(SERVER),,$(OUT)/$(call stage,$(STAGE)))
	$(if $(STAGE),,$(error test-exercise: say which: make test-exercise STAGE=2 SIZE=small))@ \
	    CRITERION_TEST_PATTERN='exercise_stage$(STAGE)/$(SIZE)*' \
	    tests/run.sh 'exercise=SERVER="$(call server,$(STAGE))" $(GATE) $(EXERCISES)'

## test-exercises: show that each of their tests fails before, and passes with a solution
.PHONY: test-exercises
test-exercises: $(EXERCISES) all
	@tests/run.sh 'exercises=BUILD=$(BUILD) tests/exercises/run.sh'

## test-trace: check what each stage records of itself (--trace) under a load
run_trace = 'trace=BUILD=$(OUT) tests/trace_test.sh $(STAGES:%=$(OUT)/%)' \
    'scenes=$(foreach n,$(NUMBERS),$(call play,$n) &&) tests/trace_check.py $(OUT)/trace/*.json' \
    'page=$(foreach n,1 4,$(call play,$n) && tests/trace/page_test.sh $(OUT)/trace/stage$n.json &&) :'
.PHONY: test-trace
test-trace: all $(OUT)/tests/load $$(SCENARIO)
	$(NEED_PYTHON)
	@tests/run.sh $(run_trace)

## test-traced [STAGE=N]: run the suites of all stages once more, and check what each server records
TRACED := $(or $(STAGE),$(NUMBERS))
traced = $(filter-out soak,$(call suites_of,$1))
run_traced = $(foreach n,$(TRACED),$(foreach s,$(call traced,$n),\
    'stage$n $s=SERVER=$(OUT)/$(call stage,$n) $(GATE) $(OUT)/tests/$s') \
    'stage$n traces=tests/trace_check.py $(OUT)/traces/*.json; s=$$?; \
    rm -f $(OUT)/traces/*.json; exit $$s')
.PHONY: test-traced
test-traced: export SERVER_OPTIONS = --trace $(OUT)/traces/%p.json
# A ring is a megabyte of addresses for each thread, which is more than that test allows.
test-traced: export CRITERION_TEST_PATTERN ?= !(*/two_thousand_clients_fit_in_memory)
test-traced: $(foreach n,$(TRACED),$(OUT)/$(call stage,$n) $(addprefix $(OUT)/tests/,$(call traced,$n)))
	$(NEED_PYTHON)
	@rm -rf $(OUT)/traces && mkdir -p $(OUT)/traces
	@tests/run.sh $(run_traced)

## test-docs: show that what the documents show is what happens
.PHONY: test-docs
test-docs: all test-build
	@tests/run.sh $(run_docs)

## test-threads: compare docs/threads.md, who may call what with which lock, with the sources
.PHONY: test-threads
test-threads:
	@tests/run.sh $(run_threads)

## test-model: check the model of stage 4 with spin; installs spin if it is missing
.PHONY: test-model
test-model:
	@tests/run.sh $(run_model)

## test-build: build all tests and run none
.PHONY: test-build
test-build: $(SUITES:%=$(OUT)/tests/%) $(STAGE_SUITES:%=$(OUT)/tests/%) $(need_faulty) \
    $(need_faults)

## test-makefile: test what this file promises
.PHONY: test-makefile
test-makefile:
	@tests/run.sh $(run_makefile)

# ---- labs --------------------------------------------------------------------------------------

## lab STAGE=N: lay out lab/stageN, in which to build stage N yourself, out of the one before it
.PHONY: lab
LAB := lab
lab:
	$(if $(STAGE),,$(error lab: say which stage: make lab STAGE=3))@docs/labs/lay_out.sh \
	    $(LAB)/stage$(STAGE) $(call stage,$(STAGE)) $(call stage,$(shell expr $(STAGE) - 1)) \
	    $(LIBRARIES_stage$(STAGE))

# ---- measuring ---------------------------------------------------------------------------------

# The load generator and the floors are C and nothing else. A peer is built where pkg-config knows
# its library: peer_libuv.c is linked to libuv. None of this is part of `make` or `make test-build`.
BENCH_TOOLS := $(addprefix $(OUT)/tests/,load raw_epoll raw_threads)
PEERS = $(foreach p,$(patsubst tests/bench/peer_%.c,%,$(wildcard tests/bench/peer_*.c)), \
    $(shell pkg-config --exists $p 2>/dev/null && echo $(OUT)/tests/peer_$p))

$(OUT)/obj/tests/bench/%.o: tests/bench/%.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -c -o $@ $<

$(OUT)/tests/load: $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard tests/bench/load*.c)) $(LIBRARY)
$(filter $(OUT)/tests/raw_%,$(BENCH_TOOLS)): $(OUT)/tests/%: $(OUT)/obj/tests/bench/%.o
$(BENCH_TOOLS): tests/bench Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $(filter %.o %.a,$^) $(LDLIBS)

$(OUT)/tests/peer_%: $(OUT)/obj/tests/bench/peer_%.o
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $< $$(pkg-config --libs $*) $(LDLIBS)

.SECONDARY: $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard tests/bench/peer_*.c))

NEED_PYTHON = @tests/need.sh 'Python 3' 'command -v python3' python3
BENCH = $(NEED_PYTHON) && python3 -B tests/bench/bench.py --build $(OUT)

## bench: measure every stage beside floors and peers; two minutes
.PHONY: bench
bench: all $(BENCH_TOOLS) $$(PEERS)
	$(BENCH) quick

## bench-full: measure more: crowds, slow messages, chat, http, system calls; a quarter of an hour
.PHONY: bench-full
bench-full: all $(BENCH_TOOLS) $$(PEERS)
	$(BENCH) full

## bench-table: write what was measured last into docs/measuring.md
.PHONY: bench-table
bench-table:
	$(BENCH) table

## demo: see how the stages differ under the same load; half a minute
.PHONY: demo
demo: all $(BENCH_TOOLS)
	$(NEED_PYTHON) && python3 -B tests/bench/demo.py --build $(OUT)

## test-bench: test the load generator
run_bench = $(if $(wildcard tests/bench/load.c),'bench=BUILD=$(OUT) tests/bench_test.sh')
need_bench := $(if $(wildcard tests/bench/load.c),$(BENCH_TOOLS) $(OUT)/tests/faulty-server)
.PHONY: test-bench
test-bench: all $(need_bench)
	@tests/run.sh $(run_bench)

# ---- seeing it run -----------------------------------------------------------------------------

# The same scene for every stage: the server records itself, and a page is made of that.
SCENARIO := $(OUT)/trace/scenario
$(OUT)/obj/tests/trace/%.o: tests/trace/%.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -c -o $@ $<

$(SCENARIO): $(OUT)/obj/tests/trace/scenario.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $< $(LDLIBS)

# $(call play,N): has stage N record the scene.
play = tests/trace/play.sh $(SCENARIO) $(OUT)/$(call stage,$1) $(OUT)/trace/stage$1.json $(ARGS)
SEEN := $(or $(STAGE),$(lastword $(NUMBERS)))

## trace [STAGE=N] [ARGS="..."]: make a page on which the threads of a stage can be seen running
.PHONY: trace
trace: $(SCENARIO) $(OUT)/$$(call stage,$$(SEEN))
	@$(call play,$(SEEN))
	@docs/trace/page.sh 'Stage $(SEEN), seen running' $(OUT)/trace/stage$(SEEN).json \
	    >$(OUT)/trace/stage$(SEEN).html
	@echo 'trace: $(OUT)/trace/stage$(SEEN).html'

## trace-all: the same for all stages, one below the other
.PHONY: trace-all
trace-all: $(SCENARIO) all
	@$(foreach n,$(NUMBERS),$(call play,$n) &&) docs/trace/page.sh 'The stages, seen running' \
	    $(NUMBERS:%=$(OUT)/trace/stage%.json) >$(OUT)/trace/all.html
	@echo 'trace: $(OUT)/trace/all.html'

# The pictures in docs/diagrams are from a real run; `make docs` puts those of another one into the site.
stills = docs/trace/stills.sh $1 $(SCENARIO) $(STAGES:%=$(OUT)/%)

## trace-stills: make the chapters' pictures of servers at work anew
.PHONY: trace-stills
trace-stills: $(SCENARIO) all
	$(NEED_PYTHON)
	@$(call stills,docs/diagrams)

# ---- fuzzing -----------------------------------------------------------------------------------

# libFuzzer is clang's, so all that is fuzzed is compiled once more, by clang. Each input queue reads
# what the target gives it (--wrap).
FUZZ := $(BUILD)/fuzz
FUZZ_CC := clang
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_CFLAGS := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
FUZZ_COMMON := $(patsubst $(OUT)/obj/%,$(BUILD)/obj-fuzz/%,$(LIBRARY_OBJECTS)) \
    $(BUILD)/obj-fuzz/tests/fuzz/fuzz.o

$(BUILD)/obj-fuzz/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,FUZZ-CC,$<)
	$(Q)$(FUZZ_CC) $(LANGUAGE) $(WARNINGS) -Itests/fuzz -pthread $(FUZZ_CFLAGS) -MMD -MP -c -o $@ $<

$(FUZZ_TARGETS:%=$(FUZZ)/%): $(FUZZ)/%: $(BUILD)/obj-fuzz/tests/fuzz/fuzz_%.o $(FUZZ_COMMON)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer -pthread -Wl,--wrap=socket_receive -o $@ $^ \
	    -lcrypt $(call libraries,common)

-include $(wildcard $(BUILD)/obj-fuzz/*/*.d $(BUILD)/obj-fuzz/*/*/*.d)

# Asked for only by `make fuzz`: whether that clang comes with the library.
fuzz_works = $(shell echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' | \
    $(FUZZ_CC) -fsanitize=fuzzer -x c -o /dev/null - 2>/dev/null && echo yes)
FUZZED := $(or $(TARGET),$(FUZZ_TARGETS))

## fuzz [TARGET=name] [SECONDS=n]: feed each parser, or one, what nobody would send; wants clang
.PHONY: fuzz
fuzz: $$(if $$(fuzz_works),$(FUZZED:%=$(FUZZ)/%))
	@$(if $^,FUZZ=$(FUZZ) SECONDS_EACH=$(or $(SECONDS),5) tests/fuzz/run.sh $(FUZZED),\
	    echo 'skipped: no clang with libFuzzer (Debian: clang libclang-rt-dev)'; \
	    echo '0 passed, 0 failed, $(words $(FUZZED)) skipped')

# ---- reading and checking ----------------------------------------------------------------------

## diff FROM=N TO=N: what changes from one stage to another
.PHONY: diff
diff:
	$(if $(and $(FROM),$(TO)),,$(error diff: say between which stages: make diff FROM=1 TO=2))
	@docs/stage_diff.sh $(call stage,$(FROM)) $(call stage,$(TO))

## docs: build the site of the course; installs Doxygen if it is missing
.PHONY: docs
docs: all $$(SCENARIO)
	@tests/need.sh Doxygen 'command -v doxygen && command -v dot' doxygen graphviz
	@docs/site.sh $(BUILD)/site $(STAGES)
	@! command -v python3 >/dev/null || $(call stills,$(BUILD)/site) || true

## read [ARGS="..."]: build the site and serve it by the last stage, for a browser
READER := $(call stage,$(lastword $(NUMBERS)))
.PHONY: read
read: docs $(READER:%=$(OUT)/%)
	$(if $(findstring --,$(ARGS)),, \
	    @echo 'read: http://127.0.0.1:700$(lastword $(NUMBERS))/ (Ctrl-C ends it)')
	@exec $(FIXED) $(OUT)/$(READER) --app http --root $(BUILD)/site $(ARGS)

## test-site: look at the site as a browser shows it, on a phone and on a desk, if chromium is there
.PHONY: test-site
test-site: docs
	@tests/run.sh 'site=tests/site_check.py $(BUILD)/site \
	    $$(cd $(BUILD)/site && ls *.html */index.html */group__*.html */*handler*_source.html)'

SOURCES := $(wildcard common/*.[ch] common/apps/*.[ch] $(STAGES:%=%/*.[ch]) \
    tests/*.[ch] tests/*/*.[ch])
CLANG_FORMAT := clang-format
NEED_FORMAT = @tests/need.sh $(CLANG_FORMAT) 'command -v $(CLANG_FORMAT)' clang-format

## format: put all sources into the form of .clang-format
.PHONY: format
format:
	$(NEED_FORMAT)
	@$(CLANG_FORMAT) -i $(SOURCES)

## format-check: fail if `make format` would change anything
.PHONY: format-check
format-check:
	$(NEED_FORMAT)
	@$(CLANG_FORMAT) --dry-run --Werror $(SOURCES)

## lint: look for mistakes with the tools that are there: clang, clang-tidy, cppcheck, shellcheck
LINTED = $(patsubst $(OUT)/obj/%.o,%.c,$(LIBRARY_OBJECTS)) $(wildcard $(STAGES:%=%/*.c))
.PHONY: lint
lint:
	@LANGUAGE='$(LANGUAGE)' tests/lint.sh $(LINTED)

## clean: remove everything that was built
.PHONY: clean
clean:
	rm -rf $(BUILD)

## help: this list
.PHONY: help
help:
	@sed -n 's/^## \([^:]*\): /\1\t/p' $(firstword $(MAKEFILE_LIST)) | \
	    awk -F '\t' '{ printf "  make %-33s %s\n", $$1, $$2 }'
	@echo 'With each of them: V=1 (whole commands), CC=clang, CFLAGS=..., NDEBUG=1,'
	@echo 'SANITIZER=address|undefined|thread|address,undefined (in a folder of its own), BUILD=folder.'
