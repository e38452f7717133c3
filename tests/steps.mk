# The steps that lead to each stage, and those that make the core: small programs, each a folder
# stageN-*/steps/N.M-name or common/steps/C.M-name. What they are and how they share files is told in
# tests/steps.sh. Included by the Makefile.

STEPS := $(sort $(foreach f,$(wildcard stage[1-5]-*/steps/[1-5].*-*/step common/steps/C.*-*/step),\
    $(firstword $(subst -, ,$(notdir $(patsubst %/step,%,$f))))))

# STEP=, and FROM= and TO= with a dot in them, have to be steps.
check_step = $(if $($1),$(if $(filter $($1),$(STEPS)),,$(error \
    $1=$($1): no such step; there are: $(shell tests/steps.sh names))))
$(call check_step,STEP)
$(if $(findstring .,$(FROM)),$(call check_step,FROM))
$(if $(findstring .,$(TO)),$(call check_step,TO))

# The program of a step, $(call step_program,2.4): that of the stage, if the step is a stage.
STAGE_STEPS := $(shell tests/steps.sh stage-steps)
step_program = $(OUT)/$(if $(filter $1,$(STAGE_STEPS)),$(call stage,$(firstword $(subst ., ,$1))),steps/$1/step$1)
STEP_PROGRAMS := $(foreach s,$(filter-out $(STAGE_STEPS),$(STEPS)),$(OUT)/steps/$s/step$s)

# All of them at once, as STEP:FILE, because each $(shell) costs every make some milliseconds.
STEP_SOURCES := $(shell tests/steps.sh sources)
step_sources = $(patsubst $(notdir $1):%,%,$(filter $(notdir $1):%,$(STEP_SOURCES)))

# Early steps are bare C: they are built without waiting for common/.
ON_COMMON := $(if $(STEP_SOURCES),$(shell grep -l '"common/' $(sort $(foreach s,$(STEPS),$(call step_sources,$s)))))
step_library = $(if $(filter $(ON_COMMON),$1),$(LIBRARY))

# Laid out below build/steps/N.M as links, so that what the compiler says is about the step's files.
$(STEP_PROGRAMS): $$(call step_sources,$$(@D)) $$(call step_library,$$(call step_sources,$$(@D))) \
    $(OUT)/flags tests/steps.mk
	$(call say,STEP,$@)
	$(Q)tests/steps.sh lay-out $(notdir $(@D)) $(@D)
	$(Q)tests/steps.sh compile $(@D) $(COMPILE)
	$(Q)$(LINK) -o $@ $(@D)/*.o $(filter %.a,$^) $(call libraries,stage$(firstword $(subst ., ,$(notdir $(@D)))))

# The sources of all steps for `make lint`: those that include files which they share stand among them.
STEPS_LINTED = $(foreach s,$(filter-out $(STAGE_STEPS),$(STEPS)),$(addprefix $(BUILD)/lint/$s/,$(notdir \
    $(wildcard $(STAGES:%=%/steps/$s-*/*.c) common/steps/$s-*/*.c))))
### lay-out-steps: put the files of each step together in build/lint, for make lint
.PHONY: lay-out-steps
lay-out-steps:
	@$(foreach s,$(filter-out $(STAGE_STEPS),$(STEPS)),tests/steps.sh lay-out $s $(BUILD)/lint/$s &&) true

STEP_STAGES := $(foreach s,$(STAGE_STEPS),$(call step_program,$s))

## steps: a line for each step: number, new lines, kind, idea
.PHONY: steps
steps: $(STEP_PROGRAMS) $(STEP_STAGES)
	@CC='$(CC)' SANITIZE='$(SANITIZE)' OUT=$(OUT) LIBRARIES='$(LIBRARIES_stage5) $(LDLIBS)' \
	    tests/steps.sh list

### step-programs: build the programs of all steps
.PHONY: step-programs
step-programs: $(STEP_PROGRAMS)

### step-pages: put the code that chapters and pages of steps show into them anew
.PHONY: step-pages
step-pages:
	@tests/steps.sh pages

# Some steps want a sanitizer for their tests, and so do those before them.
STEP_SANITIZED := $(if $(filter test%,$(MAKECMDGOALS)),$(addprefix $(OUT)/,$(shell SANITIZER=$(SANITIZER) tests/steps.sh sanitized)))
$(STEP_SANITIZED): $$(call step_sources,$$(@D)) $(OUT)/flags tests/steps.mk
	@mkdir -p $(@D)
	$(call say,STEP,$@)
	$(Q)$(filter-out -MMD -MP -fsanitize=%,$(COMPILE)) -fsanitize=$(notdir $(patsubst %/steps/,%,$(dir $(@D)))) \
	    -fno-sanitize-recover=all -fno-omit-frame-pointer -o $@ $(filter %.c,$^)

# ThreadSanitizer has nothing to see in a program of one thread. 2.7 and C.27 are built all the same,
# because what is new in the steps behind them has to fail there.
ONE_THREAD := 2.1 2.2 2.3 2.4 2.5 2.6 2.7 5.4 $(filter-out C.28 C.29 C.30 C.31 C.32,$(filter C.%,$(STEPS)))
TESTED_STEPS := $(filter-out $(if $(filter thread,$(SANITIZER)),$(ONE_THREAD)),$(STEPS))

# Bare steps are those whose program uses nothing of common/.
BARE := $(foreach s,$(TESTED_STEPS),$(if $(filter $(ON_COMMON),$(call step_sources,$s)),,$s))
need_bare_steps = $(addprefix $(OUT)/tests/,$(filter steps,$(SUITES))) $(foreach s,$(BARE),$(call step_program,$s)) $(STEP_STAGES) $(STEP_SANITIZED)
need_steps = $(need_bare_steps) $(foreach s,$(if $(STEP),$(STEPS),$(TESTED_STEPS) $(filter 2.7 C.27,$(STEPS))),$(call step_program,$s))

# $(call steps_suite,NAME,COMMAND STEPS)
steps_suite = '$1=OUT=$(OUT) CC="$(CC)" SANITIZE="$(SANITIZE)" LIBRARIES="$(call libraries,stage5)" \
    SANITIZER=$(SANITIZER) FIXED="$(FIXED)" tests/steps.sh $2'
run_bare_steps = $(if $(BARE),$(call steps_suite,bare steps,test $(BARE)))
run_other_steps = $(if $(STEPS),$(call steps_suite,other steps,test $(filter-out $(BARE),$(TESTED_STEPS))))
run_step_pages = $(if $(SANITIZER),,$(if $(STEPS),$(call steps_suite,pages of steps,check $(STEPS))))
run_labs = $(if $(SANITIZER),,'labs=BUILD=$(BUILD) LIBRARIES="$(call libraries,stage5)" tests/lab_test.sh' $(run_grade))
run_steps = $(if $(STEP),$(call steps_suite,step $(STEP),test $(STEP)),$(run_bare_steps) $(run_other_steps) \
    $(run_step_pages) $(run_labs))
run_grade = 'grade=OUT=$(OUT) tests/grade_test.sh'
run_graders = $(if $(SANITIZER),,$(if $(wildcard tests/mistakes/*),'graders=OUT=$(OUT) CC="$(CC)" \
    LIBRARIES="$(call libraries,stage5)" tests/graders.sh $(STEP)'))
THREAD_LIBRARY := $(BUILD)/thread/libcommon.a
need_graders = $(if $(wildcard tests/mistakes/*),$(OUT)/tests/steps $(STEP_PROGRAMS) $(STEP_STAGES) $(THREAD_LIBRARY))
ifneq ($(SANITIZER),thread)
$(THREAD_LIBRARY): FORCE
	@$(MAKE) --no-print-directory SANITIZER=thread $@
endif

# Another program is graded by what one can see from outside; the same program with ThreadSanitizer too.
grade_step = 'step $(STEP)=OUT=$(OUT) FIXED="$(FIXED)" tests/steps.sh grade $(STEP) $(SERVER)' \
    $(if $(RACES_OF),'step $(STEP)$(comma) ThreadSanitizer=OUT=$(OUT) tests/steps.sh grade-races $(STEP) $(RACES_OF)')

## test-step STEP=N.M [SERVER=path]: test a step, or your own program by the tests of one
# RACES_OF=path is that program once more, built with -fsanitize=thread.
.PHONY: test-step
test-step: $$(if $$(SERVER),$$(OUT)/tests/steps,$$(need_steps))
	$(call need_step,test-step)@tests/run.sh $(if $(SERVER),$(grade_step),$(run_steps))
need_step = $(if $(STEP),,$(error $1: say which: make $1 STEP=2.4; there are: $(shell tests/steps.sh names)))

### test-steps: the same for all steps, and that their pages show their code
.PHONY: test-steps
test-steps: $$(need_steps)
	@tests/run.sh $(run_steps)

### test-exercise STEP=N.M SERVER=path: grade what you have made of the exercise on a step's page
.PHONY: test-exercise
test-exercise: $(OUT)/tests/steps
	$(call need_step,test-exercise)$(if $(SERVER),,$(error test-exercise: say which program is \
	    yours: make test-exercise STEP=$(STEP) SERVER=path))@tests/run.sh \
	    'exercise $(STEP)=OUT=$(OUT) FIXED="$(FIXED)" tests/steps.sh exercise $(STEP) $(SERVER)'

# ---- what the steps have shown, beside what the servers execute -----------------------------------

run_figures = $(if $(SANITIZER),,$(if $(STEPS),'figures=python3 -B tests/figures.py $(BUILD)/figures'))
NEED_FIGURES = tests/need.sh 'gcov and Python 3' 'command -v gcov && command -v python3' gcc python3

### test-figures: hold the lines that each stage executes, from start to stop, against what the steps have shown up to it
.PHONY: test-figures
test-figures:
	@$(NEED_FIGURES)
	@tests/run.sh $(run_figures)

### figures: list the given lines that a line passes in docs/way.md
.PHONY: figures
figures:
	@$(NEED_FIGURES)
	@python3 -B tests/figures.py --write $(BUILD)/figures

# ---- labs: the steps, to be written by you ------------------------------------------------------

LAB := $(or $(DIR),$(BUILD)/lab/$(STEP))

## lab STEP=N.M [DIR=folder]: a folder in which you write that step out of the one before
.PHONY: lab
lab:
	$(call need_step,lab)@LIBRARIES='$(call libraries,stage$(firstword $(subst ., ,$(STEP))))' \
	    tests/lab.sh lay-out $(STEP) '$(LAB)'

### exercise STEP=N.M [DIR=folder]: a folder in which you do the exercise on that step's page
.PHONY: exercise
exercise:
	$(call need_step,exercise)@LIBRARIES='$(call libraries,stage$(firstword $(subst ., ,$(STEP))))' \
	    tests/lab.sh exercise $(STEP) '$(or $(DIR),$(BUILD)/exercise/$(STEP))'

### hint STEP=N.M: the next of three hints for that step
.PHONY: hint
hint:
	$(call need_step,hint)@tests/lab.sh hint $(STEP) '$(or $(HINTS),$(BUILD)/hints/$(STEP))'

### solution STEP=N.M: how that step is done
.PHONY: solution
solution:
	$(call need_step,solution)@tests/lab.sh solution $(STEP)

### grade DIR=folder: grade a folder of submissions, such as DIR/ann/2.4; a report, and a table in DIR
.PHONY: grade
grade: $(OUT)/tests/steps $(LIBRARY)
	@$(MAKE) --no-print-directory SANITIZER=thread $(LIBRARY:$(OUT)/%=$(BUILD)/thread/%)
	@OUT=$(OUT) tests/grade.sh '$(DIR)'

### class DIR=folder: lay out what an example class of thirty hands in, to try `make grade` with
.PHONY: class
class:
	@tests/class.sh '$(DIR)'

### test-graders [STEP=N.M]: show that the tests of the labs catch programs that people write by mistake
.PHONY: test-graders
test-graders: $$(need_graders)
	@tests/run.sh $(run_graders)

### test-grade: grade submissions that are right, wrong, silent, endless, and that fork without end
.PHONY: test-grade
test-grade: $(OUT)/tests/steps $(LIBRARY)
	@tests/run.sh $(run_grade)
