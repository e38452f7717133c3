/*
 * Tests docs/play/scheduler.js: takes every schedule of every puzzle on the page, with the step function
 * that the page itself uses.
 *
 *   usage: node tests/play/explore.js        (tests/play/run.sh calls this)
 *
 * - A mistake ends as docs/model/ says with spin: what tests/model.sh expects of it is what is found here.
 *   Where nothing is wrong, no schedule is bad. That model is of stage 4; a mistake in stage 3's handshake,
 *   which has the same order of guard, wakeup and change, has to end in the same way.
 * - The shortest bad schedule that the page replays is one, and from each state the hint leads to an end
 *   that is as bad, or there is none.
 * - A change of one rule changes the verdict on a puzzle. So it is these rules that the verdicts come from.
 * - The lines of code that the page shows are in the sources, in the functions that it says.
 *
 * Prints a line for each puzzle, and "N passed, N failed" at the end.
 */
'use strict';

const fs = require('fs');
const path = require('path');

const top = path.join(__dirname, '..', '..');
const Scheduler = require(path.join(top, 'docs/play/scheduler.js'));
const {rules, puzzles} = Scheduler;
const read = file => fs.readFileSync(path.join(top, file), 'utf8');

let passed = 0, failed = 0;
function check(holds, what) {
    if (holds) {
        passed++;
    } else {
        failed++;
        console.log('play: FAILED: ' + what);
    }
}

// ---- the verdicts are spin's --------------------------------------------------------------------------

// What spin prints of a mistake, in tests/model.sh, and what it is called here.
const KINDS = {
    'invalid end state': 'stuck',
    'is_answered': 'lost',
    'is_processed': 'lost',
    'selector_lock': 'together',
    '.over)': 'resumed',
    'acceptance cycle': 'starved',
};
const expected = new Map(read('tests/model.sh').split('\n')
    .map(line => /^([A-Z_0-9]+)\|([^|]+)\|(short|deep|[a-z]+)\|/.exec(line)).filter(found => found)
    .map(found => [found[1], KINDS[found[2]]]));

const kindOf = found => found.worst ? found.worst.kind : found.kinds.join() || 'nothing bad';
const results = new Map();
for (const puzzle of puzzles) {
    const found = Scheduler.explore(puzzle), {worst} = found;
    results.set(puzzle.id, found);
    const want = puzzle.mistake ? expected.get(puzzle.mistake) : 'nothing bad';
    const has = kindOf(found);
    console.log(`${puzzle.id.padEnd(34)} ${String(found.states.size).padStart(5)} states  ${has}` +
        (worst ? `, the shortest way has ${worst.way.length + worst.round.length} steps` : ''));
    check(has === want, `${puzzle.id}: ${has}, but tests/model.sh expects of ${puzzle.mistake || 'the model'}: ${want}`);
    check(worst !== null === found.kinds.length > 0, `${puzzle.id}: ${found.kinds.join()} is found, and no schedule that leads there`);
    check(puzzle.mistake === null || read('docs/model.md').includes(`\n### ${puzzle.mistake}:`),
        `${puzzle.id}: docs/model.md has no section on ${puzzle.mistake}`);
    const odds = puzzle.scene.forever ? null : Scheduler.odds(found.states);
    check(odds === null || (puzzle.mistake ? odds > 0 && odds < 1 : odds === 0), `${puzzle.id}: dice end badly in ${odds}`);
}

// ---- what the page replays and hints at ---------------------------------------------------------------

// Takes the steps of a schedule. Returns the last state, or null if a step cannot be taken.
function run(puzzle, state, schedule, visit = () => {}) {
    for (const t of schedule) {
        if (Scheduler.judge(puzzle, state) || !Scheduler.can(puzzle, state, t))
            return null;
        state = Scheduler.step(puzzle, state, t);
        visit(state);
    }
    return state;
}

function isAsBad(puzzle, from, {kind, way, round}) {
    const last = run(puzzle, from, way);
    if (kind !== 'starved')
        return last !== null && Scheduler.judge(puzzle, last) === kind;
    let starves = last !== null && !Scheduler.can(puzzle, last, 0);
    const again = last && run(puzzle, last, round, state => {
        starves = starves && !Scheduler.can(puzzle, state, 0) && !Scheduler.settled(state);
    });
    return starves && Scheduler.name(again) === Scheduler.name(last) &&
        puzzle.threads.every((thread, t) => t === 0 || round.includes(t));
}

for (const puzzle of puzzles) {
    const {states, worst} = results.get(puzzle.id);
    if (!worst)
        continue;
    check(isAsBad(puzzle, Scheduler.start(puzzle), worst), `${puzzle.id}: the schedule ${worst.way.join(' ')} is not bad`);
    // The hints, in each state: a bad end is in reach after one of the steps if and only if it is now.
    const hints = new Map([...states.keys()].map(key => [key, Scheduler.worst(puzzle, states, key)]));
    const wrong = [...states].filter(([key, each]) => {
        const hint = hints.get(key);
        if (hint)
            return !isAsBad(puzzle, each.state, hint);
        return each.after.some(its => its !== null && hints.get(its));
    });
    check(wrong.length === 0, `${puzzle.id}: ${wrong.length} hints lead nowhere`);
}

// ---- a rule that is changed changes a verdict ------------------------------------------------------------

const always = () => true;
const skip = (s, t) => { s.at[t]++; };

// RULE, what takes its place, the puzzle, and the verdicts before and after.
const plants = [
    ['passBarrier', {can: always, does: skip}, 'register', 'nothing bad', 'stuck'],
    ['passBarrier', {can: s => !s.guard.length, does: skip}, 'stream', 'nothing bad', 'starved'],
    ['passMutex', {can: always, does: skip}, 'interest', 'nothing bad', 'stuck'],
    ['fallAsleep', rules.overwriteSleep, 'register', 'nothing bad', 'stuck'],
    ['overwriteSleep', rules.fallAsleep, 'register-LOST_WAKEUP', 'stuck', 'nothing bad'],
    ['wait', {can: s => !s.sleeps, does: rules.wait.does}, 'register', 'nothing bad', 'stuck'],
    ['wakeUp', {can: always, does: skip}, 'register', 'nothing bad', 'restless'],
    ['unlockSelector', {can: always, does: skip}, 'register', 'nothing bad', 'stuck'],
    ['takeAll', {can: always, does: (s, t) => { s.taken = s.queue.slice(0, 1); s.queue = []; s.at[t] = s.taken.length ? s.at[t] + 1 : 0; }},
        'two', 'nothing bad', 'lost'],
    ['lookAt', {can: always, does: (s, t) => { s.taken = []; s.at[t] = 0; }}, 'register', 'nothing bad', 'lost'],
    ['takeGuard', rules.takeGuardFirst, 'stream', 'nothing bad', 'starved'],
    ['takeGuardFirst', rules.takeGuard, 'stream-READERS_FIRST', 'starved', 'nothing bad'],
    ['takeMutex', {can: s => !s.guard.length, does: skip}, 'interest', 'nothing bad', 'stuck'],
    ['releaseGuard', {can: always, does: skip}, 'register', 'nothing bad', 'stuck'],
    ['call', {can: always, does: (s, t) => { s.at[t] += s.sleep === 'ASLEEP' ? 1 : 2; }}, 'register', 'nothing bad', 'stuck'],
    ['callIfFirst', {can: always, does: (s, t) => { s.at[t] += 2; }}, 'done', 'nothing bad', 'lost'],
    ['lookIntoQueue', {can: always, does: skip}, 'register', 'nothing bad', 'lost'],
    ['write', {can: always, does: skip}, 'register', 'nothing bad', 'stuck'],
    ['register', {can: () => false, does: skip}, 'register', 'nothing bad', 'stuck'],
    ['registerUnlocked', rules.register, 'register-NO_SELECTOR_LOCK', 'together', 'nothing bad'],
    ['setInterest', {can: s => s.lock === null, does: skip}, 'interest', 'nothing bad', 'lost'],
    ['put', rules.putLive, 'done', 'nothing bad', 'resumed'],
    ['putLive', rules.put, 'done-DIE_AFTER_ENQUEUE', 'resumed', 'nothing bad'],
    ['putWhenRoom', rules.put, 'two-BOUNDED_QUEUE', 'stuck', 'nothing bad'],
];

for (const [rule, planted, id, before, after] of plants) {
    const puzzle = puzzles.find(each => each.id === id);
    const was = kindOf(results.get(id)), is = kindOf(Scheduler.explore(puzzle, {...rules, [rule]: planted}));
    check(was === before && is === after, `${id}: with another ${rule} the verdict goes from "${was}" to "${is}", not from "${before}" to "${after}"`);
}

// ---- the code is there ---------------------------------------------------------------------------------

// The body of a function: from its name at the beginning of a definition to the brace that ends it.
function bodyOf(file, name) {
    const found = new RegExp(`^[a-z][^;{]*\\b${name}\\([^;]*?\\)[^;]*?\\n\\{\\n([^]*?)^\\}`, 'm').exec(read(file));
    return found ? found[1] : '';
}

for (const puzzle of puzzles) {
    for (const line of puzzle.threads.flatMap(thread => thread.program)) {
        check(line.rule === null || rules[line.rule], `${puzzle.id}: there is no rule ${line.rule}`);
        if (!line.in || (line.mark === '+' && line.rule === 'overwriteSleep'))
            continue;
        const file = Scheduler.fileOf(puzzle, line);
        for (const code of [line.code, line.also].filter(each => each))
            check(bodyOf(file, line.in).includes(code), `${puzzle.id} shows "${code}", which is not in ${line.in}() in ${file}`);
    }
}

console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
