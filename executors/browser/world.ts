import type { CdpConnection } from './cdp.ts';

/** Name of the world that our scripts live in. */
const WORLD = 'actiond';

/** A place for our scripts beside those of a frame. */
export interface World {
  readonly sessionId: string;
  readonly contextId: number;
}

/** Our world of a frame; the same one for as long as the document lives. */
export async function worldOf(cdp: CdpConnection, sessionId: string, frameId: string): Promise<number> {
  const { executionContextId } = await cdp.send<{ executionContextId: number }>(
    'Page.createIsolatedWorld',
    { frameId, worldName: WORLD },
    sessionId,
  );
  return executionContextId;
}

interface Evaluated {
  readonly result: { readonly value: unknown };
  readonly exceptionDetails?: { readonly text: string; readonly exception?: { readonly description?: string } };
}

/** @throws what the function throws */
export async function evaluateIn<T>(
  cdp: CdpConnection,
  { sessionId, contextId }: World,
  script: string,
  argument: object,
): Promise<T> {
  const reply = await cdp.send<Evaluated>(
    'Runtime.callFunctionOn',
    {
      functionDeclaration: script,
      executionContextId: contextId,
      arguments: [{ value: argument }],
      returnByValue: true,
      awaitPromise: true,
    },
    sessionId,
  );
  if (reply.exceptionDetails)
    throw new Error(reply.exceptionDetails.exception?.description ?? reply.exceptionDetails.text);
  return reply.result.value as T;
}
