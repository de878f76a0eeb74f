/** `npm run bundle`: the executable in a bare Debian 11 (glibc 2.31) without Node. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { BareDaemon, buildIntoBareSystem, obstacle } from '../support/one-file.ts';
import { pdfOf, writeDocument } from '../support/office.ts';
import { until } from '../support/wait.ts';

const why = obstacle();
const WORD_COUNT = fileURLToPath(new URL('../fixtures/plugins/word-count.mjs', import.meta.url));

describe.skipIf(why !== undefined)(`the one-file executable${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  beforeAll(buildIntoBareSystem, 600_000);

  test('carries out commands and file actions, and records them', async () => {
    await using daemon = await BareDaemon.start();
    const where = await daemon.action('run', {
      command: 'cat /etc/debian_version; command -v node; cd /usr && pwd; (exit 7)',
    });
    expect(where.content).toMatch(/^11\.\d+\n\/usr$/);
    expect(where.exitCode).toBe(7);
    const path = '/tmp/work/note.txt';
    expect((await daemon.action('write', { path, content: 'one\ntwo' })).observation).toBe('write');
    const edit = { path, command: 'str_replace', old_str: 'two', new_str: 'three' };
    expect((await daemon.action('edit', edit)).observation).toBe('edit');
    expect(readFileSync(join(daemon.directory, 'work/note.txt'), 'utf8')).toBe('one\nthree\n');
    const { events } = (await daemon.json('/events?after=0&kind=observation')) as { events: object[] };
    expect(events).toHaveLength(3);
  });

  test('has what is loaded late: an archive, the text of a PDF and of an office file, an OpenAPI document, the files of the viewer', async () => {
    await using daemon = await BareDaemon.start();
    writeFileSync(join(daemon.directory, 'work/a.txt'), 'a');
    const archive = await fetch(`${daemon.url}/download_files?path=/tmp/work`);
    expect(new TextDecoder('latin1').decode(await archive.arrayBuffer()).startsWith('PK')).toBe(true);
    writeFileSync(join(daemon.directory, 'work/a.pdf'), pdfOf(['Some text']));
    const view = await daemon.action('edit', { path: '/tmp/work/a.pdf', command: 'view' });
    expect(view.content).toContain('displayed in Markdown format:\nSome text\n');
    writeDocument(join(daemon.directory, 'work/a.docx'));
    const document = await daemon.action('edit', { path: '/tmp/work/a.docx', command: 'view' });
    expect(document.content).toContain('Some **bold** 日本語.');
    expect((await daemon.json('/openapi.json'))['openapi']).toBe('3.1.0');
    const viewer = await viewerOf(daemon);
    for (const file of ['legacy/build/pdf.min.mjs', 'cmaps/LICENSE'])
      expect((await fetch(`${viewer}/pdfjs/${file}`)).status, file).toBe(200);
  });

  test('takes plugins: modules with what they import', async () => {
    await using daemon = await BareDaemon.start({ flags: ['--plugin', '/tmp/word-count.mjs'], files: [WORD_COUNT] });
    writeFileSync(join(daemon.directory, 'work/poem.txt'), 'one two\nthree');
    expect((await daemon.action('word_count', { path: 'poem.txt' })).content).toBe('3');
  });

  test('leaves nothing behind', async () => {
    await using daemon = await BareDaemon.start();
    const left = () => readdirSync(daemon.directory).filter((name) => name.startsWith('actiond-'));
    const viewer = await viewerOf(daemon);
    await fetch(`${viewer}/pdfjs/cmaps/LICENSE`);
    expect(left()).not.toEqual([]);
    expect(await daemon.stop()).toBe(0);
    expect(left()).toEqual([]);
    expect(readdirSync(join(daemon.directory, 'state')).filter((name) => name.startsWith('actiond-'))).toEqual([]);
  });

  test('as PID 1 it ends orphans, keeps the exit codes of its children, and stops in time', async () => {
    await using daemon = await BareDaemon.start({ isPid1: true });
    const forks = await daemon.action('run', { command: 'for i in $(seq 1000); do ( ( exit 3 ) & ); done; (exit 42)' });
    expect(forks.exitCode).toBe(42);
    const zombies = 'cat /proc/[0-9]*/stat 2>/dev/null | grep -c ") Z "';
    await until(
      'the orphans to be reaped',
      async () => (await daemon.action('run', { command: zombies })).content === '0',
    );
    const codes = await daemon.action('run', { command: 'for i in 1 2 200; do bash -c "exit $i"; echo $?; done' });
    expect(codes.content).toBe('1\n2\n200');
    expect((await daemon.action('run', { command: 'tr "\\0" " " </proc/1/cmdline' })).content).toMatch(
      /^tini -- .*actiond/,
    );
    expect(await daemon.stop()).toBe(0);
  });
});

/** It is reached a moment later than the daemon. */
async function viewerOf({ directory }: BareDaemon): Promise<string> {
  const file = join(directory, 'oh-server-url');
  await until('the address of the viewer', () => existsSync(file));
  return readFileSync(file, 'utf8');
}
