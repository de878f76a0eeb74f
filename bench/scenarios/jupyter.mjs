import { hasKernelPython, kernelPython, startBareKernel, startGateway } from '../lib/kernel-socket.mjs';
import { startDaemon } from '../lib/servers.mjs';
import { median, quantile } from '../lib/stats.mjs';

/** Samples of one kind in a row: few, so that noise meets all kinds. */
const BLOCK = 10;
const WARM_UP = 30;

const BARE = 'bare WebSocket to the same gateway';
const PNG_BYTES = 30_000;

const CELLS = {
  sum: '1+1',
  megabyte: 'print("x" * 1_000_000)',
  png: `from IPython.display import display\nimport base64, os\ndisplay({"image/png": base64.b64encode(os.urandom(${PNG_BYTES})).decode()}, raw=True)`,
};

export default {
  name: 'jupyter',
  title: 'cells through POST /execute_action',
  unit: 'ms',
  target: {
    sum: { what: '`1+1`, p50', against: BARE, ratio: { atMost: 1.5 } },
    sumTail: { what: '`1+1`, p99', against: BARE },
    megabyte: { what: '1 MB print, p50', against: BARE },
    png: { what: '30 kB PNG, p50', against: BARE },
    start: { what: 'start to the first cell', against: 'the same on a gateway by hand' },
  },
  obstacle: ({ root }) =>
    hasKernelPython(root) ? undefined : `no interpreter ${kernelPython(root)}: sh scripts/setup.sh --run`,
  run,
};

async function run(context) {
  const gateway = await startGateway(context);
  const bare = await startBareKernel(context, gateway);
  const env = { ACTIOND_JUPYTER_URL: gateway.url, ACTIOND_JUPYTER_TOKEN: gateway.token };
  const { client } = await startDaemon(context, { env });
  const action = (code) => cellAction(client, code);
  for (let cell = 0; cell < WARM_UP; cell += 1) {
    await action(CELLS.sum);
    await bare(CELLS.sum);
  }
  const rounds = { sum: [], megabyte: [], png: [] };
  for (let round = 0; round < (context.isQuick ? 5 : 30); round += 1)
    for (const [kind, code] of Object.entries(CELLS))
      rounds[kind].push({ subject: await sample(() => action(code)), baseline: await sample(() => bare(code)) });
  const all = (kind, side) => rounds[kind].flatMap((round) => round[side]);
  const medians = (kind) => ({
    subject: median(all(kind, 'subject')),
    baseline: median(all(kind, 'baseline')),
    rounds: rounds[kind].map(({ subject, baseline }) => ({ subject: median(subject), baseline: median(baseline) })),
  });
  return {
    sum: medians('sum'),
    sumTail: { subject: quantile(all('sum', 'subject'), 0.99), baseline: quantile(all('sum', 'baseline'), 0.99) },
    megabyte: medians('megabyte'),
    png: medians('png'),
    start: await starts(context),
  };
}

/** From nothing to the answer of a first cell. */
async function starts(context) {
  const rounds = [];
  for (let round = 0; round < (context.isQuick ? 1 : 5); round += 1) {
    const daemon = await startDaemon(context, { env: { ACTIOND_JUPYTER_PYTHON: kernelPython(context.root) } });
    const subject = daemon.readyMs + (await timeOf(() => cellAction(daemon.client, CELLS.sum)));
    await daemon.stop();
    const gateway = await startGateway(context);
    const baseline = gateway.readyMs + (await timeOf(async () => (await startBareKernel(context, gateway))(CELLS.sum)));
    await gateway.stop();
    rounds.push({ subject, baseline });
  }
  const middle = (side) => median(rounds.map((round) => round[side]));
  return { subject: middle('subject'), baseline: middle('baseline'), rounds };
}

async function cellAction(client, code) {
  const action = { action: 'run_ipython', args: { code, include_extra: false }, timeout: 60 };
  const observation = await client.postJson('/execute_action', { action });
  if (observation.observation !== 'run_ipython') throw new Error(`${code}: ${observation.content}`);
}

async function sample(once) {
  const times = [];
  for (let count = 0; count < BLOCK; count += 1) times.push(await timeOf(once));
  return times;
}

async function timeOf(once) {
  const startedAt = performance.now();
  await once();
  return performance.now() - startedAt;
}
