/*
 * Search: the index, made when the site was built, is loaded when the field is used for the first
 * time. Each entry is [title, where, address, text]. All words have to be in an entry; those whose
 * title they begin come first.
 */
(function () {
    'use strict';
    var top = document.currentScript.dataset.top;
    var field = document.getElementById('search');
    var list = document.getElementById('found');
    var MOST = 30;

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

    /* How good a match an entry is; 0 for none. */
    function score(entry, words) {
        var title = entry[0].toLowerCase();
        var all = title + ' ' + entry[1].toLowerCase() + ' ' + entry[3].toLowerCase();
        var sum = entry[3] ? 1 : 0;
        for (var i = 0; i < words.length; i++) {
            var at = title.indexOf(words[i]);
            if (title === words[i]) {
                sum += 100;
            } else if (at === 0) {
                sum += 40;
            } else if (at > 0) {
                sum += 20;
            } else if (all.indexOf(words[i]) >= 0) {
                sum += 5;
            } else {
                return 0;
            }
        }
        return sum + 1;
    }

    function excerpt(entry, words) {
        var text = entry[3];
        var at = text.toLowerCase().indexOf(words[0]);
        if (at < 0) {
            return text.slice(0, 90);
        }
        return (at > 30 ? '…' : '') + text.slice(Math.max(0, at - 30), at + 70);
    }

    function element(name, className, text) {
        var made = document.createElement(name);
        made.className = className;
        made.textContent = text;
        return made;
    }

    function show() {
        var words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
        list.textContent = '';
        list.hidden = words.length === 0 || !window.searchIndex;
        if (list.hidden) {
            return;
        }
        var found = window.searchIndex
            .map(function (entry) { return [score(entry, words), entry]; })
            .filter(function (pair) { return pair[0] > 0; })
            .sort(function (a, b) { return b[0] - a[0]; });
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
