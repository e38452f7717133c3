/*
 * Search: the index, made when the site was built, is loaded when the field is used for the first
 * time. Each entry is [title, where, address, text, synonyms]. All words have to be in an entry. What a
 * chapter explains comes before what only has the name, unless one types a name of the code.
 */
(function () {
    'use strict';
    var MOST = 30;

    /* Hyphens and spaces are nothing: non-blocking, nonblocking and non blocking are one word. */
    function squeeze(text) {
        return text.toLowerCase().replace(/[-\s]+/g, '');
    }

    /* What kind of page an entry leads to: the chapters of the stages first, the code last. */
    function worth(entry) {
        var address = entry[2];
        if (/^(common|stage\d-)/.test(address)) {
            return 0;
        }
        if (/^(changes|model|teaching|readme)/.test(address)) {
            return 3;
        }
        return /^(stage\d|armour|queues|glossary)/.test(address) ? 8 : 6;
    }

    /* How well a word fits an entry; 0: not at all. */
    function fit(entry, word) {
        var title = entry[0].toLowerCase();
        var bare = squeeze(word);
        var one = bare.length > 3 ? bare.replace(/s$/, '') : bare; /* a plural finds the singular */
        var code = /^(common|stage\d-)/.test(entry[2]);
        if ((entry[4] || '').split(',').some(function (known) { return squeeze(known) === bare; })) {
            return 120;
        }
        if (code) {
            var typed = /[_(.]/.test(word) ? 40 : 0; /* a name of the code was typed */
            var at = title.indexOf(word);
            var exact = title === word || title === word + '()';
            return at < 0 ? 0 : typed + (exact ? 12 : at === 0 ? 10 : 8);
        }
        if (squeeze(title) === bare || squeeze(title) === one) {
            return 100;
        }
        var start = new RegExp('(^|[^a-z])' + one.replace(/[^a-z0-9]/g, '.'));
        if (start.test(squeeze(title)) || start.test(title)) {
            return 30;
        }
        return squeeze(title).indexOf(one) >= 0 ? 20 : squeeze(entry[1] + entry[3]).indexOf(one) >= 0 ? 5 : 0;
    }

    /* The entries that have all the words, best first. */
    function rank(index, query) {
        var words = query.toLowerCase().split(/\s+/).filter(Boolean);
        var whole = words.length > 1 ? [words.join(' ')] : [];
        return index.map(function (entry) {
            var fits = words.map(function (word) { return fit(entry, word); });
            var together = whole.length ? fit(entry, whole[0]) : 0;
            var all = fits.every(Boolean) || together > 20;
            var sum = worth(entry) + Math.max(fits.reduce(function (a, b) { return a + b; }, 0), 2 * together);
            return [all ? sum : 0, entry];
        }).filter(function (pair) { return pair[0] > 0; }).sort(function (a, b) { return b[0] - a[0]; });
    }

    if (typeof module !== 'undefined') {
        module.exports = rank; /* tests/search_test.js */
        return;
    }

    var here = document.querySelector('.side [aria-current]');
    if (here) { /* the contents are longer than the window */
        here.closest('.side').scrollTop = here.offsetTop - window.innerHeight / 2;
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

    /* Some words of the text, whole ones. */
    function excerpt(entry, words) {
        var text = entry[3];
        var at = text.toLowerCase().indexOf(words[0]);
        var from = at < 40 ? 0 : text.lastIndexOf(' ', at - 30) + 1;
        var cut = text.slice(from, from + 110);
        var whole = from + 110 >= text.length ? cut : cut.slice(0, cut.lastIndexOf(' ')) + ' …';
        return (from > 0 ? '… ' : '') + whole;
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
                link.appendChild(element('span', '', excerpt(entry, words)));
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
