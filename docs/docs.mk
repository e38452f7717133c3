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

# A server that notes each function that it enters, because that is what the listing's order comes from: of its own, and of
# what it links with echo alone, which is all that the listing has. Addresses are those in the file, for addr2line.
LISTED := $(or $(STAGE),$(NUMBERS))
ENTERED := $(STAGES:%=$(OUT)/listing/%)

$(ENTERED): $(OUT)/listing/%: $(OUT)/listing/%.files $(OUT)/obj/docs/listing/entered.o Makefile
	$(call say,LINK,$@)
	$(Q)$(filter-out -MMD -MP,$(COMPILE)) -O0 -g -finstrument-functions -no-pie -o $@ $(wildcard $*/*.c) \
	    $$(sed -n 's/.* \(common.*\.c\)$$/\1/p' $<) $(filter %.o,$^) $(LIBRARY) $(call libraries,$*)

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

### trace-recordings: record the stages for the site anew, on a machine that does nothing else; test-site looks at them
RECORDED := $(NUMBERS:%=docs/trace/recorded/stage%.json)
.PHONY: trace-recordings
trace-recordings: $(SCENARIO) all
	@mkdir -p docs/trace/recorded $(OUT)/recorded
	@$(foreach n,$(NUMBERS),BEST_OF=9 $(call play,$n,recorded) &&) cp $(NUMBERS:%=$(OUT)/recorded/stage%.json) docs/trace/recorded

# ---- the site ----------------------------------------------------------------------------------
#
# A part of it is made anew if something changed that it is made of: what docs/site.sh does, in this order.

SITE := $(BUILD)/site
PARTS := $(BUILD)/site-parts
site_sh = VERSION='$(VERSION)' VERSION_DATE='$(VERSION_DATE)' REPOSITORY='$(REPOSITORY)' docs/site.sh
# Where a file of this state of the repository can be seen on the web; nothing if nobody says so.
REPOSITORY ?=

PAGE_TEXTS := $(wildcard docs/*.md README.md stage[1-5]-*/README.md stage[1-5]-*/steps/README.md \
    stage[1-5]-*/steps/*/README.md docs/remarks/*.md common/README.md common/steps/README.md common/steps/*/README.md)
SHOWN_SOURCES := $(wildcard common/*/*.[ch] common/apps/*/*.[ch] stage[1-5]-*/*.[ch])
SITE_TOOLS := docs/site.sh docs/Doxyfile docs/names.awk
NEED_DOXYGEN := @tests/need.sh Doxygen 'command -v doxygen' doxygen
CHANGES := $(patsubst %,$(PARTS)/made/docs/remarks/stage%.md,$(filter-out 1,$(NUMBERS))) \
    $(patsubst %,$(PARTS)/made/docs/remarks/step%.md,$(filter-out 1.1,$(STEPS)))

$(PARTS)/needed:
	$(NEED_DOXYGEN)
	@mkdir -p $(@D) && touch $@

$(CHANGES): docs/diff_pages.sh docs/diff_pages.awk docs/names.awk docs/stage_diff.sh tests/steps.sh $(wildcard docs/remarks/*.md \
    docs/renames stage[1-5]-*/steps/*/* common/steps/*/*) $(SHOWN_SOURCES) | $(PARTS)/needed
	$(call say,DIFF,$(notdir $(@:.md=)))
	$(Q)docs/diff_pages.sh $(PARTS)/made $(patsubst stage%,%,$(patsubst step%,%,$(basename $(notdir $@))))

$(PARTS)/pages: docs/order.sh docs/order.awk docs/pages.awk $(PAGE_TEXTS) $(SITE_TOOLS) | $(CHANGES)
	$(Q)$(site_sh) pages $(PARTS)

$(PARTS)/common.tag: $(wildcard common/*.md common/*/*.[ch] common/apps/*/*.[ch]) docs/filter_source.awk \
    docs/filter_markdown.awk $(SITE_TOOLS) docs/theme/header.html docs/theme/footer.html | $(PARTS)/needed
	$(call say,DOXYGEN,common)
	$(Q)$(site_sh) code $(PARTS) common

$(STAGES:%=$(PARTS)/%.tag): $(PARTS)/%.tag: $(PARTS)/common.tag $$(wildcard $$*/*.md $$*/*.[ch])
	$(call say,DOXYGEN,$*)
	$(Q)$(site_sh) code $(PARTS) $*

$(PARTS)/..tag: $(PARTS)/common.tag $(PAGE_TEXTS) $(CHANGES) $(SHOWN_SOURCES) docs/snippets.awk $(wildcard docs/diagrams/*)
	$(call say,DOXYGEN,chapters)
	$(Q)$(site_sh) chapters $(PARTS)

POLISHED := $(patsubst %,$(PARTS)/links.%,. common $(STAGES))
$(POLISHED): $(PARTS)/links.%: $(PARTS)/%.tag $(PARTS)/..tag $(PARTS)/pages docs/polish.awk docs/theme/bar.html docs/changelog.md
	$(call say,PAGES,$(if $(filter .,$*),chapters,$*))
	$(Q)$(site_sh) polish $(PARTS) $*

$(PARTS)/seen.html: $(RECORDED) docs/trace/page.html docs/trace/page.sh
	@mkdir -p $(@D)
	$(Q)SITE=./ docs/trace/page.sh 'The stages, seen running' $(RECORDED) >$@

$(SITE)/made: $(POLISHED) $(PARTS)/seen.html $(wildcard docs/theme/* docs/play/*) docs/synonyms docs/search_texts.awk \
    docs/search_tags.awk docs/put_in_place.sh
	$(call say,SITE,$(SITE))
	$(Q)$(site_sh) assemble $(PARTS) $(SITE) $(PARTS)/seen.html $(STAGES)
	@touch $@

### docs [REPOSITORY=URL]: build the site of the course; installs Doxygen if it is missing
.PHONY: docs
docs: $(SITE)/made
	@echo 'docs: $(SITE)/index.html'

## read [ARGS="..."]: build the site and serve it by the last stage, for a browser
READER := $(call stage,$(lastword $(NUMBERS)))
.PHONY: read
read: $(SITE)/made $(READER:%=$(OUT)/%)
	@exec $(FIXED) docs/read.sh $(OUT)/$(READER) 700$(lastword $(NUMBERS)) --app http --root $(SITE) $(ARGS)

### test-search: what readers type leads to the right page of the site
.PHONY: test-search
run_search = 'search=node tests/search_test.js $(SITE)'
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
	@AXE=$(BUILD)/axe.min.js tests/run.sh $(run_search) 'site=tests/site_check.py $(SITE) $(SITE_PAGES)'

# ---- a release ---------------------------------------------------------------------------------

### dist: pack the last commit, with its site built, as build/scalable-servers-VERSION.tar.gz
DIST := scalable-servers-$(VERSION)
.PHONY: dist
dist: docs
	@changes=$$(git status --porcelain) || exit 2; [ -z "$$changes" ] || \
	    { echo 'dist: there are changes that are not committed, and the site shows them' >&2; exit 2; }
	@rm -rf $(BUILD)/dist && mkdir -p $(BUILD)/dist/$(DIST)
	@git archive HEAD | tar -xC $(BUILD)/dist/$(DIST)
	@git rev-parse HEAD >$(BUILD)/dist/$(DIST)/tests/commit
	@cp -r $(SITE) $(BUILD)/dist/$(DIST)/site
	@tar -C $(BUILD)/dist --sort=name --owner=0 --group=0 --numeric-owner --mtime='$(VERSION_DATE) 00:00Z' \
	    -cf - $(DIST) | gzip -9n >$(BUILD)/$(DIST).tar.gz
	@rm -rf $(BUILD)/dist
	@echo 'dist: $(BUILD)/$(DIST).tar.gz; its site begins with site/index.html, which a browser opens without a server'
