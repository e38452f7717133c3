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

### trace-all: the same for all stages, one below the other
.PHONY: trace-all
trace-all: $(SCENARIO) all
	@$(foreach n,$(NUMBERS),$(call play,$n) &&) docs/trace/page.sh 'The stages, seen running' \
	    $(NUMBERS:%=$(OUT)/trace/stage%.json) >$(OUT)/trace/all.html
	@echo 'trace: $(OUT)/trace/all.html'

# The pictures in docs/diagrams are from a real run; `make docs` puts those of another one into the site.
stills = docs/trace/stills.sh $1 $(SCENARIO) $(STAGES:%=$(OUT)/%)

### trace-stills: make the chapters' pictures of servers at work anew
.PHONY: trace-stills
trace-stills: $(SCENARIO) all
	$(NEED_PYTHON)
	@$(call stills,docs/diagrams)

# ---- the site ----------------------------------------------------------------------------------

### docs: build the site of the course; installs Doxygen if it is missing
.PHONY: docs
docs: all $$(SCENARIO)
	@tests/need.sh Doxygen 'command -v doxygen' doxygen
	@docs/site.sh $(BUILD)/site $(STAGES)
	@! command -v python3 >/dev/null || $(call stills,$(BUILD)/site) || true

## read [ARGS="..."]: build the site and serve it by the last stage, for a browser
READER := $(call stage,$(lastword $(NUMBERS)))
.PHONY: read
read: docs $(READER:%=$(OUT)/%)
	$(if $(findstring --,$(ARGS)),, \
	    @echo 'read: http://127.0.0.1:700$(lastword $(NUMBERS))/ (Ctrl-C ends it)')
	@exec $(FIXED) $(OUT)/$(READER) --app http --root $(BUILD)/site $(ARGS)

### test-search: what readers type leads to the right page of the site
.PHONY: test-search
test-search: docs
	@tests/need.sh Node 'command -v node' nodejs
	@tests/run.sh 'search=node tests/search_test.js $(BUILD)/site'

# One page of each kind is looked at in every view; SITE_PAGES="$(cd build/site && ls *.html)" looks at more.
SITE_PAGES ?= index.html stage4.html step2_4.html glossary.html measuring.html changes4.html play/scheduler.html \
    stage2-single-reactor/index.html stage3-workers/group__reactor.html stage3-workers/reactor_8c_source.html
AXE_PACKAGE := https://registry.npmjs.org/axe-core/-/axe-core-4.10.2.tgz
$(BUILD)/axe.min.js:
	$(call say,GET,$(AXE_PACKAGE))
	$(Q)curl -sSfL --max-time 60 '$(AXE_PACKAGE)' | tar -xzO package/axe.min.js >$@ || { rm -f $@; exit 1; }

### test-site: look at pages of each kind with chromium and axe-core: three widths, light and dark
.PHONY: test-site
test-site: docs $(BUILD)/axe.min.js
	@tests/need.sh Chromium 'command -v chromium || command -v google-chrome' chromium
	@AXE=$(BUILD)/axe.min.js tests/run.sh 'site=tests/site_check.py $(BUILD)/site $(SITE_PAGES)'
