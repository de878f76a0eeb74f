import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import http from 'node:http';
import { once } from 'node:events';
import { processTree, residentBytes } from '../lib/proc.mjs';
import { startDaemon } from '../lib/servers.mjs';
import { median } from '../lib/stats.mjs';

const MB = 1_000_000;
const CHROMIUM = '/usr/bin/chromium';
/** Elements of the pages, and rounds of each. */
const PAGES = { small: [10, 20], medium: [1000, 10], large: [20_000, 3] };
const SESSIONS = 4;

const against = 'the same calls made directly';

export default {
  name: 'browser',
  title: 'a page visited and observed, through an action and by the same calls made directly',
  unit: 'ms',
  target: {
    small: { what: 'small page, p50', against, ratio: { atMost: 1.3 } },
    medium: { what: '1,000 nodes, p50', against, ratio: { atMost: 1.3 } },
    large: { what: '20,000 nodes, p50', against, ratio: { atMost: 1.3 } },
    start: { what: 'first action, browser started', against: 'driver loaded, launch, page, goto' },
    session: { what: 'memory (PSS) of the browser for each further session', unit: 'MB' },
    daemon: { what: 'RSS of the daemon with the browser', unit: 'MB' },
  },
  obstacle: () => (existsSync(CHROMIUM) ? undefined : `no ${CHROMIUM}: apt-get install chromium`),
  run,
};

async function run(context) {
  const site = await startSite(context);
  const daemon = await startDaemon(context);
  const direct = await startDirect(context, site);
  const startedAt = performance.now();
  await visit(daemon, `${site}/small`);
  const start = { subject: performance.now() - startedAt, baseline: direct.startMs };
  const measured = {};
  for (const [name, [, rounds]] of Object.entries(PAGES)) {
    const url = `${site}/${name}`;
    const times = { subject: [], baseline: [] };
    for (let round = 0; round < (context.isQuick ? 2 : rounds) + 1; round += 1) {
      const subject = await timeOf(() => visit(daemon, url));
      const baseline = await timeOf(() => direct.visit(url));
      // The first round fills caches on both sides.
      if (round === 0) continue;
      times.subject.push(subject);
      times.baseline.push(baseline);
    }
    const pairs = times.subject.map((subject, index) => ({ subject, baseline: times.baseline[index] }));
    measured[name] = { subject: median(times.subject), baseline: median(times.baseline), rounds: pairs };
  }
  const before = browserBytes(daemon.pid);
  for (let session = 1; session <= SESSIONS; session += 1) await visit(daemon, `${site}/small`, `s${session}`);
  const session = { subject: (browserBytes(daemon.pid) - before) / SESSIONS / MB };
  return { ...measured, start, session, daemon: { subject: residentBytes(daemon.pid) / MB } };
}

async function timeOf(work) {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

async function visit({ client }, url, session = 'default') {
  const args = { browser_actions: `goto('${url}')`, session };
  const { observation, content } = await client.postJson('/execute_action', {
    action: { action: 'browse_interactive', args },
  });
  if (observation !== 'browse' || !content.includes('executed successfully')) throw new Error(content.slice(0, 300));
}

/** Memory of all processes of the browser; pages that several share count in parts. */
function browserBytes(pid) {
  return processTree(pid)
    .filter((info) => info.pid !== pid)
    .reduce((sum, info) => sum + sharedBytes(info.pid), 0);
}

function sharedBytes(pid) {
  try {
    const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
    return Number(/^Pss:\s+(\d+) kB$/m.exec(rollup)?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

async function startSite(context) {
  const server = http.createServer((request, response) => {
    const [count = 1] = PAGES[request.url.slice(1)] ?? [];
    response.setHeader('content-type', 'text/html');
    const items = Array.from({ length: count / 2 }, (_, index) => `<p>text <a href="#${index}">link ${index}</a></p>`);
    response.end(`<!DOCTYPE html><title>Bench</title><button>one</button><input>${items.join('')}`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  context.defer(() => server.close());
  return `http://127.0.0.1:${server.address().port}`;
}

/** What a program would do without the daemon: the same launch, and for each page what an observation is made of. */
async function startDirect(context, site) {
  const startedAt = performance.now();
  const { chromium } = await import('playwright-core');
  const isRoot = execFileSync('id', ['-u'], { encoding: 'utf8' }).trim() === '0';
  const browser = await chromium.launch({ executablePath: CHROMIUM, chromiumSandbox: !isRoot });
  context.defer(() => browser.close());
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 720 } })).newPage();
  const session = await page.context().newCDPSession(page);
  const visitDirectly = async (url) => {
    await page.goto(url);
    await page.evaluate(mark);
    const [{ nodes }, snapshot, { data }] = await Promise.all([
      session.send('Accessibility.getFullAXTree'),
      session.send('DOMSnapshot.captureSnapshot', { computedStyles: ['visibility'] }),
      session.send('Page.captureScreenshot', { format: 'png', optimizeForSpeed: true }),
    ]);
    if (nodes.length < 3 || snapshot.documents.length < 1 || data.length < 1000) throw new Error('nothing seen');
  };
  await visitDirectly(`${site}/small`);
  return { visit: visitDirectly, startMs: performance.now() - startedAt };
}

function mark() {
  let next = 0;
  for (const element of document.querySelectorAll('*')) element.setAttribute('bid', String(next++));
}
