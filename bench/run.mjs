// npm run bench [-- --only NAME] [--quick] [--json FILE] [--strict]

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { Context } from './lib/context.mjs';
import { judge, toMarkdown } from './lib/report.mjs';
import browser from './scenarios/browser.mjs';
import echo from './scenarios/echo.mjs';
import events from './scenarios/events.mjs';
import files from './scenarios/files.mjs';
import flood from './scenarios/flood.mjs';
import idleRss from './scenarios/idle-rss.mjs';
import jupyter from './scenarios/jupyter.mjs';
import limits from './scenarios/limits.mjs';
import oneFile from './scenarios/one-file.mjs';
import start from './scenarios/start.mjs';
import tenThousand from './scenarios/ten-thousand.mjs';

const SCENARIOS = [echo, events, flood, files, jupyter, browser, limits, start, oneFile, idleRss, tenThousand];

async function measure(scenario, isQuick) {
  const context = new Context(isQuick);
  const obstacle = scenario.obstacle?.(context);
  if (obstacle !== undefined) {
    process.stderr.write(`${scenario.name}: left out, ${obstacle}\n`);
    await context.end();
    return undefined;
  }
  const startedAt = performance.now();
  try {
    const { notes, ...measured } = await scenario.run(context);
    const rows = Object.entries(scenario.target)
      .filter(([key]) => measured[key] !== undefined)
      .map(([key, target]) => judge({ unit: scenario.unit, ...target }, measured[key]));
    return { name: scenario.name, title: scenario.title, seconds: (performance.now() - startedAt) / 1000, rows, notes };
  } finally {
    await context.end();
  }
}

function describeMachine(root) {
  const git = (...args) =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  let commit = 'unknown';
  try {
    commit = git('rev-parse', 'HEAD').trim() + (git('status', '--porcelain') === '' ? '' : '+changes');
  } catch {
    // Not a checkout.
  }
  return { commit, node: process.version, processor: cpus()[0]?.model, cores: availableParallelism(), load: loadavg() };
}

const { values: options } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: [] },
    quick: { type: 'boolean', default: false },
    json: { type: 'string', default: path.join(import.meta.dirname, 'results/latest.json') },
    strict: { type: 'boolean', default: false },
  },
});
const root = path.resolve(import.meta.dirname, '..');
const names = SCENARIOS.map(({ name }) => name);
const unknown = options.only.filter((name) => !names.includes(name));
if (unknown.length > 0) throw new Error(`no scenario ${unknown.join(', ')}; there are ${names.join(', ')}`);
if (!existsSync(path.join(root, 'dist/main.js'))) throw new Error('dist/ is missing: npm run build');

const machine = describeMachine(root);
const results = [];
for (const scenario of SCENARIOS) {
  if (options.only.length > 0 && !options.only.includes(scenario.name)) continue;
  process.stderr.write(`${scenario.name}: ${scenario.title} ...\n`);
  const result = await measure(scenario, options.quick);
  if (result) results.push(result);
}
const file = path.resolve(options.json);
mkdirSync(path.dirname(file), { recursive: true });
const report = { time: new Date().toISOString(), isQuick: options.quick, machine, loadAtEnd: loadavg(), results };
writeFileSync(file, `${JSON.stringify(report, undefined, 2)}\n`);
process.stdout.write(`${toMarkdown(results)}\n`);
const isMissed = results.some(({ rows }) => rows.some(({ isMet }) => isMet === false));
if (options.strict && isMissed) process.exitCode = 1;
