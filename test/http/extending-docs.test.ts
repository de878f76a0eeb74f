/** docs/extending.md, word for word: its code is loaded, its requests are sent, its answer is what comes. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { TestServer } from '../support/server.ts';
import { makeTemporaryFolder } from '../support/temporary-folder.ts';

const path = (name: string): string => fileURLToPath(new URL(`../../${name}`, import.meta.url));
const PAGE = readFileSync(path('docs/extending.md'), 'utf8');

/** What is between the fences of one language. */
function blocks(language: string): string[] {
  return Array.from(PAGE.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, 'gms')), ([, text = '']) => text);
}

const folder = makeTemporaryFolder('actiond-docs-');
afterAll(() => folder.remove());

const requests = blocks('sh').flatMap((text) => Array.from(text.matchAll(/-d '([^']*)'/g), ([, body = '']) => body));

test('its examples do what it says', async () => {
  const [module = ''] = blocks('js');
  writeFileSync(join(folder.path, 'word-count.mjs'), module);
  const plugins = [path('docs/examples/sql'), join(folder.path, 'word-count.mjs')];
  await using server = await TestServer.start(plugins.flatMap((file) => ['--plugin', file]));
  await server.run(`cp ${path('README.md')} .`);
  const replies = [];
  for (const body of requests) replies.push((await server.request('POST', '/execute_action', body)).json);
  expect(replies.map(({ observation }) => observation)).toEqual(['sql', 'sql', 'word_count']);
  const [answer = ''] = blocks('json');
  expect(replies[1]).toMatchObject(JSON.parse(answer.replace('/workspace', server.workingDir)));
  expect(Number(replies[2].content)).toBeGreaterThan(1000);
});
