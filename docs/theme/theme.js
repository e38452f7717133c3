/*
 * Light or dark: as the reader's system says, or as the button in the bar was set, which the browser keeps. It
 * is loaded before anything is shown, so that a page does not flash.
 */
(function () {
    'use strict';
    var root = document.documentElement;
    var dark = window.matchMedia('(prefers-color-scheme: dark)');

    function kept() {
        try {
            return localStorage.getItem('theme');
        } catch (error) {
            return null; /* a browser that keeps nothing */
        }
    }

    function show() {
        var button = document.querySelector('button.theme');
        root.dataset.theme = kept() || (dark.matches ? 'dark' : 'light');
        if (button) {
            button.hidden = false;
            button.textContent = root.dataset.theme === 'dark' ? 'Light' : 'Dark';
            button.title = 'Light or dark colours';
        }
    }

    function turn() {
        var other = root.dataset.theme === 'dark' ? 'light' : 'dark';
        try {
            if (other === (dark.matches ? 'dark' : 'light')) {
                localStorage.removeItem('theme');
            } else {
                localStorage.setItem('theme', other);
            }
            show();
        } catch (error) {
            root.dataset.theme = other;
        }
    }

    show();
    dark.addEventListener('change', show);
    document.addEventListener('DOMContentLoaded', function () {
        show();
        document.querySelector('button.theme').addEventListener('click', turn);
    });
})();
