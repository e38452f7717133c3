/*
 * A button on each block of code that copies it. Of what a console shows it copies the commands only,
 * without their prompts, because that is what one wants to paste.
 */
(function () {
    'use strict';

    function text_of(block) {
        var commands = block.querySelectorAll('.line.command');
        var lines = commands.length ? commands : block.querySelectorAll('.line');
        if (!lines.length) {
            return block.textContent;
        }
        return Array.prototype.map.call(lines, function (line) {
            var copy = line.cloneNode(true);
            Array.prototype.forEach.call(copy.querySelectorAll('.lineno'), function (number) {
                number.remove();
            });
            var text = copy.textContent.replace(/\u00a0/g, ' ');
            return commands.length ? text.replace(/^[$>] /, '') : text;
        }).join('\n') + '\n';
    }

    if (!navigator.clipboard) {
        return; /* not over plain http from another machine */
    }
    Array.prototype.forEach.call(document.querySelectorAll('main .fragment'), function (block) {
        var box = document.createElement('div');
        var button = document.createElement('button');
        box.className = 'copied';
        button.className = 'copy';
        button.type = 'button';
        button.textContent = 'Copy';
        button.addEventListener('click', function () {
            navigator.clipboard.writeText(text_of(block)).then(function () {
                button.textContent = 'Copied';
                setTimeout(function () { button.textContent = 'Copy'; }, 1500);
            });
        });
        block.parentNode.insertBefore(box, block);
        box.appendChild(block);
        box.appendChild(button);
    });
})();
