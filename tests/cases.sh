#!/bin/sh
# Which test is for which of the forty cases, and whether one is missing (tests/cases.txt).
#
#   usage: tests/cases.sh            checks; prints what is missing
#          tests/cases.sh --table    prints the table for docs/withstands.md
#          tests/cases.sh --list     prints every test with its case and its stages
#
# A test's file tells which stages it runs for: those in tests/conformance, tests/faults and
# tests/soak run for all, those in tests/chat, tests/pop3 and tests/http for the stages that have
# applications, those in tests/stageN for stage N. Tests in tests/common are of parts that all stages
# share; they count too, but a part is no server, so the table tells them apart.
#
# Stages that are not there yet are not asked for. The last line is "N passed, N failed": a case is
# passed if no test of it is missing.
set -eu
cd "$(dirname "$0")/.."

stages=$(for folder in stage[1-5]-*/; do
    number=${folder#stage}
    printf '%s' "${number%%-*}"
done)

# CASE STAGES SUITE NAME, a line for each test of a case.
list() {
    grep -roE '[a-z0-9_]*case_[0-9]{2}[a-z0-9_]*' tests --include='*.c' | sort -u |
        awk -F '[/:]' -v stages="$stages" '
            function runs_for(suite) {
                if (suite ~ /^stage/) return substr(suite, 6)
                if (suite ~ /^(chat|pop3|http)$/) return "45"
                return suite == "common" ? "unit" : stages
            }
            {
                name = $NF
                match(name, /case_[0-9][0-9]/)
                print substr(name, RSTART + 5, 2) + 0, runs_for($2), $2, name
            }'
}

if [ "${1-}" = --list ]; then
    list | sort -n
    exit
fi

list | awk -v stages="$stages" -v table="${1-}" '
    FILENAME == "-" {
        tests[$1]++
        suites[$1, $3]++
        if ($2 == "unit")
            units[$1]++
        else
            for (i = 1; i <= length($2); i++)
                found[$1, substr($2, i, 1)]++
        next
    }
    /^#/ || NF == 0 { next }
    {
        number = $1
        # The first two columns are words; the applications may be several.
        line = $0
        sub(/^[0-9]+ +/, "", line)
        wanted = line
        sub(/ .*/, "", wanted)
        sub(/^[^ ]+ +/, "", line)
        applications = line
        sub(/  .*/, "", applications)
        sub(/^([^ ]| [^ ])+  +/, "", line)
        what = line

        missing = ""
        row = "| " number " | " what " |"
        for (i = 1; i <= 5; i++) {
            asked = index(wanted, i) > 0
            count = found[number, i] + 0
            if (asked && index(stages, i) && count + units[number] == 0)
                missing = missing " stage " i
            cell = count > 0 ? count : asked ? units[number] > 0 ? "parts" : "-" : ""
            row = row " " cell " |"
        }
        count = split(applications, application, / /)
        cells = ""
        for (i = 1; i <= count; i++) {
            name = application[i]
            if (name == "-")
                continue
            if (suites[number, name] == 0 && system("test -d tests/" name) == 0)
                missing = missing " " name
            if (suites[number, name] > 0)
                cells = cells (cells == "" ? "" : ", ") name " " suites[number, name]
        }
        row = row " " (units[number] > 0 ? units[number] : "") " | " cells " |"
        if (table != "")
            print row
        else if (missing != "")
            print "case " number " has no test for:" missing
        missing == "" ? passed++ : failed++
    }
    END {
        if (table == "")
            printf "%d passed, %d failed\n", passed, failed
        exit failed > 0 && table == ""
    }' - tests/cases.txt
