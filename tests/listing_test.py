#!/usr/bin/env python3
"""Tests the listings on paper (docs/listing/listing.py) of some stages.

  usage: OUT=build tests/listing_test.py STAGE...      (make test-listing; wants OUT/listing/STAGE built)

- Each function that the server entered is there, all of its lines with their numbers, unless it stands in a file
  that is entered only while the server starts, or stands beside the way (listing.BESIDE); of the stage's own folder everything is there.
- Each file that is linked is printed, or named as not printed.
- The index and the contents lead to the page that has it; code stands on right pages, commentary on left ones.
- Stage 2 has at most 120 pages.
- In chromium, as it prints: nothing is higher or wider than its page, no line is cut, no page is empty, and there are
  as many pages as the listing has. Skipped, and counted, where there is no chromium.

Prints what failed, and "N passed, N failed" at the end, with ", N skipped" if any were.
"""
import base64
import html
import json
import os
import re
import shutil
import sys
import tempfile

import site_check

sys.path.insert(0, "docs/listing")
import listing  # noqa: E402, the folder has to be known first

OUT = os.environ["OUT"]
PAGES_MAX = {"2": 120}

LOOK = """(() => {
    const wrong = [];
    for (const page of document.querySelectorAll('.page')) {
        const name = 'page ' + page.querySelector('header b').textContent, box = page.getBoundingClientRect();
        const body = page.querySelector('.body');
        if (!body.textContent.trim())
            wrong.push(name + ' is empty');
        for (const each of body.querySelectorAll('*')) {
            const its = each.getBoundingClientRect();
            if (its.bottom > box.bottom - 10 || its.right > box.right - 10) {
                wrong.push(name + ': does not fit: ' + each.textContent.slice(0, 60));
                break;
            }
        }
        for (const line of body.querySelectorAll('.line code, .column div, .column span, pre'))
            if (line.scrollWidth > line.clientWidth + 1 && line.clientWidth > 0) {
                wrong.push(name + ': cut: ' + line.textContent.slice(0, 60));
                break;
            }
    }
    return JSON.stringify(wrong);
})()"""


def pages_of(text):
    """The two sides of each page: whether it is code, and what stands on it."""
    return [(kind.split()[0], body) for kind, body in
            re.findall(r'<section class="page ([^"]*)">(.*?)</section>', text, re.S)]


def lines_of(pages):
    """{(file, number): text} of all lines of code."""
    found, file = {}, None
    for kind, body in pages:
        if kind == "code":
            for name, number, line in re.findall(r'<div class="file">(.*?)</div>|<i>(\d+)</i><code>(.*?)</code>', body):
                file = name or file
                if not name:
                    found[file, int(number)] = html.unescape(line)
    return found


def is_whole(made, lines):
    for file, number in lines:
        with open(file, encoding="utf-8") as source:
            seen = source.read().splitlines()[number - 1]
        if seen != lines[file, number]:
            return f"{file}:{number} has other words than the source"
    for key, phases in made.entered.items():
        if key[0] not in made.unprinted:
            for number in range(made.functions[key].first, made.functions[key].last + 1):
                if (key[0], number) not in lines:
                    return f"{key[1]} was entered, and line {number} of {key[0]} is not there"
        elif phases != {0} and not key[0].startswith(listing.BESIDE):
            return f"{key[1]} of {key[0]} was entered, and the file is not printed"
    for key, function in made.functions.items():
        if key[0].startswith(made.stage) and (key[0], function.first) not in lines:
            return f"{key[1]} of {key[0]} is not there"
    return None


def names_all_files(made, pages):
    text = "".join(body for _, body in pages)
    lost = [file for file in made.files if f"<code>{file}</code>" not in text]
    return f"neither printed nor named: {', '.join(lost)}" if lost else None


def leads_to_pages(made, pages):
    for number, (kind, _) in enumerate(pages, 1):
        if kind == "code" and number % 2 == 0 or kind == "notes" and number % 2 == 1:
            return f"page {number} is on the wrong side"
    entries = 0
    for _, body in pages:
        for name, page in re.findall(r"<span><code>([a-z_0-9]+)</code></span><b>(\d+)</b>", body):
            entries += 1
            if f"<h3><code>{name}</code>" not in pages[int(page) - 1][1] or f"{name}(" not in pages[int(page)][1]:
                return f"{name} is not on page {page} and the one that faces it"
        for name, page in re.findall(r"<span><code>([a-z_0-9/-]+/[a-z_0-9]+\.[ch])</code></span><b>(\d+)</b>", body):
            if f'<div class="file">{name}</div>' not in pages[int(page)][1]:
                return f"{name} does not begin on page {page}"
    if entries < len([key for key in made.pages if key in made.functions]):
        return f"only {entries} entries lead to functions"
    return None


def is_short_enough(made, pages):
    most = PAGES_MAX.get(made.number)
    return f"{len(pages)} pages, at most {most} are allowed" if most and len(pages) > most else None


def as_printed(browser, path, pages):
    browser.open(path)
    wrong = json.loads(browser.value_of(LOOK))
    pdf = base64.b64decode(browser.call("Page.printToPDF", preferCSSPageSize=True, printBackground=False)["data"])
    count = len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf))
    if count != len(pages):
        wrong.append(f"{count} pages come out of the printer, and the listing has {len(pages)}")
    return "; ".join(wrong[:5]) or None


def main():
    chromium = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory(prefix="listing.", ignore_cleanup_errors=True) as folder:
        browser = None
        if chromium:
            browser = site_check.Browser(chromium, os.path.join(folder, "profile"))
            browser.call("Page.enable")
            browser.call("Emulation.setEmulatedMedia", media="print")
        for stage in sys.argv[1:]:
            made = listing.made(f"{OUT}/listing/{stage}", stage, f"{OUT}/listing/{stage}.files")
            text, _ = made.html()
            pages = pages_of(text)
            checks = {"whole": is_whole(made, lines_of(pages)), "files": names_all_files(made, pages),
                      "index": leads_to_pages(made, pages), "length": is_short_enough(made, pages)}
            if browser:
                path = os.path.join(folder, stage + ".html")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                checks["printed"] = as_printed(browser, path, pages)
            else:
                skipped += 1
                print(f"skipped: listing, {stage} as it is printed: chromium is not installed")
            for name, wrong in checks.items():
                passed, failed = passed + (wrong is None), failed + (wrong is not None)
                if wrong:
                    print(f"listing: FAILED: {stage}, {name}: {wrong}")
        if browser:
            browser.end()
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
