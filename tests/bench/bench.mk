# Measuring. Included by the Makefile.

# The load generator and the floors are C and nothing else. A peer is built where pkg-config knows
# its library: peer_libuv.c is linked to libuv. None of this is part of `make` or `make test-build`.
BENCH_TOOLS := $(addprefix $(OUT)/tests/,load raw_epoll raw_threads first_read file_ways \
    $(if $(wildcard /usr/include/linux/io_uring.h),raw_uring))
PEERS := $(if $(filter bench% withstands,$(MAKECMDGOALS)), \
    $(foreach p,$(patsubst tests/bench/peer_%.c,%,$(wildcard tests/bench/peer_*.c)), \
    $(shell pkg-config --exists $p 2>/dev/null && echo $(OUT)/tests/peer_$p)))

$(OUT)/obj/tests/bench/%.o: tests/bench/%.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE) -c -o $@ $<

$(OUT)/tests/load: $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard tests/bench/load*.c)) $(LIBRARY)
$(filter-out $(OUT)/tests/load,$(BENCH_TOOLS)): $(OUT)/tests/%: $(OUT)/obj/tests/bench/%.o
$(BENCH_TOOLS): tests/bench Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $(filter %.o %.a,$^) $(LDLIBS)

$(OUT)/tests/peer_%: $(OUT)/obj/tests/bench/peer_%.o
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $< $$(pkg-config --libs $*) $(LDLIBS)

.SECONDARY: $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard tests/bench/peer_*.c))

# Servers that count what a line costs them (tests/bench/counted.c), compiled once more.
COUNTED := $(STAGES:%=$(OUT)/counted/%)
COUNTED_LOCKS = $(shell sed -n 's/^LOCK.\([a-z_]*\),.*/\1/p' tests/bench/counted.c 2>/dev/null) \
    pthread_cond_timedwait pthread_mutex_unlock
counted = $(patsubst $(OUT)/obj/%,$(OUT)/obj-counted/%,$1)

$(OUT)/obj-counted/%.o: %.c tests/bench/counted.h $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(COMPILE) -include tests/bench/counted.h -c -o $@ $(source)

$(COUNTED): $(OUT)/counted/%: $$(call counted,$$(call objects,$$*) $(COMMON_OBJECTS)) \
    $(OUT)/obj/tests/bench/counted.o % Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) $(COUNTED_LOCKS:%=-Wl,--wrap=%) -o $@ $(filter %.o,$^) $(call libraries,$*)

NEED_PYTHON = @tests/need.sh 'Python 3' 'command -v python3' python3

# What cannot do without Python asks for it before anything is built, and so does what needs several machines.
### need-python: install Python 3, or say that it is missing
.PHONY: need-python
need-python:
	$(NEED_PYTHON)
### need-machines: install what several machines need: redis, HAProxy and Python 3, or say what is missing
.PHONY: need-machines
need-machines:
	@$(NEED_MACHINES)
$(OUT)/flags: | $(if $(filter machines bench-machines,$(MAKECMDGOALS)),need-machines) \
    $(if $(filter demo bench bench-% test-trace test-traced test-hang trace-stills,$(MAKECMDGOALS)),need-python)

BENCH = $(NEED_PYTHON) && python3 -B tests/bench/bench.py --build $(OUT)

### bench: measure every stage beside floors and peers; three minutes
.PHONY: bench
bench: all $(BENCH_TOOLS) $$(PEERS) $(COUNTED)
	$(BENCH) quick

### bench-full: measure more: crowds, slow messages, chat, system calls; a quarter of an hour
.PHONY: bench-full
bench-full: all $(BENCH_TOOLS) $$(PEERS) $(COUNTED)
	$(BENCH) full

### bench-beside [OTHER=../old/build]: measure every stage beside another build of it, and beside the floor, and write docs/measuring.md; seven minutes
OTHER ?= ../old/build
.PHONY: bench-beside
bench-beside: all $(BENCH_TOOLS)
	$(BENCH) beside --other $(OTHER)

### bench-table: draw what was measured last, and write it into docs/measuring.md
.PHONY: bench-table
bench-table:
	$(BENCH) table

### bench-line [ARGS="--tree FOLDER --files"]: count what a line passes and costs, for docs/measuring.md and docs/way.md; four minutes
.PHONY: bench-line
bench-line: all step-programs $(BENCH_TOOLS) $(COUNTED) $$(ENTERED)
	@tests/need.sh gcov 'command -v gcov' gcc
	$(NEED_PYTHON) && python3 -B tests/bench/counts.py --build $(OUT) --docs docs/measuring.md $(ARGS)
	@python3 -B tests/bench/way.py docs/way.md $(OUT)/listing $(STAGES)

### bench-overload: offer the stages up to twice their capacity, and write docs/measuring.md; a quarter of an hour
.PHONY: bench-overload
bench-overload: all $(BENCH_TOOLS)
	$(NEED_PYTHON) && python3 -B tests/bench/overload.py --build $(OUT) --docs docs/measuring.md $(ARGS)

### bench-latency: measure how long a message waits at half load beside libuv, libevent and nginx, and write docs/measuring.md; five minutes
.PHONY: bench-latency
bench-latency: all $(BENCH_TOOLS) $$(PEERS)
	$(NEED_PYTHON) && PATH=$$PATH:/usr/sbin python3 -B tests/bench/latency.py --build $(OUT) --docs docs/measuring.md $(ARGS)

### bench-long: measure files of 1 MiB and 1 GiB beside nginx, and a client that reads slowly, and write docs/measuring.md; five minutes
.PHONY: bench-long
bench-long: all $(BENCH_TOOLS)
	$(NEED_PYTHON) && PATH=$$PATH:/usr/sbin python3 -B tests/bench/long_output.py --build $(OUT) --docs docs/measuring.md $(ARGS)

### bench-processors: measure a message on two processors beside one, count for how long it holds the lock that all share, and write docs/measuring.md; five minutes
.PHONY: bench-processors
bench-processors: all $(BENCH_TOOLS) $(COUNTED)
	$(NEED_PYTHON) && python3 -B tests/bench/processors.py --build $(OUT) --docs docs/measuring.md $(ARGS)

### bench-real: measure http, pop3 and a relay beside what people use, and write docs/measuring.md; five minutes
.PHONY: bench-real
bench-real: all $(BENCH_TOOLS)
	$(NEED_PYTHON) && python3 -B tests/bench/real.py --build $(OUT) --docs docs/measuring.md $(ARGS)

### bench-store: measure --app store beside redis-server, and four ways to share, and write docs/store.md; a quarter of an hour
.PHONY: bench-store
bench-store: all $(BENCH_TOOLS) $$(filter $$(OUT)/talks/tally/stage5,$$(TALKED))
	@tests/need.sh redis 'command -v redis-server && command -v redis-benchmark' redis-server redis-tools
	$(NEED_PYTHON) && python3 -B tests/bench/store.py --build $(OUT) --docs docs/store.md $(ARGS)

### bench-ring: measure stage 2 on io_uring beside stage 2, and write docs/proactor.md; half a minute
.PHONY: bench-ring
bench-ring: all $(BENCH_TOOLS) $$(PROACTOR)
	$(NEED_PYTHON) && python3 -B tests/bench/ring.py --build $(OUT) --docs docs/proactor.md $(ARGS)

### bench-machines: measure a line across machines, and failures, and write docs/machines.md; six minutes
.PHONY: bench-machines
bench-machines: $(WITH_BROKER)
	@$(NEED_MACHINES)
	@BUILD=$(OUT) tests/machines/machines_bench.py

### bench-first-read: count how often a read right after accept finds something; a second
.PHONY: bench-first-read
bench-first-read: $(OUT)/tests/first_read
	$(BENCH) first-read

## demo: see how the stages differ under the same load; a minute
.PHONY: demo
demo: all $(BENCH_TOOLS)
	$(NEED_PYTHON) && python3 -B tests/bench/demo.py --build $(OUT)

### test-bench: test the load generator
run_bench = $(if $(wildcard tests/bench/load.c),'bench=BUILD=$(OUT) tests/bench_test.sh')
need_bench := $(if $(wildcard tests/bench/load.c),$(BENCH_TOOLS) $(OUT)/tests/faulty-server)
.PHONY: test-bench
test-bench: all $(need_bench)
	@tests/run.sh $(run_bench)
