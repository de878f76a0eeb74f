import type { Tab } from './tab.ts';

/** Keeps a page where it is for as long as `work` takes: whatever it goes to, itself included, is refused. */
export async function whileHeld<T>(tab: Tab, work: () => Promise<T>): Promise<T> {
  const { cdp } = tab;
  const { sessionId, targetId } = await tab.session();
  const stopListening = cdp.onEvent((method, { requestId, frameId }, from) => {
    if (from !== sessionId || method !== 'Fetch.requestPaused') return;
    // A frame of the page may go where it likes.
    const [answer, more] =
      frameId === targetId ? ['Fetch.failRequest', { errorReason: 'Aborted' }] : ['Fetch.continueRequest', {}];
    void cdp.send(answer, { requestId, ...more }, sessionId).catch(() => {});
  });
  try {
    await cdp.send('Fetch.enable', { patterns: [{ resourceType: 'Document', requestStage: 'Request' }] }, sessionId);
    return await work();
  } finally {
    stopListening();
    void cdp.send('Fetch.disable', {}, sessionId).catch(() => {});
  }
}
