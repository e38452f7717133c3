/*
 * Search: the index, made when the site was built, is loaded when the field is used for the first
 * time. Each entry is [title, where, address, text, synonyms]. It finds words by how they begin, and does not
 * look inside of them; a rare word counts more than a frequent one, and words such as "how" do not count at all.
 * What a chapter explains comes before what only has the name, unless one types a name of the code.
 */
(function () {
    'use strict';
    var MOST = 30;
    var NOTHING = (' a about all an and any are as at be but by can cannot could did do does for from had has have how i if in ' +
        'into is it its me my no not of on one or our so some than that the their then there they this to was we were what ' +
        'when where which who whom why will with would you your ').split(' ');
    var ENDINGS = ['', 's', 'es', 'ed', 'd', 'ing', 'er', 'ers'];

    /* Words with a space around each; hyphens inside are nothing, so that non-blocking is one word, and 2.4 is another. */
    function plain(text) {
        return ' ' + text.toLowerCase().replace(/([a-z0-9])-(?=[a-z0-9])/g, '$1').replace(/(\d)\.(?=\d)/g, '$1_')
            .replace(/[^a-z0-9_]+/g, ' ').trim() + ' ';
    }

    /* A word without what its grammar puts at its end. */
    function stem(word) {
        var shorter = /_/.test(word) ? word : word.replace(/(ing|ers|er|ed|es|s)$/, '');
        return shorter.length >= 4 ? shorter : word;
    }

    function is_code(entry) {
        return /^(common|stage\d-)/.test(entry[2]);
    }

    /* What is looked for again and again, worked out once. */
    function parts(entry) {
        if (!entry.parts) {
            entry.parts = {
                title: plain(entry[0]),
                text: plain(entry[1] + ' ' + entry[3]),
                options: (entry[3] + ' ' + entry[0]).match(/--[a-z][a-z-]*[a-z]/g) || [],
                known: (entry[4] || '').split(',').filter(Boolean).map(function (known) {
                    return words_of(known).map(function (word) { return word[0]; }).join(' ');
                })
            };
        }
        return entry.parts;
    }

    /* What kind of page an entry leads to: the chapters of the stages first, the code last. */
    function worth(entry) {
        var address = entry[2];
        if (is_code(entry)) {
            return 0;
        }
        if (/^(answers|readers|changelog)/.test(address)) {
            return -20; /* for those who ask, or build */
        }
        if (/^(changes|model|teaching|readme)/.test(address)) {
            return 3;
        }
        return /^(stage\d|armour|queues|glossary)/.test(address) ? 8 : 6;
    }

    /* Whether a text has the word (2), or one that begins with it (1). */
    function has(text, word) {
        var base = stem(word);
        if (text.indexOf(' ' + base) < 0) {
            return 0;
        }
        return ENDINGS.some(function (ending) { return text.indexOf(' ' + base + ending + ' ') >= 0; }) ? 2 : 1;
    }

    function is_known(entry, words) {
        var whole = words.join(' ');
        var bare = whole.replace(/ /g, '');
        return parts(entry).known.some(function (known) {
            return known === whole || known.indexOf(' ') > 0 && (' ' + whole + ' ').indexOf(' ' + known + ' ') >= 0 ||
                known.replace(/ /g, '') === bare || stem(known) === stem(whole);
        });
    }

    /* How well a word fits an entry; 0: not at all. */
    function fit(entry, word, typed) {
        var of = parts(entry);
        var title = entry[0].toLowerCase();
        if (/^--/.test(typed)) { /* an option: where many stand together, they are explained */
            return of.options.indexOf(typed) < 0 ? 0 : 20 + of.options.length;
        }
        if (/\.[ch]$|\($/.test(typed) && !is_code(entry)) {
            return entry[3].indexOf(typed) < 0 ? 0 : 4;
        }
        if (is_known(entry, [word])) {
            return 120;
        }
        if (is_code(entry)) {
            var at = title.indexOf(typed);
            var exact = title === typed || title === typed + '()';
            return at < 0 ? 0 : (/[_(.]/.test(typed) ? 60 : 0) + (exact ? 12 : at === 0 ? 10 : 8);
        }
        if (of.title.trim() === word || stem(of.title.trim()) === stem(word)) {
            return 100;
        }
        return [0, 22, 30][has(of.title, word)] || [0, 4, 7][has(of.text, word)];
    }

    /* What was typed, as words: [as they are compared, as they were typed]. */
    function words_of(query) {
        var all = query.toLowerCase().split(/\s+/).filter(Boolean).map(function (typed) {
            return [plain(typed).trim().replace(/ .*/, ''), typed.replace(/[?!,;]+$/, '')];
        }).filter(function (word) { return word[0] !== ''; });
        var some = all.filter(function (word) { return NOTHING.indexOf(word[0]) < 0; });
        return some.length ? some : all;
    }

    /* The entries that have what was typed, best first, and the words by how rare they are. */
    function rank(index, query) {
        var words = words_of(query);
        var together = plain(words.map(function (word) { return word[0]; }).join(' '));
        var joined = plain(together.replace(/ /g, ''));
        var fits = index.map(function (entry) {
            return words.map(function (word) { return fit(entry, word[0], word[1]); });
        });
        var rarity = words.map(function (word, i) {
            var found = fits.filter(function (each) { return each[i] > 0; }).length;
            return found ? 0.2 + Math.log(index.length / found) / Math.log(index.length) : 0.6;
        });
        var whole = rarity.reduce(function (a, b) { return a + b; }, 0);
        words.map(function (word, i) { word.push(rarity[i]); });
        rank.rarest = words.slice().sort(function (a, b) { return b[2] - a[2]; }).map(function (word) { return word[0]; });
        return index.map(function (entry, at) {
            var share = 0;
            var sum = fits[at].reduce(function (before, value, i) {
                share += value > 0 ? rarity[i] / whole : 0;
                return before + (value >= 100 ? value : value * rarity[i]);
            }, 0);
            var of = parts(entry);
            sum *= share * share;
            if (words.length > 1) {
                var known = is_known(entry, words.map(function (word) { return word[0]; }));
                var named = of.title === together || of.title === joined || stem(of.title.trim()) === stem(joined.trim());
                if (known || named) {
                    sum += known ? 400 : 200;
                    share = 1;
                } else if (of.title.indexOf(together.trimEnd()) >= 0) {
                    sum += 60;
                } else if (!is_code(entry) && (of.text.indexOf(together.trimEnd()) >= 0 || of.text.indexOf(joined.trimEnd()) >= 0)) {
                    sum += 15;
                    share = 1;
                }
            }
            return [share > 0.5 && sum > 0 ? sum + worth(entry) : 0, entry];
        }).filter(function (pair) { return pair[0] > 0; }).sort(function (a, b) { return b[0] - a[0]; });
    }

    if (typeof module !== 'undefined') {
        module.exports = rank; /* tests/search_test.js */
        return;
    }

    var top = document.currentScript.dataset.top;
    var field = document.getElementById('search');
    var list = document.getElementById('found');

    function load() {
        if (document.getElementById('index')) {
            return;
        }
        var script = document.createElement('script');
        script.id = 'index';
        script.src = top + 'search_index.js';
        script.onload = show;
        document.head.appendChild(script);
    }

    /* Where in a text a word begins, as it is read; -1: nowhere. */
    function place(text, word) {
        var found = new RegExp('(^|[^a-z0-9_])' + stem(word).split('').join('-?'), 'i').exec(text);
        return found ? found.index + found[1].length : -1;
    }

    /* Some words of the text around the rarest of what was typed, which is marked. */
    function excerpt(entry) {
        var text = entry[3];
        var at = rank.rarest.map(function (word) { return place(text, word); }).filter(function (at) { return at >= 0; })[0];
        var from = at === undefined || at < 40 ? 0 : text.lastIndexOf(' ', at - 30) + 1;
        var cut = text.slice(from, from + 120);
        var shown = from + 120 >= text.length ? cut : cut.slice(0, cut.lastIndexOf(' ')) + ' \u2026';
        var line = element('span', '', from > 0 ? '\u2026 ' : '');
        var hit = at === undefined ? '' : text.slice(at).match(/^[\w-]*/)[0];
        if (hit === '' || at - from + hit.length > shown.length) {
            line.append(shown);
        } else {
            line.append(shown.slice(0, at - from), element('mark', '', hit), shown.slice(at - from + hit.length));
        }
        return line;
    }

    function element(name, className, text) {
        var made = document.createElement(name);
        made.className = className;
        made.textContent = text;
        return made;
    }

    function show() {
        var words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
        field.setAttribute('aria-expanded', String(words.length > 0));
        list.textContent = '';
        list.hidden = words.length === 0 || !window.searchIndex;
        if (list.hidden) {
            return;
        }
        var found = rank(window.searchIndex, field.value);
        found.slice(0, MOST).forEach(function (pair) {
            var entry = pair[1];
            var link = element('a', '', '');
            link.href = top + entry[2];
            link.appendChild(element('b', '', entry[0]));
            link.appendChild(element('i', '', entry[1]));
            if (entry[3]) {
                link.appendChild(excerpt(entry));
            }
            list.appendChild(link);
        });
        if (found.length === 0) {
            list.appendChild(element('p', '', 'Nothing found.'));
        } else if (found.length > MOST) {
            list.appendChild(element('p', '', 'The best ' + MOST + ' of ' + found.length + '.'));
        }
    }

    function step(down) {
        var links = Array.prototype.slice.call(list.querySelectorAll('a'));
        var at = links.indexOf(document.activeElement);
        var next = down ? links[at + 1] : links[at - 1];
        (next || (down ? null : field) || field).focus();
    }

    field.addEventListener('focus', load);
    field.addEventListener('input', function () {
        load();
        show();
    });
    document.addEventListener('keydown', function (event) {
        var inside = document.activeElement === field || list.contains(document.activeElement);
        if (event.key === '/' && !inside) {
            event.preventDefault();
            field.focus();
        } else if (event.key === 'Escape' && inside) {
            list.hidden = true;
            field.blur();
        } else if ((event.key === 'ArrowDown' || event.key === 'ArrowUp') && inside) {
            event.preventDefault();
            step(event.key === 'ArrowDown');
        } else if (event.key === 'Enter' && document.activeElement === field) {
            var first = list.querySelector('a');
            if (first) {
                first.click();
            }
        }
    });
    document.addEventListener('click', function (event) {
        if (!list.contains(event.target) && event.target !== field) {
            list.hidden = true;
        }
    });
})();
