# The documents, and pictures of servers at work. Included by the Makefile.

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

# $(call play,N,FOLDER): has stage N record the scene; the calmest of several, because the machine may be busy.
play = tests/trace/play.sh $(SCENARIO) $(OUT)/$(call stage,$1) $(OUT)/$2/stage$1.json
SEEN := $(or $(STAGE),$(lastword $(NUMBERS)))
# Its functions are linked to the site, if that is there.
seen_page = SITE=$(if $(wildcard $(OUT)/site/index.html),../site/) docs/trace/page.sh

seen_next = @echo 'Open it in a browser. The right arrow key goes from event to event; docs/trace.md says how to read it.'

## trace [STAGE=N] [ARGS="..."]: make a page on which the threads of a stage can be seen running
.PHONY: trace
trace: $(SCENARIO) $(OUT)/$$(call stage,$$(SEEN))
	@$(call play,$(SEEN),trace) $(ARGS)
	@$(seen_page) 'Stage $(SEEN), seen running' $(OUT)/trace/stage$(SEEN).json >$(OUT)/trace/stage$(SEEN).html
	@echo 'trace: $(OUT)/trace/stage$(SEEN).html'
	$(seen_next)

### trace-all: the same for all stages, one below the other
.PHONY: trace-all
trace-all: $(SCENARIO) all
	@$(foreach n,$(NUMBERS),$(call play,$n,trace) $(ARGS) &&) $(seen_page) 'The stages, seen running' \
	    $(NUMBERS:%=$(OUT)/trace/stage%.json) >$(OUT)/trace/all.html
	@echo 'trace: $(OUT)/trace/all.html'
	$(seen_next)

### trace-stills: make the chapters' pictures of servers at work anew, on a machine that does nothing else
.PHONY: trace-stills
trace-stills: $(SCENARIO) all
	$(NEED_PYTHON)
	@docs/trace/stills.sh docs/diagrams $(SCENARIO) $(STAGES:%=$(OUT)/%)

# ---- a listing on paper ------------------------------------------------------------------------

# A server that notes each function that it enters, because that is what the listing's order comes from.
# Addresses are those in the file, for addr2line.
LISTED := $(or $(STAGE),$(NUMBERS))
ENTERED := $(STAGES:%=$(OUT)/listing/%)
entered = $(patsubst $(OUT)/obj/%,$(OUT)/obj-entered/%,$1)

$(OUT)/obj-entered/%.o: %.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(COMPILE) -O0 -g -finstrument-functions -c -o $@ $<

$(ENTERED): $(OUT)/listing/%: $$(call entered,$$(call objects,$$*) $(COMMON_OBJECTS)) \
    $(OUT)/obj/docs/listing/entered.o % Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(LINK) -no-pie -o $@ $(filter %.o,$^) $(call libraries,$*)

# What it links with echo alone.
$(ENTERED:%=%.files): $(OUT)/listing/%.files: $(OUT)/% tests/steps.sh
	@mkdir -p $(@D)
	$(Q)CC='$(CC)' SANITIZE='$(SANITIZE)' OUT=$(OUT) LIBRARIES='$(call libraries,$*)' \
	    tests/steps.sh linked $(patsubst stage%,%,$(firstword $(subst -, ,$*))) >$@

need_listing = $(foreach n,$1,$(OUT)/listing/$(call stage,$n) $(OUT)/listing/$(call stage,$n).files)

### listing [STAGE=N]: a stage, or each, as a listing to print, with commentary on the facing pages; PDF if there is a browser
.PHONY: listing
listing: $$(call need_listing,$$(LISTED))
	$(NEED_PYTHON)
	@$(foreach n,$(LISTED),docs/listing/listing.py $(OUT)/listing/$(call stage,$n) $(call stage,$n) \
	    $(OUT)/listing/$(call stage,$n).files $(OUT)/listing/stage$n.html &&) true

# ---- the site ----------------------------------------------------------------------------------

### docs: build the site of the course; installs Doxygen if it is missing
.PHONY: docs
docs: all $$(SCENARIO)
	@tests/need.sh Doxygen 'command -v doxygen' doxygen
	@mkdir -p $(OUT)/seen
	@$(foreach n,$(NUMBERS),BEST_OF=3 $(call play,$n,seen) &&) SITE=./ docs/trace/page.sh \
	    'The stages, seen running' $(NUMBERS:%=$(OUT)/seen/stage%.json) >$(OUT)/seen/seen.html
	@docs/site.sh $(BUILD)/site $(OUT)/seen/seen.html $(STAGES)

## read [ARGS="..."]: build the site and serve it by the last stage, for a browser
READER := $(call stage,$(lastword $(NUMBERS)))
.PHONY: read
read: docs $(READER:%=$(OUT)/%)
	$(if $(findstring --,$(ARGS)),, \
	    @echo 'read: http://127.0.0.1:700$(lastword $(NUMBERS))/ (Ctrl-C ends it)')
	@exec $(FIXED) $(OUT)/$(READER) --app http --root $(BUILD)/site $(ARGS)

### test-search: what readers type leads to the right page of the site
.PHONY: test-search
run_search = 'search=node tests/search_test.js $(BUILD)/site'
test-search: docs
	@tests/need.sh Node 'command -v node' nodejs
	@tests/run.sh $(run_search)

# One page of each kind is looked at in every view; SITE_PAGES= looks at all.
SITE_PAGES ?= index.html stage1.html step2_4.html measuring.html changes3.html changes2_4.html play/scheduler.html seen.html \
    stage2-single-reactor/index.html stage3-workers/group__reactor.html stage3-workers/reactor_8c_source.html
AXE_PACKAGE := https://registry.npmjs.org/axe-core/-/axe-core-4.10.2.tgz
$(BUILD)/axe.min.js:
	@mkdir -p $(@D)
	$(call say,GET,$(AXE_PACKAGE))
	$(Q)curl -sSfL --retry 3 --max-time 60 '$(AXE_PACKAGE)' | tar -xzO package/axe.min.js >$@ || rm -f $@

### test-site: what the search finds; and pages of each kind, with chromium and axe-core: three widths, light and dark
.PHONY: test-site
test-site: docs $(BUILD)/axe.min.js
	@tests/need.sh Chromium 'command -v chromium || command -v google-chrome' chromium -- \
	    Node 'command -v node' nodejs
	@AXE=$(BUILD)/axe.min.js tests/run.sh $(run_search) 'site=tests/site_check.py $(BUILD)/site $(SITE_PAGES)'
