/*
 * The handshake of the selector guard, one step at a time: what scheduler.html plays, and what
 * tests/play/explore.js searches. Nothing here knows of a page.
 *
 * A puzzle is a few threads, each with a program: a list of lines, most of them with the name of a rule.
 * A rule says in which states a thread may take that step and what the step changes. A scheduler's only
 * choice is which thread goes next. The rules are those of docs/model/selector.pml, selector_guard.pml,
 * handler_adapter.pml and dispatcher.pml, and a mistake has the name that it has there. No event comes
 * from outside and no deadline passes: what a wakeup does not bring about never happens.
 */
'use strict';

const Scheduler = (() => {
    const NOBODY = null;

    // ---- what a step may do, and what it changes ----------------------------------------------------

    // In a rule, s is the state, which does() may change; t is the number of the thread, l its line.
    const next = (s, t) => { s.at[t]++; };
    const keyOf = (s, l) => s.keys[l.connection];
    const holder = s => s.guard.length > 0;

    const rules = {
        // The dispatcher's.
        passBarrier: { // a read/write lock: a writer that waits keeps new readers out
            can: s => !holder(s) || !s.barrierWaits,
            does: (s, t) => {
                if (holder(s)) {
                    s.barrierWaits = true;
                } else {
                    s.barrierWaits = false;
                    next(s, t);
                }
            },
        },
        passMutex: {can: s => !holder(s), does: next},
        lockSelector: {can: s => s.lock === NOBODY, does: (s, t) => { s.lock = t; next(s, t); }},
        lookIntoQueue: {can: () => true, does: (s, t) => { s.busy = s.queue.length > 0; next(s, t); }},
        fallAsleep: { // the compare-and-exchange: not if somebody has called since the last select
            can: () => true,
            does: (s, t) => {
                s.sleeps = !s.busy && s.sleep === 'AWAKE';
                if (s.sleeps)
                    s.sleep = 'ASLEEP';
                next(s, t);
            },
        },
        overwriteSleep: { // LOST_WAKEUP: a store
            can: () => true,
            does: (s, t) => {
                s.sleeps = !s.busy;
                if (s.sleeps)
                    s.sleep = 'ASLEEP';
                next(s, t);
            },
        },
        wait: {
            can: s => !s.sleeps || s.written,
            does: (s, t) => { s.sleeps = false; s.written = false; next(s, t); },
        },
        wakeUp: {can: () => true, does: (s, t) => { s.sleep = 'AWAKE'; next(s, t); }},
        unlockSelector: {can: () => true, does: (s, t) => { s.lock = NOBODY; next(s, t); }},
        takeAll: {
            can: () => true,
            does: (s, t) => { s.taken = s.queue; s.queue = []; s.at[t] = s.taken.length ? s.at[t] + 1 : 0; },
        },
        lookAt: { // one connection of those taken out
            can: () => true,
            does: (s, t) => {
                const key = s.keys[s.taken.shift()];
                if (key.dead) {
                    key.gone = true;
                } else if (key.over) {
                    s.trouble = 'resumed';
                    key.interest = 'reading';
                } else {
                    key.started = true;
                    key.interest = 'reading';
                }
                if (!s.taken.length && !s.trouble)
                    s.at[t] = 0;
            },
        },

        // Any other thread's.
        takeGuard: {can: s => !s.barrierWaits, does: (s, t) => { s.guard.push(t); next(s, t); }},
        takeGuardFirst: {can: () => true, does: (s, t) => { s.guard.push(t); next(s, t); }}, // READERS_FIRST
        takeMutex: {can: s => !holder(s), does: (s, t) => { s.guard.push(t); next(s, t); }},
        releaseGuard: {can: () => true, does: (s, t) => { s.guard = s.guard.filter(each => each !== t); next(s, t); }},
        call: { // the exchange; the line below it, the write, is only for a thread that found it asleep
            can: () => true,
            does: (s, t) => { s.at[t] += s.sleep === 'ASLEEP' ? 1 : 2; s.sleep = 'CALLED'; },
        },
        callIfFirst: {
            can: () => true,
            does: (s, t, l) => {
                if (s.first[t])
                    rules.call.does(s, t, l);
                else
                    s.at[t] += 2;
            },
        },
        write: {can: () => true, does: (s, t) => { s.written = true; next(s, t); }},
        register: {can: s => s.lock === NOBODY, does: (s, t, l) => { keyOf(s, l).registered = true; next(s, t); }},
        registerUnlocked: { // NO_SELECTOR_LOCK
            can: () => true,
            does: (s, t, l) => {
                if (s.lock !== NOBODY)
                    s.trouble = 'together';
                keyOf(s, l).registered = true;
                next(s, t);
            },
        },
        setInterest: {can: s => s.lock === NOBODY, does: (s, t, l) => { keyOf(s, l).interest = 'reading'; next(s, t); }},
        put: { // under the state lock: dead, not running any more, and in the queue, all in one step
            can: () => true,
            does: (s, t, l) => {
                keyOf(s, l).dead = keyOf(s, l).over;
                s.first[t] = s.queue.length === 0;
                s.queue.push(l.connection);
                next(s, t);
            },
        },
        putLive: { // DIE_AFTER_ENQUEUE: the first half of it
            can: () => true,
            does: (s, t, l) => { s.first[t] = s.queue.length === 0; s.queue.push(l.connection); next(s, t); },
        },
        markDead: {can: () => true, does: (s, t, l) => { keyOf(s, l).dead = keyOf(s, l).over; next(s, t); }},
        putWhenRoom: {can: s => s.queue.length < 1, does: (s, t, l) => rules.put.does(s, t, l)}, // BOUNDED_QUEUE
        again: {can: () => true, does: (s, t) => { s.at[t] = 0; }},
    };

    // ---- programs ---------------------------------------------------------------------------------------

    // A line of a program. Its code is part of one line of the function `in`, or a comment in our words.
    // A line with the mark + is the mistake's; one with - is what the mistake leaves out, and has no rule.
    const line = (rule, within, code, says, more) => Object.assign({rule, in: within, code, says}, more);
    const gone = (within, code) => line(null, within, code, '', {mark: '-'});

    function wakeup(rule, more) {
        return [
            line(rule, 'selector_wakeup', 'atomic_exchange(&selector->sleep, CALLED) == ASLEEP', 'calls the selector', more),
            line('write', 'selector_wakeup', 'selector->provider->wakeup(', 'writes the wakeup',
                Object.assign({note: 'if it was asleep'}, more)),
        ];
    }

    function selecting(has, mutex) {
        const lock = mutex ? 'mutex_lock(&guard->lock);' : 'rwlock_lock(&guard->lock);';
        const unlock = mutex ? 'mutex_unlock(&guard->lock);' : 'rwlock_unlock(&guard->lock);';
        const stands = !has.NOGUARD && !has.WAKEUP_ONLY && !has.NO_BARRIER;
        const barrier = stands
            ? [line(mutex ? 'passMutex' : 'passBarrier', 'selector_guard_barrier', lock, 'passes the barrier', {also: unlock})]
            : [gone('selector_guard_barrier', lock), gone('selector_guard_barrier', unlock)];
        const look = 'do not sleep if the status-change queue holds anything';
        const exchange = 'atomic_compare_exchange_strong(&selector->sleep, &awake, ASLEEP)';
        return [
            ...barrier,
            ...(mutex ? [] : has.SLEEP_ON_QUEUE ? [gone('', look)] : [line('lookIntoQueue', '', look, 'looks into the queue')]),
            line('lockSelector', 'selector_select', 'mutex_lock(&selector->lock);', "takes the selector's lock"),
            ...(has.LOST_WAKEUP ? [gone('wait_for_events', exchange),
                line('overwriteSleep', 'wait_for_events', 'atomic_exchange(&selector->sleep, ASLEEP)', 'goes to sleep', {mark: '+'})]
                : [line('fallAsleep', 'wait_for_events', exchange, 'goes to sleep, unless called')]),
            line('wait', 'wait_for_events', 'selector->provider->wait(', 'comes back from the kernel'),
            line('wakeUp', 'wait_for_events', 'atomic_exchange(&selector->sleep, AWAKE);', 'says that it is awake'),
            line('unlockSelector', 'selector_select', 'mutex_unlock(&selector->lock);', "unlocks the selector"),
        ];
    }

    function dispatching(has) {
        return [
            ...selecting(has, false),
            line('takeAll', '', 'take everything out of the status-change queue', 'empties the queue'),
            line('lookAt', '', 'for each: start, resume or drop the connection', 'looks at a connection'),
        ];
    }

    const reacting = has => [...selecting(has, true), line('again', '', 'next round', 'begins the next round')];

    function acquiring(has, mutex) {
        const name = 'selector_guard_acquire';
        const lock = mutex ? 'mutex_lock(&guard->lock);' : 'rwlock_lock_shared(&guard->lock);';
        const rule = mutex ? 'takeMutex' : has.READERS_FIRST ? 'takeGuardFirst' : 'takeGuard';
        const take = line(rule, name, lock, 'takes the guard', has.READERS_FIRST ? {note: 'passes a writer that waits', mark: '+'} : {});
        const noWakeup = gone(name, 'selector_wakeup(guard->selector);');
        if (has.NOGUARD)
            return [gone(name, lock), noWakeup];
        if (has.WAKEUP_ONLY)
            return [gone(name, lock), ...wakeup('call')];
        if (has.WAKEFIRST)
            return [...wakeup('call', {mark: '+'}), take, noWakeup];
        if (has.GUARD_WITHOUT_WAKEUP)
            return [take, noWakeup];
        return [take, ...wakeup('call')];
    }

    function releasing(has, mutex) {
        const unlock = mutex ? 'mutex_unlock(&guard->lock);' : 'rwlock_unlock_shared(&guard->lock);';
        return has.NOGUARD || has.WAKEUP_ONLY ? [gone('selector_guard_release', unlock)]
            : [line('releaseGuard', 'selector_guard_release', unlock, 'releases the guard')];
    }

    // The end of a registration.
    function putting(has, connection) {
        const name = '#' + (connection + 1);
        return line(has.BOUNDED_QUEUE ? 'putWhenRoom' : 'put', '', `put ${name} into the status-change queue`, `puts ${name} into the queue`,
            has.BOUNDED_QUEUE ? {connection, mark: '+', note: 'waits for room; there is room for one'} : {connection});
    }

    // The end of a run.
    function done(has, connection) {
        const name = '#' + (connection + 1), more = {connection};
        const put = putting(has, connection);
        if (has.WAKE_BEFORE_PUT)
            return [...wakeup('call', {mark: '+'}), put, gone('selector_wakeup', 'selector->provider->wakeup(')];
        if (has.DIE_AFTER_ENQUEUE)
            return [line('putLive', '', `put ${name} into the status-change queue`, `puts ${name} into the queue`, more),
                line('markDead', '', `mark ${name} as dead`, `marks ${name} as dead`, {connection, mark: '+'}), ...wakeup('callIfFirst')];
        return [put, ...wakeup('callIfFirst')];
    }

    function registering(has, connection) {
        const says = `registers #${connection + 1}`;
        return [
            ...acquiring(has, false),
            ...(has.NO_SELECTOR_LOCK ? [gone('selector_register', 'mutex_lock(&selector->lock);'),
                line('registerUnlocked', 'selector_register', 'selector->key_count++;', says, {connection, mark: '+', note: 'without the lock'})]
                : [line('register', 'selector_register', 'mutex_lock(&selector->lock);', says, {connection, note: 'add the key, unlock'})]),
            putting(has, connection),
            ...releasing(has, false),
        ];
    }

    function handingBack(has) {
        return [
            ...acquiring(has, true),
            line('setInterest', 'selector_interest', 'mutex_lock(&selector->lock);', 'sets the interest of #1', {connection: 0, note: 'set it, unlock'}),
            ...releasing(has, true),
        ];
    }

    const failing = has => [...acquiring(has, false), ...releasing(has, false), line('again', '', 'no memory for this one: the next', 'begins with the next')];

    // ---- scenes and puzzles -----------------------------------------------------------------------------

    const thread = (name, program, doing) => ({name, program, doing});
    const fresh = {registered: false, started: false, over: false, dead: false, gone: false, interest: 'nothing'};

    const scenes = {
        interest: {
            title: 'Stage 3: a worker sets an interest', stage: 3, folder: 'stage3-workers',
            story: 'The worker has answered connection #1 and wants the selector to watch it again.',
            threads: has => [thread('reactor', reacting(has), 'the loop'), thread('worker', handingBack(has), 'handing #1 back')],
            begin: {keys: [{...fresh, registered: true, started: true}]},
        },
        register: {
            title: 'Stage 4: an acceptor registers a connection', stage: 4, folder: 'stage4-framework',
            story: 'The acceptor has a new connection, #1. It has to be registered with the selector, and the dispatcher has to find it in the queue and start it.',
            threads: has => [thread('dispatcher', dispatching(has), 'the loop'), thread('acceptor', registering(has, 0), 'registering #1')],
            begin: {keys: [fresh]},
        },
        two: {
            title: 'Stage 4: two acceptors', stage: 4, folder: 'stage4-framework',
            story: 'Two acceptors register a connection each. Both may hold the guard, because they take it for reading.',
            threads: has => [thread('dispatcher', dispatching(has), 'the loop'), thread('acceptor A', registering(has, 0), 'registering #1'),
                thread('acceptor B', registering(has, 1), 'registering #2')],
            begin: {keys: [fresh, fresh]},
        },
        stream: {
            title: 'Stage 4: a stream of registrations', stage: 4, folder: 'stage4-framework',
            story: '#1 is in the queue, and the dispatcher has been called. Meanwhile two acceptors try to register one connection after the other, without an end and in vain.',
            threads: has => [thread('dispatcher', dispatching(has), 'the loop'), thread('acceptor A', failing(has), 'again and again'),
                thread('acceptor B', failing(has), 'again and again')],
            begin: {keys: [{...fresh, registered: true}], queue: [0], sleep: 'CALLED'}, forever: true,
        },
        done: {
            title: 'Stage 4: the end of a run', stage: 4, folder: 'stage4-framework',
            story: "The worker's run of #1 has found that the client is gone, so #1 has to be dropped. An acceptor registers #2 at the same time.",
            threads: has => [thread('dispatcher', dispatching(has), 'the loop'), thread('worker', done(has, 0), 'run of #1 is over'),
                thread('acceptor', registering({}, 1), 'registering #2')],
            begin: {keys: [{...fresh, registered: true, started: true, over: true}, fresh]},
        },
    };

    // SCENE, MISTAKE, the title, what is different, and afterwards: what happened and who notices.
    const puzzles = [
        ['interest', 'GUARD_WITHOUT_WAKEUP', 'no wakeup', 'The worker takes the guard and does not wake the selector. This is stage 3 with --guard none.',
            'The guard keeps the reactor from going back to sleep. It does not end a sleep that has begun. A client whose line was answered sends the next one, and nobody reads it until some other client happens to wake the reactor.'],
        ['interest', 'NOGUARD', 'nothing at all', 'No guard, no wakeup: the worker just calls selector_interest.',
            'The reactor holds the selector’s lock while it sleeps, so the worker waits as long as the sleep lasts. On a busy server some event soon ends the sleep and nobody notices; at night the client waits.'],
        ['interest', 'WAKEUP_ONLY', 'a wakeup, no guard', 'The worker wakes the selector and then asks for its lock. Nothing stops the reactor in between.',
            'The wakeup ended one sleep. The reactor went round, took the lock and slept again before the worker had asked for it. That is a race, and it works nearly every time.'],
        ['interest', 'WAKEFIRST', 'the wakeup before the guard', 'Both are there, in the wrong order: first the wakeup, then the guard.',
            'A round of the loop used the wakeup up while nobody held the guard, so nothing stopped the reactor at the barrier. When the worker had the guard, its wakeup was spent.'],
        ['interest', null, 'as it is', 'Guard, wakeup, change, release. Nothing is wrong here: try to break it.', ''],
        ['register', 'NOGUARD', 'nothing at all', 'This is stage 4 with --guard none: the acceptor just registers.',
            'A client is connected and gets no answer until some other client does something. The acceptor is the main thread, which also hears the signals. So with this option the dispatcher hears them, too; else SIGTERM would not end the server.'],
        ['register', 'GUARD_WITHOUT_WAKEUP', 'no wakeup', 'The acceptor takes the guard and does not wake the selector.',
            'The guard keeps the dispatcher from going back to sleep. It does not end a sleep.'],
        ['register', 'WAKEUP_ONLY', 'a wakeup, no guard', 'The acceptor wakes the selector, then asks for its lock.',
            'The dispatcher used the wakeup up, went round, and slept again with the lock before the acceptor asked for it.'],
        ['register', 'WAKEFIRST', 'the wakeup before the guard', 'The acceptor wakes the selector first and takes the guard then.',
            'The acceptor got the guard when the dispatcher was past the barrier already. The wakeup, spent in the round before, could not end the sleep that followed.'],
        ['register', 'NO_BARRIER', 'no barrier', 'The acceptor does everything right, but the dispatcher never comes to the guard.',
            'The wakeup made the dispatcher come back, and nothing kept it from going round and sleeping again. A guard that only one side takes guards nothing.'],
        ['register', 'LOST_WAKEUP', 'a store in place of the compare-and-exchange', 'Before it sleeps, the dispatcher writes ASLEEP without looking at what was there.',
            'The acceptor found the selector awake, so it wrote nothing and left the note CALLED. The dispatcher wrote ASLEEP over it. What is cleared before a sleep has to be looked at in the same step.'],
        ['register', 'NO_SELECTOR_LOCK', 'no lock in the selector', 'There is the guard, so the acceptor adds its key without the selector’s lock.',
            'The guard made the dispatcher come back. It did not keep it out of the select that it was entering. With poll(2), whose array may move as it grows, this is a crash.'],
        ['register', 'SLEEP_ON_QUEUE', 'no look before the sleep', 'The dispatcher empties the queue in each round, so the look between barrier and select seems to be too much.',
            'The dispatcher waited at the barrier, as it should, but had looked at the queue before. Its next look is after the next select, and that one sleeps. The chat’s greeting does not come until some other client speaks.'],
        ['register', null, 'as it is', 'The order of the course: read lock, wakeup, register, queue, release. Try to break it.', ''],
        ['two', 'BOUNDED_QUEUE', 'a queue with room for one', 'Whoever finds the queue full waits for room, with the guard held.',
            'Only the dispatcher empties the queue, and the dispatcher waits at the barrier for the acceptor that waits for room. For a queue of a hundred it takes a hundred connections: this is erratum 3.'],
        ['two', null, 'as it is', 'The queue is a list through the connections, so there is always room.', ''],
        ['stream', 'READERS_FIRST', 'readers may pass a writer that waits', 'glibc’s default: while the dispatcher waits at the barrier, new readers still get in. Nobody gets stuck here. Keep the dispatcher at the barrier forever: bring the state round to one that was there before, and let both acceptors take steps on the way.',
            'Both acceptors make progress, and there is no moment without a reader. New clients come in and nobody is served.'],
        ['stream', null, 'as it is', 'The lock prefers writers: once the dispatcher waits, no new reader gets in.', ''],
        ['done', 'DIE_AFTER_ENQUEUE', 'done in two steps', 'The worker first puts #1 into the queue and then marks it as dead, instead of both under one lock.',
            'The dispatcher took #1 out between the two steps, saw a connection like any other, and had the selector watch it. Nobody looks at it again: the client sees no close, and the descriptor is lost. This is erratum 7.'],
        ['done', 'WAKE_BEFORE_PUT', 'the wakeup before the queue', 'The worker wakes the dispatcher and then puts #1 into the queue.',
            'The dispatcher woke at once, found the queue empty, and slept. Nobody drops #1: its client sees no close.'],
        ['done', null, 'as it is', 'Dead, not running, and in the queue: one step, under the state lock.', ''],
    ].map(([scene, mistake, title, told, afterwards]) => {
        const has = mistake ? {[mistake]: true} : {};
        const threads = scenes[scene].threads(has).map(each => ({...each, steps: each.program.filter(l => l.rule)}));
        return {id: scene + (mistake ? '-' + mistake : ''), scene: scenes[scene], mistake, title, told, afterwards, threads};
    });

    // Where a line's function is.
    const fileOf = (puzzle, l) =>
        l.in.startsWith('selector_guard') ? puzzle.scene.folder + '/selector_guard.c' : 'common/events/selector.c';

    // ---- states -----------------------------------------------------------------------------------------

    const copy = s => JSON.parse(JSON.stringify(s));
    const name = s => JSON.stringify(s);

    function start(puzzle) {
        const {begin} = puzzle.scene;
        return copy({
            at: puzzle.threads.map(() => 0), guard: [], barrierWaits: false, lock: NOBODY, sleep: begin.sleep || 'AWAKE',
            busy: false, sleeps: false, written: false, queue: begin.queue || [], taken: [], first: puzzle.threads.map(() => false),
            keys: begin.keys, trouble: null,
        });
    }

    const lineOf = (puzzle, s, t) => puzzle.threads[t].steps[s.at[t]];

    function can(puzzle, s, t, use = rules) {
        const l = lineOf(puzzle, s, t);
        return s.trouble === null && l !== undefined && use[l.rule].can(s, t, l);
    }

    function step(puzzle, s, t, use = rules) {
        const after = copy(s), l = lineOf(puzzle, s, t);
        use[l.rule].does(after, t, l);
        if (after.at[t] >= puzzle.threads[t].steps.length && t === 0)
            after.at[t] = 0; // thread 0 is the loop
        return after;
    }

    const movable = (puzzle, s, use) => puzzle.threads.map((each, t) => t).filter(t => can(puzzle, s, t, use));

    // What a connection is for: it is watched, or it is gone.
    const settled = s => s.keys.every(key => key.gone || key.interest === 'reading');

    /*
     * null while somebody can go on. Else 'good', or what is wrong: 'together', two threads in the key
     * set; 'resumed', a dead connection; 'stuck', a thread waits forever; 'lost', all have done their work
     * and sleep, and a connection was forgotten.
     */
    function judge(puzzle, s, use = rules) {
        if (s.trouble)
            return s.trouble;
        if (movable(puzzle, s, use).length)
            return null;
        const loop = lineOf(puzzle, s, 0);
        if (loop.rule !== 'wait' || puzzle.threads.some((each, t) => t > 0 && lineOf(puzzle, s, t)))
            return 'stuck';
        return settled(s) && !s.queue.length ? 'good' : 'lost';
    }

    // ---- all schedules ----------------------------------------------------------------------------------

    // All states, breadth first: name -> {state, end, after}, where after has a name, or null, for each thread.
    function reach(puzzle, use = rules) {
        const first = start(puzzle), states = new Map([[name(first), {state: first}]]);
        for (const each of states.values()) { // a Map also visits what is added meanwhile
            each.end = judge(puzzle, each.state, use);
            each.after = puzzle.threads.map((thread, t) => {
                if (each.end || !can(puzzle, each.state, t, use))
                    return null;
                const state = step(puzzle, each.state, t, use), its = name(state);
                if (!states.has(its))
                    states.set(its, {state});
                return its;
            });
        }
        return states;
    }

    const isBad = end => end !== null && end !== 'good';

    /*
     * The shortest way round, from this state to itself, on which the loop can never take a step, every
     * other thread takes one, and something is left undone: the loop starves. Or null.
     */
    function round(puzzle, states, key) {
        const starves = its => states.get(its).after[0] === null && !settled(states.get(its).state);
        const all = (1 << puzzle.threads.length) - 2;
        if (!starves(key))
            return null;
        const seen = new Set(), line = [{key, mask: 0, way: []}];
        for (const each of line) {
            for (let t = 1; t < puzzle.threads.length; t++) {
                const its = states.get(each.key).after[t], mask = each.mask | 1 << t;
                if (its === null || !starves(its))
                    continue;
                if (its === key && mask === all)
                    return [...each.way, t];
                if (!seen.has(its + mask)) {
                    seen.add(its + mask);
                    line.push({key: its, mask, way: [...each.way, t]});
                }
            }
        }
        return null;
    }

    // The same, looked for once in each state.
    function roundFrom(puzzle, states, key) {
        const each = states.get(key);
        if (each.round === undefined)
            each.round = round(puzzle, states, key);
        return each.round;
    }

    /*
     * The shortest bad schedule from one of the states on: {kind, way, round}, or null if there is none. The
     * round is what is repeated forever, in a scene that has no end.
     */
    function worst(puzzle, states, from) {
        const seen = new Set([from]), line = [{key: from, way: []}];
        let best = null;
        for (const {key, way} of line) {
            const {end, after} = states.get(key);
            if (isBad(end))
                return {kind: end, way, round: []};
            if (best && way.length >= best.way.length + best.round.length)
                break;
            const found = puzzle.scene.forever ? roundFrom(puzzle, states, key) : null;
            if (found && (!best || way.length + found.length < best.way.length + best.round.length))
                best = {kind: 'starved', way, round: found};
            after.forEach((its, t) => {
                if (its !== null && !seen.has(its)) {
                    seen.add(its);
                    line.push({key: its, way: [...way, t]});
                }
            });
        }
        return best;
    }

    /*
     * Whether these of the states have a cycle that is weakly fair: each thread takes a step in it, or
     * cannot in one of its states. This is what spin -f looks for.
     */
    function hasFairCycle(puzzle, states, open) {
        const numbers = new Map(), low = new Map(), stack = [], inStack = new Set();
        const inside = new Set(open);
        let found = false;
        const next = key => states.get(key).after.filter(its => its !== null && inside.has(its));
        for (const root of open) { // Tarjan's strongly connected components, without recursion
            const work = numbers.has(root) ? [] : [{key: root, left: null}];
            while (work.length) {
                const top = work[work.length - 1];
                if (top.left === null) {
                    numbers.set(top.key, numbers.size);
                    low.set(top.key, numbers.get(top.key));
                    stack.push(top.key);
                    inStack.add(top.key);
                    top.left = next(top.key);
                }
                const its = top.left.pop();
                if (its !== undefined) {
                    if (!numbers.has(its))
                        work.push({key: its, left: null});
                    else if (inStack.has(its))
                        low.set(top.key, Math.min(low.get(top.key), numbers.get(its)));
                    continue;
                }
                work.pop();
                if (work.length) {
                    const above = work[work.length - 1].key;
                    low.set(above, Math.min(low.get(above), low.get(top.key)));
                }
                if (low.get(top.key) !== numbers.get(top.key))
                    continue;
                const part = new Set(stack.splice(stack.indexOf(top.key)));
                part.forEach(each => inStack.delete(each));
                const stays = (key, t) => part.has(states.get(key).after[t]);
                found = found || (puzzle.threads.some((each, t) => [...part].some(key => stays(key, t))) &&
                    puzzle.threads.every((each, t) => [...part].some(key => states.get(key).after[t] === null || stays(key, t))));
            }
        }
        return found;
    }

    // How often it ends badly if dice choose the thread. Only for a puzzle whose schedules all end.
    function odds(states) {
        const known = new Map();
        const of = key => {
            if (!known.has(key)) {
                const each = states.get(key), after = each.after.filter(its => its !== null);
                known.set(key, each.end ? +isBad(each.end) : after.reduce((sum, its) => sum + of(its), 0) / after.length);
            }
            return known.get(key);
        };
        return of(states.keys().next().value);
    }

    /*
     * The verdict on a puzzle: {states, kinds, worst}. Besides what judge() knows, 'starved' is a fair cycle on
     * which something is left undone, and 'restless' one in a scene that ought to come to an end.
     */
    function explore(puzzle, use = rules) {
        const states = reach(puzzle, use), all = [...states.keys()];
        const kinds = new Set([...states.values()].map(each => each.end).filter(isBad));
        if (hasFairCycle(puzzle, states, all.filter(key => !settled(states.get(key).state))))
            kinds.add('starved');
        else if (!puzzle.scene.forever && hasFairCycle(puzzle, states, all))
            kinds.add('restless');
        return {states, kinds: [...kinds].sort(), worst: worst(puzzle, states, all[0])};
    }

    return {rules, puzzles, start, can, step, judge, lineOf, fileOf, movable, settled, name, worst, explore, odds};
})();

if (typeof module !== 'undefined')
    module.exports = Scheduler;
