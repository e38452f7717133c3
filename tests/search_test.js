// Looks for what readers type in the index of the site: `node tests/search_test.js SITE`. Prints what is
// wrong, and "N passed, N failed".
'use strict';
const fs = require('fs');
const path = require('path');
const rank = require(path.resolve('docs/theme/search.js'));

const expected = [
    ['backpressure', 'queues.html'], ['back pressure', 'queues.html'], ['slowloris', 'armour.html'],
    ['proactor', 'proactor.html'], ['io_uring', 'proactor.html'],
    ['performance', 'measuring.html'], ['benchmark', 'measuring.html'], ['benchmarks', 'measuring.html'],
    ['graceful shutdown', 'services.html'], ['nonblocking', 'glossary.html#glossary--non-blocking'],
    ['non-blocking', 'glossary.html#glossary--non-blocking'],
    ['false sharing', 'glossary.html#glossary--false-sharing'], ['glossary', 'glossary.html'],
    ['errata', 'errata.html'], ['erratum', 'errata.html'], ['thread pool', 'pools.html'],
    ['event loop', 'stage2.html'], ['lost wakeup', 'step3_4.html'], ['nginx', 'further.html'],
    ['SIGPIPE', 'step1_2.html'], ['thread per connection', 'step1_2.html'], ['race condition', 'proving.html'],
    ['timeout', 'armour.html'], ['busy loop', 'step2_2.html'], ['starvation', 'step2_5.html'],
    ['segmentation fault', 'step2_7.html'], ['connection reset', 'glossary.html#glossary--reset'],
    ['epoll_wait', 'step2_2.html'], ['homework', 'teaching.html'], ['strace', 'inside.html'], ['changes 2.4', 'changes2_4.html'], ['thundering herd', 'glossary.html#glossary--thundering-herd'],
    ['EAGAIN', 'step2_1.html'], ['zero copy', 'http.html'], ['zero-copy', 'http.html'], ['sendfile', 'http.html'],
    ['how do I stop a client that floods', 'step2_5.html'], ['flooding', 'step2_5.html'],
    ['port already in use', 'readme.html#readme--begin'],
    ['Address already in use', 'readme.html#readme--begin'],
    ['--max-line', 'readme.html#readme--what-every-server-answers-to'],
    ['--idle-timeout', 'readme.html#readme--what-every-server-answers-to'],
    ['make read', 'readme.html#readme--begin'], ['one evening', 'evening.html'], ['EMFILE', 'step2_6.html'],
    ['what is a half-close', 'glossary.html#glossary--half-close'], ['how does the selector guard work', 'guard.html'],
];
// One who types a name of the code wants the code; a word of the chapters, a chapter.
const code = ['selector_wakeup', 'connection_wants()', 'handler_adapter_done', 'epoll.c'];
const words = ['guard', 'wakeup', 'epoll', 'mutex', 'deadline', 'executor', 'timer', 'chat'];

const window = {};
new Function('window', fs.readFileSync(path.join(process.argv[2], 'search_index.js'), 'utf8'))(window);
let passed = 0, failed = 0;
const check = (query, right, what) => {
    const found = rank(window.searchIndex, query);
    const first = found.length ? found[0][1][2] : 'nothing';
    if (right(first)) {
        passed++;
    } else {
        failed++;
        console.log(`search: FAILED: ${query} should lead to ${what}, and leads to ${first}`);
    }
};
for (const [query, page] of expected)
    check(query, first => first === page, page);
for (const query of code)
    check(query, first => /^(common|stage\d-)/.test(first), 'the code');
for (const query of words)
    check(query, first => !/^(common|stage\d-)/.test(first), 'a text');
check('xylophone quintessence', first => first === 'nothing', 'nothing');
// A word is not looked for inside of others: "again" is no EAGAIN. Nor is what a page is made of a text.
const texts = window.searchIndex.filter(entry => !/^(common|stage\d-)/.test(entry[2]));
const hits = (query, most) => rank(window.searchIndex, query).slice(0, most).map(pair => pair[1]);
for (const entry of hits('EAGAIN', 10))
    check('EAGAIN', () => /EAGAIN/i.test(entry.slice(0, 5).join(' ')), `only texts that have it, not ${entry[0]},`);
check('htmlonly', () => !texts.some(entry => /htmlonly|<details|<summary/.test(entry[3])), 'no text');
check('memory leak', () => !/^(answers|readers)/.test(hits('memory leak', 1)[0][2]), 'no page for the one who asks');
// The words that say nothing change nothing.
check('guard', () => hits('what is the guard', 1)[0] === hits('guard', 1)[0], 'the same as "what is the guard"');
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
