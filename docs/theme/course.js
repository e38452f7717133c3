/*
 * A reader's way through the course: which pages are read, which the browser keeps and nobody else gets; the arrow
 * keys for Before and Next; a link to a file on a page of changes, which unfolds it; and #show behind an address, which
 * gives each section of a page a screen, for a lecture.
 */
(function () {
    'use strict';
    var top = document.currentScript.dataset.top;
    var around = document.querySelector('.around');
    var side = document.querySelector('.side');

    function each(list, act) {
        Array.prototype.forEach.call(list, act);
    }

    /* An address in the site, without the way to it. */
    function page_of(link) {
        return link.getAttribute('href').slice(top.length);
    }

    /* ---- the side bar: where one is, and what one has read ---- */

    function read_pages() {
        try {
            return JSON.parse(localStorage.getItem('read')) || [];
        } catch (error) {
            return [];
        }
    }

    function keep(pages) {
        try {
            localStorage.setItem('read', JSON.stringify(pages));
        } catch (error) {
            return; /* a browser that keeps nothing */
        }
    }

    function mark_read() {
        var read = read_pages();
        each(side.querySelectorAll('.tree li a'), function (link) {
            link.classList.toggle('read', read.indexOf(page_of(link)) >= 0);
            link.title = link.classList.contains('read') ? 'read' : '';
        });
        each(side.querySelectorAll('.tree details'), function (branch) {
            branch.classList.toggle('read', branch.querySelectorAll('li a:not(.read)').length === 0);
        });
    }

    /* On the first page: how far one is, and where to go on. */
    function tell_progress() {
        var contents = document.querySelector('.contents');
        var links = Array.prototype.slice.call(side.querySelectorAll('.tree li a'));
        var left = links.filter(function (link) { return !link.classList.contains('read'); });
        if (!contents || around.querySelector('.before') || left.length === links.length || !left.length) {
            return;
        }
        var told = document.createElement('p');
        var next = document.createElement('a');
        var forget = document.createElement('button');
        told.className = 'progress';
        next.href = left[0].href;
        next.textContent = left[0].textContent;
        forget.type = 'button';
        forget.textContent = 'Forget that';
        forget.addEventListener('click', function () {
            keep([]);
            mark_read();
            told.remove();
        });
        told.append('You have read ' + (links.length - left.length) + ' of ' + links.length + ' pages. Go on with ', next, '. ', forget);
        contents.prepend(told);
    }

    var current = side.querySelector('[aria-current="page"]') || side.querySelector('[aria-current]');
    mark_read();
    if (current) {
        if (around && current.closest('.tree') && window.IntersectionObserver) {
            new IntersectionObserver(function (seen, observer) {
                if (seen.some(function (entry) { return entry.isIntersecting; })) {
                    observer.disconnect();
                    keep(read_pages().filter(function (page) { return page !== page_of(current); }).concat(page_of(current)));
                    mark_read();
                }
            }).observe(around);
        }
        side.scrollTop = current.offsetTop - window.innerHeight / 2; /* the contents are longer than the window */
    }
    if (around) {
        tell_progress();
    }

    /* ---- a lecture ---- */

    var sections = [];
    var shown = -1;

    /* What stands up to the next heading is a section; the page's title is with the first. */
    function cut() {
        var text = document.querySelector('.textblock');
        var section = null;
        each(text ? Array.prototype.slice.call(text.childNodes) : [], function (node) {
            if (!section || node.nodeName === 'H2') {
                section = document.createElement('section');
                text.insertBefore(section, node);
                sections.push(section);
            }
            section.appendChild(node);
        });
    }

    function show(number) {
        if (!sections.length) {
            cut();
        }
        shown = Math.max(0, Math.min(number, sections.length - 1));
        document.body.classList.add('show');
        sections.forEach(function (section, i) {
            section.hidden = i !== shown;
        });
        history.replaceState(null, '', '#show' + (shown ? '-' + (shown + 1) : ''));
        window.scrollTo(0, 0);
    }

    function end_show() {
        document.body.classList.remove('show');
        sections.forEach(function (section) { section.hidden = false; });
        history.replaceState(null, '', '#');
        sections[shown].scrollIntoView();
        shown = -1;
    }

    function look_at_address() {
        var asked = /^#show(?:-(\d+))?$/.exec(location.hash);
        if (asked && document.querySelector('.textblock')) {
            show(asked[1] ? asked[1] - 1 : 0);
        } else {
            unfold(document.getElementById(location.hash.slice(1)));
        }
    }

    /* Who asks for a file by its name, on a page of changes, wants to see what changes in it. */
    function unfold(target) {
        var part = target && target.closest('h2');
        while (part && (part = part.nextElementSibling) && part.nodeName !== 'H2') {
            if (part.nodeName === 'DETAILS' && part.querySelector('.diff')) {
                part.open = true;
            }
        }
    }

    /* ---- keys ---- */

    function follow(kind) {
        var link = around && around.querySelector(kind);
        if (link) {
            link.click();
        }
    }

    document.addEventListener('keydown', function (event) {
        var forwards = event.key === 'ArrowRight';
        if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || event.defaultPrevented ||
            document.activeElement.closest('input, select, textarea, button, [tabindex]')) {
            return; /* which uses the keys itself */
        }
        if (shown >= 0 && event.key === 'Escape') {
            end_show();
        } else if (!forwards && event.key !== 'ArrowLeft') {
            return;
        } else if (shown >= 0) {
            show(shown + (forwards ? 1 : -1));
        } else if (!document.documentElement.dataset.keys) {
            follow(forwards ? '.after' : '.before');
        }
    });
    window.addEventListener('hashchange', look_at_address);
    look_at_address();
})();
