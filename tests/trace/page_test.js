// Uses the page of traces as a reader would: tests/site_check.py runs this in it. Comes to what is
// wrong, and to what the links lead, as JSON.
(async () => {
'use strict';
const wrong = [];
const check = (name, good) => good || wrong.push(name);
const press = (key, shiftKey) => document.dispatchEvent(new KeyboardEvent('keydown', {key, shiftKey: Boolean(shiftKey), bubbles: true, cancelable: true}));
const click = id => document.getElementById(id).click();
const what = () => document.getElementById('what').textContent;
const frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
const view = views[0], trace = view.trace;
check('there are events', trace.events.length > 50);
check('every event has its words', trace.events.every(event => KINDS[event.phase + ' ' + event.name] && !/undefined|NaN/.test(Object.values(sentence(view, event)).join())));
check('every block has an end', trace.slices.every(slice => slice.last && slice.end >= slice.begin));
check('arrows lead forward', trace.arrows.every(arrow => arrow.to.ns >= arrow.from.ns && arrow.to.thread !== undefined));
check('nothing is wider than the page', document.documentElement.scrollWidth <= document.documentElement.clientWidth);

const made = (ph, pid, tid, ts, name, connection) => ({ph, pid, tid, ts, name, args: connection ? {connection} : {}});
const sample = readTrace({otherData: {program: 'stage2-single-reactor'}, traceEvents: [{ph: 'M', pid: 1, tid: 1, name: 'thread_name', args: {name: 'main'}},
    made('i', 1, 1, 0, 'accept', '5#1'), made('i', 1, 1, 1, 'accept', '6#2'), made('B', 1, 1, 1000, 'handler', '5#1'), made('E', 1, 1, 13000, 'handler'),
    made('B', 2, 1, 900, 'waits'), made('E', 2, 1, 13100, 'waits'), made('B', 2, 2, 2000, 'waits'), made('E', 2, 2, 13200, 'waits')]});
check('what to see is counted: ' + sample.point, sample.point === 'While #1 keeps main for 12.00 ms, nobody else is answered; the longest that another client waits is 11.20 ms (#2). One thread does everything, in 0 rounds of select.');
check('each stage says what to see', views.every(each => each.trace.point && !/undefined|NaN/.test(each.trace.point)));
check('and the table has a row for each', document.querySelectorAll('#table tr').length === views.filter(each => each.trace.row).length + 1);
// What the course says about the scene is what its recording shows: docs/trace.md.
const shows = (stage, test) => views.every(each => each.trace.stage !== stage || test(each.trace.meanwhile));
for (const stage of [1, 3, 4])
    check(`in stage ${stage} nobody waits for the costly line`, shows(stage, seen => seen.answered >= 8 && seen.longest < 2));
check('in stage 2 everybody does', shows(2, seen => seen.answered === 0 && seen.longest > 5));
check('in stage 5 some do, and the others do not', shows(5, seen => seen.answered >= 4 && seen.longest > 4));
check('each client has a lane with its waits', trace.clients.length === 5 && trace.waits.length === 17);

const {from: first_from, to: first_to} = view;
press('ArrowRight');
check('the first step leaves all to be seen', view.from === first_from && view.to === first_to);
check('the first step is the first accept', state.current.name === 'accept' && /accepts connection #1/.test(what()));
check('it names function and chapter', /listener_accept\(\).*chapter/.test(what()));
const first = state.current.index;
press('ArrowRight');
check('the next one is the next', state.current.index === first + 1);
press('ArrowLeft');
check('and back', state.current.index === first);
press('ArrowRight', true);
check('with shift, within the thread', state.current.thread === trace.events[first].thread && state.current.index > first);
for (let i = 0; i < 40; i++) click('next');
check('an event that was stepped to is on the screen', view.place(state.current) >= view.from && view.place(state.current) <= view.to);

const room = view.to - view.from;
click('in');
check('zooming in halves', Math.abs((view.to - view.from) / room - .5) < .01);
press('-');
check('zooming out doubles', Math.abs((view.to - view.from) / room - 1) < .01);
press('0');
for (let i = 0; i < 9; i++) press('-');
check('nobody gets lost', view.to - view.from < 1.05 * (Math.max(...views.map(each => each.axis(each.trace.last))) - Math.min(...views.map(each => each.axis(each.trace.times[0])))));
press('0');
press('c');
check('the clients can be hidden', view.rows().length === trace.threads.length);
press('c');
press('e');
check('even steps', state.even && view.place(trace.events[7]) === 7);
press('e');

const arrow = trace.arrows[0];
if (arrow) {
    choose(view, arrow.from, true);
    press('ArrowDown');
    check('an arrow leads to the effect', arrow.from.arrows.some(each => each.to === state.current));
    press('ArrowUp');
    check('and back to its cause', state.current.arrows.some(each => each.from === state.current));
}

press('0');
await frame();
const box = view.canvas.getBoundingClientRect(), slice = trace.slices.filter(each => each.name === 'handler').reduce((a, b) => a.end - a.begin > b.end - b.begin ? a : b);
const at = view.box(slice.thread, slice);
const over = type => view.canvas.dispatchEvent(new PointerEvent(type, {clientX: box.left + at.x + at.width / 4, clientY: box.top + at.y + 5, pointerId: 1, bubbles: true}));
over('pointermove');
const tip = document.getElementById('tip');
check('what the mouse is over is told', !tip.hidden && tip.textContent.includes(whom(slice.first)) && /runs the handler/.test(tip.textContent));

const from = state.current.index;
document.getElementById('speed').value = '10000000';
click('play');
for (let i = 0; i < 20; i++) tick(before + 50);
check('playing goes on', state.current.index > from);
if (state.playing) click('play');
check('and stops', !state.playing);

document.getElementById('events').open = true;
const all = views.reduce((sum, each) => sum + each.trace.events.length, 0);
for (let i = 0; i < 600 && document.querySelectorAll('#list tr').length !== all; i++) await frame();
check('the list has all events', document.querySelectorAll('#list tr').length === all);
const pixels = view.context.getImageData(0, 0, view.canvas.width, view.canvas.height).data;
const colors = new Set();
for (let i = 0; i < pixels.length; i += 4) colors.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
check('something is drawn', colors.size > 8);

// Where the functions are that the sentences name, for the test to look there.
const places = views.flatMap(each => each.trace.events.map(event => sentence(each, event).links[0].join(' ')));
return JSON.stringify([wrong, [...new Set(places)]]);
})()
