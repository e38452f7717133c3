#!/usr/bin/env python3
"""Looks at the site as a browser shows it: chromium, at the width of a phone, a tablet and a desk, in light
and dark.

  usage: tests/site_check.py SITE [PAGE...]      (all pages of SITE, if none is named)

On each page
  - nothing is written to the console, and nothing that it asks for is missing,
  - the page is no wider than the window, and neither is any text in it,
  - text and what is behind it differ enough to be read (WCAG: 4.5 to 1),
  - nothing is left of what Markdown makes bold,
  - no line of code is cut in print,
  - there is one first heading, and the contents say where one is,
  - axe-core, the file that AXE names, finds nothing against it,
and the pictures of all pages are there, Next leads from the first page through every step, chapter and source in the
order of docs/index.md and Before leads back, each page says what it is about, files of changes unfold, the keys, the switch for light and dark,
a lecture and the list of what is read do what they should, each step but the first leads to the page of its changes, which
leads back and has the program's lines, the search finds a function by its name, play/scheduler.html can be
played to the end of each of its puzzles, as it is shown and with hints, and seen.html passes
tests/trace/page_test.js. Prints what is wrong, and "N passed, N failed" at the end; "0 passed, 0 failed,
1 skipped" where there is no chromium.
"""
import base64
import glob
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

DEADLINE = 300  # seconds for any answer of the browser, on a machine that does something else as well
FLAGS = ("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
         "--disable-component-update --disable-sync --remote-debugging-port=0").split()
VIEWS = tuple((width, scheme) for width in (1024, 390, 1440) for scheme in ("light", "dark"))
TROUBLE = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded",
           "Network.loadingFailed")

LOOK = """(width => {
    const wrong = [];
    if (document.documentElement.scrollWidth > width)
        wrong.push('the page is ' + document.documentElement.scrollWidth + ' wide');
    const scrolls = '.fragment, .diff, .memproto, .image, .wide';
    for (const text of document.querySelectorAll('main p, main li, main h1, main h2, main td')) {
        if (text.closest(scrolls) && !(width < 700 && text.closest('.markdownTable')))
            continue;
        const box = text.getBoundingClientRect();
        if (box.width > 0 && box.right > width + 1)
            wrong.push('too wide: ' + text.textContent.trim().slice(0, 60));
    }
    const numbers = color => color.match(/[0-9.]+/g).map(Number);
    const part = value => {
        value /= 255;
        return value <= 0.03928 ? value / 12.92 : Math.pow((value + 0.055) / 1.055, 2.4);
    };
    const light = color => 0.2126 * part(color[0]) + 0.7152 * part(color[1]) +
                           0.0722 * part(color[2]);
    const behind = element => {
        for (; element; element = element.parentElement) {
            const color = numbers(getComputedStyle(element).backgroundColor);
            if (color.length < 4 || color[3] > 0.9)
                return color;
        }
        return [255, 255, 255];
    };
    const seen = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.textContent.trim() || !element.getClientRects().length)
            continue;
        const pair = [light(numbers(getComputedStyle(element).color)), light(behind(element))];
        const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
        const kind = element.tagName + '.' + element.className;
        if (walker.currentNode.textContent.includes('**') && element.closest('p, li, h1, h2') &&
            !element.closest('code, .fragment, .diff'))
            wrong.push('asterisks: ' + element.textContent.trim().slice(0, 60));
        if (contrast < 4.5 && !seen.has(kind)) {
            seen.add(kind);
            wrong.push('hard to read: ' + contrast.toFixed(1) + ' ' + kind + ' ' +
                       walker.currentNode.textContent.trim().slice(0, 40));
        }
    }
    if (document.querySelectorAll('h1').length !== 1)
        wrong.push(document.querySelectorAll('h1').length + ' first headings');
    if (document.querySelector('.side') && !document.querySelector('.side [aria-current]'))
        wrong.push('the contents do not say where one is');
    return JSON.stringify(wrong);
})"""

# What axe-core finds. It takes seconds for a long page, so it gets what no earlier view of the page had: for the
# contrast one text of each kind, that is of each element, class, colour, background and size; for what has to be
# scrolled the page, if that is something else; and for all other rules, if something else is shown.
AXE = """(async seen => {
    if (typeof axe === 'undefined')
        return '[[], []]';
    const kinds = new Map(), old = new Set(seen), found = [];
    const look = async (where, which) =>
        found.push(...(await axe.run(where, {preload: false, resultTypes: ['violations'], ...which})).violations);
    let shown = 'shown ', scrolled = 'scrolled ';
    for (const element of document.querySelectorAll('body *')) {
        const visible = element.checkVisibility({visibilityProperty: true});
        shown += Number(visible);
        scrolled += Number(element.scrollWidth > element.clientWidth);
        if (!visible || ![...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim()))
            continue;
        const style = getComputedStyle(element);
        const over = [];
        for (let at = element; at && over.length < 4; at = at.parentElement)
            over.push(getComputedStyle(at).backgroundColor);
        const kind = [element.tagName, element.className, style.color, style.fontSize, ...over].join();
        if (!old.has(kind))
            kinds.set(kind, element);
    }
    if (kinds.size)
        await look({include: [...kinds.values()]}, {runOnly: ['color-contrast']});
    if (!old.has(shown))
        await look(document, {rules: {'color-contrast': {enabled: false}}});
    else if (!old.has(scrolled))
        await look(document, {runOnly: ['scrollable-region-focusable']});
    return JSON.stringify([found.map(violation => 'axe: ' + violation.id + ', ' + violation.nodes.length +
        ' times, as in ' + violation.nodes[0].html.slice(0, 120)), [...kinds.keys(), shown, scrolled]]);
})"""

# On a page of changes: each file is folded up until somebody asks for it; then all are opened, to be looked at.
UNFOLD = """(async () => {
    const files = [...document.querySelectorAll('.textblock > details')].filter(each => each.querySelector('.diff'));
    const wrong = files.some(each => each.open) ? ['a file is not folded up'] : [];
    location.hash = document.querySelector('td a[href^="#"]').hash;
    for (let i = 0; i < 100 && !files[0].open; i++)
        await new Promise(done => setTimeout(done, 50));
    if (!files[0].open || files.some((each, i) => i && each.open))
        wrong.push('a link to a file does not unfold that file');
    for (const each of files)
        each.open = true;
    return JSON.stringify(wrong);
})()"""

SEARCH = """new Promise(done => {
    const field = document.getElementById('search');
    field.focus();
    const look = tries => {
        field.value = 'selector_wakeup';
        field.dispatchEvent(new Event('input'));
        const first = document.querySelector('#found a');
        if (first || tries === 0)
            done(first ? first.getAttribute('href') : 'nothing');
        else
            setTimeout(() => look(tries - 1), 100);
    };
    look(100);
})"""


# On paper nothing can be scrolled, and a line of code is a line.
PRINTED = """(() => {
    const wrong = [];
    for (const line of document.querySelectorAll('.fragment .line, .diff td.c'))
        if (line.scrollWidth > line.clientWidth + 1 && line.clientWidth > 0)
            wrong.push('cut in print: ' + line.textContent.slice(0, 60));
    for (const block of document.querySelectorAll('div.fragment')) {
        const lines = [...block.querySelectorAll('.line')];
        const height = lines.reduce((sum, line) => sum + line.getBoundingClientRect().height, 0);
        if (block.getBoundingClientRect().height > height + 80)
            wrong.push('empty lines in print: ' + lines[0].textContent.slice(0, 60));
    }
    return JSON.stringify(wrong);
})()"""

PLAY = """(() => {
    const wrong = [];
    const play = id => {
        choose(id);
        const {worst} = found;
        for (const t of worst ? [...worst.way, ...worst.round] : [])
            move(t);
        if (worst && (ending() !== worst.kind || document.getElementById('what').className !== 'bad'))
            wrong.push(id + ': the shortest way ends with ' + ending());
        restart();
        for (let i = 0; i < 100 && !ending(); i++) {
            hint();
            if (worst && !plan)
                wrong.push(id + ': no hint at step ' + i);
            const can = Scheduler.movable(puzzle, now());
            document.getElementById('moves').children[plan ? plan[0] : can[i % can.length]].click();
        }
        if (!puzzle.scene.forever && ending() !== (worst ? worst.kind : 'good'))
            wrong.push(id + ': the hints end with ' + ending());
        backTo(1);
    };
    for (const {id} of puzzles) {
        try {
            play(id);
        } catch (error) {
            wrong.push(id + ': ' + error);
        }
    }
    return JSON.stringify(wrong);
})()"""


# The scripts around a page, as a reader uses them.
USE = """(async () => {
    const wrong = [], root = document.documentElement;
    const press = key => document.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
    const check = (what, good) => good || wrong.push(what);
    const button = document.querySelector('button.theme'), was = root.dataset.theme;
    const color = getComputedStyle(document.body).backgroundColor;
    button.click();
    check('the switch does not change the colours', root.dataset.theme !== was && getComputedStyle(document.body).backgroundColor !== color);
    button.click();
    check('the switch does not change them back', root.dataset.theme === was);
    const followed = [];
    for (const link of document.querySelectorAll('.around a'))
        link.addEventListener('click', event => { event.preventDefault(); followed.push(link.className); });
    press('ArrowRight');
    press('ArrowLeft');
    check('the arrow keys lead to ' + followed, followed.join() === 'after,before');
    document.getElementById('search').focus();
    press('ArrowRight');
    check('an arrow key in the search leads away', followed.length === 2);
    document.getElementById('search').blur();
    document.querySelector('.around').scrollIntoView();
    const current = document.querySelector('.side [aria-current="page"]');
    for (let i = 0; i < 100 && !current.classList.contains('read'); i++)
        await new Promise(done => setTimeout(done, 50));
    check('a page that was read is not marked', current.classList.contains('read'));
    location.hash = '#show';
    for (let i = 0; i < 100 && !document.body.classList.contains('show'); i++)
        await new Promise(done => setTimeout(done, 50));
    const seen = () => [...document.querySelectorAll('.textblock > section')].filter(each => each.getClientRects().length);
    const first = seen();
    press('ArrowRight');
    check('a lecture does not show one section', first.length === 1 && seen().length === 1 && seen()[0] !== first[0]);
    press('Escape');
    check('a lecture does not end', seen().length > 1 && followed.length === 2);
    return JSON.stringify(wrong);
})()"""


class Browser:
    """chromium, spoken to by its DevTools protocol: JSON over a WebSocket."""

    def __init__(self, program, profile):
        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"ws://127\.0\.0\.1:(\d+)(/\S+)", line)
            if found:
                break
        else:
            raise OSError("chromium did not start")
        self.socket = socket.create_connection(("127.0.0.1", int(found[1])), DEADLINE)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {found[2]} HTTP/1.1\r\nHost: 127.0.0.1:{found[1]}\r\n"
                             "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.received = b""
        while b"\r\n\r\n" not in self.received:
            self.received += self.socket.recv(4096)
        self.received = self.received.split(b"\r\n\r\n", 1)[1]
        self.number, self.events, self.session = 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def take(self, count):
        while len(self.received) < count:
            more = self.socket.recv(1 << 16)
            if not more:
                raise OSError("chromium has gone")
            self.received += more
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def receive(self):
        message = b""
        while True:
            first, length = self.take(2)
            length &= 127
            if length == 126:
                length, = struct.unpack(">H", self.take(2))
            elif length == 127:
                length, = struct.unpack(">Q", self.take(8))
            message += self.take(length)
            if first & 128:
                return json.loads(message)

    def send(self, message):
        data, mask = json.dumps(message).encode(), os.urandom(4)
        if len(data) < 126:
            head = struct.pack(">BB", 0x81, 0x80 | len(data))
        elif len(data) < 1 << 16:
            head = struct.pack(">BBH", 0x81, 0x80 | 126, len(data))
        else:
            head = struct.pack(">BBQ", 0x81, 0x80 | 127, len(data))
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.send(message)
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                return answer.get("result", {})
            self.events.append(answer)

    def open(self, path):
        self.events = []
        self.call("Page.navigate", url="file://" + path)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def value_of(self, script):
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise ValueError(answer["result"].get("description", "a script of this test failed"))
        return answer["result"]["value"]

    def end(self):
        self.process.terminate()
        self.process.wait()


def is_there(path, function, _in, _file, page):
    """Whether a page beside that one lists a function, as "NAME() in FILE PAGE" says."""
    with open(os.path.join(os.path.dirname(path), page), encoding="utf-8") as listing:
        return function.rstrip("()") in listing.read()


def only_removes(changes):
    """Whether a step adds no line, because a file of common/ takes the place of one that stood in for it."""
    return "<ins>+0</ins>" in changes and '<tr class="del">' in changes


def lost_changes(site):
    """The steps that do not lead to the page of their changes, or do not follow from it."""
    def read(page):
        with open(os.path.join(site, page), encoding="utf-8") as file:
            return file.read()

    steps = sorted(os.path.basename(page) for page in glob.glob(site + "/step[1-9c]_*.html"))
    changes = [page.replace("step", "changes") for page in steps]
    there = [os.path.exists(os.path.join(site, page)) for page in changes]
    return [step for step, page, exists in zip(steps[1:], changes[1:], there[1:])
            if not exists or f'href="{page}"' not in read(step) or f'href="{step}"' not in read(page)
            or '<tr class="ins">' not in read(page) and not only_removes(read(page))] + [page for page in changes[:1] if there[0]]


def lost_way(site):
    """What is wrong with the way through the course: from page to page, and in the contents at the side."""
    wrong, way, at = [], [], "index.html"
    links = {}
    while at:
        if at in links or not os.path.exists(os.path.join(site, at)):
            return [f"Next leads from {way[-1]} to {at}"]
        with open(os.path.join(site, at), encoding="utf-8") as file:
            text = file.read()
        folder = os.path.dirname(at)
        links[at] = {kind: os.path.normpath(os.path.join(folder, page)) for kind, page in
                     re.findall(r'<a class="(before|after)" href="([^"]*)"', text)}
        if at.endswith("_source.html") and not re.search(r'class="place">Sitting \d+: .*Code of stage \d, the \w+ of', text):
            wrong.append(f"{at} does not say where it is")
        sitting = "" if at.startswith("stepc") else r"Sitting \d+: .*"  # the core's steps may be a list of their own
        if re.match(r"step[1-9c]_", at) and not re.search(f'class="place">{sitting}[^<]*Step [1-9C]\\.\\d+, the \\w+ of', text):
            wrong.append(f"{at} does not say where it is")
        way.append(at)
        at = links[at].get("after")
    for before, page in zip(way, way[1:]):
        if links[page].get("before") != before:
            wrong.append(f"{page} leads back to {links[page].get('before')}, not to {before}")
    steps = {os.path.basename(page) for page in glob.glob(site + "/step[1-9c]_*.html")}
    sources = {os.path.relpath(page, site) for page in glob.glob(site + "/stage*/*_source.html")}
    wrong += [f"Next never leads to {page}" for page in sorted((steps | sources) - set(way))]
    with open(os.path.join(site, "index.html"), encoding="utf-8") as file:
        side = re.search(r'<ul class="tree">.*?</nav>', file.read(), re.S)[0]
    listed = [page for page in re.findall(r'href="([^"]*)"', side) if page in links]
    if listed != [page for page in way if page in listed] or len(listed) < 80:
        wrong.append("the contents have another order than Next")
    for page in glob.glob(site + "/*.html"):
        with open(page, encoding="utf-8") as file:
            text = file.read()
        if '<meta name="description"' not in text and "data-keys" not in text:
            wrong.append(f"{os.path.basename(page)} does not say what it is about")
        if re.search(r'<meta name="description" content="( |Needs:)', text):
            wrong.append(f"{os.path.basename(page)} says what it needs, and not what it is about")
        if 'class="topbar"' not in text or 'id="search"' not in text:
            wrong.append(f"{os.path.basename(page)} has no search")
    return wrong


def lost_pictures(site):
    """The pictures that a page, of all, asks for, and that are not there."""
    lost = []
    for page in glob.glob(site + "/**/*.html", recursive=True):
        with open(page, encoding="utf-8") as file:
            for picture in re.findall(r'<img [^>]*src="([^":#]+)"', file.read()):
                if not os.path.exists(os.path.join(os.path.dirname(page), picture)):
                    lost.append(f"{os.path.relpath(page, site)}: {picture}")
    return lost


def look_at(browser, site, page, width, scheme, seen):
    wrong = json.loads(browser.value_of(f"{LOOK}({width})"))
    found, kinds = json.loads(browser.value_of(f"{AXE}({json.dumps(sorted(seen))})"))
    wrong += found
    seen.update(kinds)
    if (width, scheme) == VIEWS[0] and page == "index.html":
        found = browser.value_of(SEARCH)
        wrong += [] if "selector" in found else [f"the search for selector_wakeup finds {found}"]
    if (width, scheme) == VIEWS[-1] and page == "step2_4.html":
        wrong += json.loads(browser.value_of(USE))
    if (width, scheme) == VIEWS[0] and page == "play/scheduler.html":
        wrong += json.loads(browser.value_of(PLAY))
    if width < 1440 and scheme == "dark" and page == "seen.html":
        with open(os.path.join(os.path.dirname(__file__), "trace/page_test.js"), encoding="utf-8") as script:
            found, places = json.loads(browser.value_of(script.read()))
        path = os.path.join(site, page)
        wrong += found + [f"is not there: {place}" for place in places if not is_there(path, *place.split())]
    return wrong


def look_at_all(browser, site, pages, axe):
    """What is wrong with each page in each view: a page is loaded in each width, in light, and then darkened."""
    found = {(page, *view): ["chromium has gone"] for page in pages for view in VIEWS}
    seen = {page: set() for page in pages}
    try:
        for domain in ("Page", "Runtime", "Log", "Network"):
            browser.call(domain + ".enable")
        for page, width, scheme in found:
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            if scheme == "light":
                browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                             mobile=False)
                browser.open(os.path.join(site, page))
                browser.value_of(axe + "; 0")
            try:
                opened = scheme == "light" and page.startswith("changes")
                wrong = json.loads(browser.value_of(UNFOLD)) if opened else []
                wrong += look_at(browser, site, page, width, scheme, seen[page])
            except ValueError as error:
                wrong = [str(error)]
            if (width, scheme) == (1024, "dark"):
                browser.call("Emulation.setEmulatedMedia", media="print")
                wrong += json.loads(browser.value_of(PRINTED))
                browser.call("Emulation.setEmulatedMedia", media="")
            wrong += [json.dumps(event)[:300] for event in browser.events if event.get("method") in TROUBLE]
            browser.events = []
            found[page, width, scheme] = wrong
    except OSError as error:
        print(f"site: {error}")
    return found


def main():
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if not program:
        print("skipped: site: chromium is not installed\n0 passed, 0 failed, 1 skipped")
        return 0
    site = os.path.abspath(sys.argv[1])
    pages = sys.argv[2:] or sorted(os.path.relpath(page, site) for page in
                                   glob.glob(site + "/**/*.html", recursive=True))
    axe = ""
    if os.path.exists(os.environ.get("AXE", "")):
        with open(os.environ["AXE"], encoding="utf-8") as file:
            axe = file.read()
    else:
        print(f"site: FAILED: axe-core is not there: {os.environ.get('AXE', 'AXE names no file')}; "
              "make test-site gets it from npm's registry")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            found = look_at_all(browser, site, pages, axe)
        finally:
            browser.end()
    for (page, width, scheme), wrong in sorted(found.items()):
        for each in wrong:
            print(f"site: FAILED: {page}, {width} wide, {scheme}: {each}")
    lost = lost_changes(site)
    for page in lost:
        print(f"site: FAILED: {page} and the page of its changes do not lead to each other")
    pictures = lost_pictures(site)
    for picture in pictures:
        print(f"site: FAILED: {picture} is not there")
    way = lost_way(site)
    for each in way:
        print(f"site: FAILED: {each}")
    passed = sum(not wrong for wrong in found.values()) + (not lost) + (not pictures) + (not way)
    failed = len(found) + 3 - passed + (not axe)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
