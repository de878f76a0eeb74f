import type { LoggedEvent } from '../../src/events/types.ts';
import { rawRequest, type RawReply } from './http.ts';
import { until } from './wait.ts';

/** An action on its way, and what became of it. */
export interface Sent {
  /** Names it in what it prints and leaves behind. */
  readonly mark: string;
  /** `Idempotency-Key`; undefined: the action has `id` and `timestamp`. */
  readonly key: string | undefined;
  readonly action: object;
  readonly isAsync?: boolean;
  readonly isHidden?: boolean;
  answer?: Answer;
}

export interface Answer {
  readonly status: number;
  readonly actionId: string;
  readonly isReplay: boolean;
  readonly content: string;
  /** The whole body. */
  readonly text: string;
  /** Whether it came to a repeat after a restart. */
  readonly wasResent?: boolean;
}

export interface WholeLog {
  readonly stream: string;
  readonly oldest: number;
  readonly latest: number;
  readonly events: LoggedEvent[];
}

/** Talks to a daemon that may die at any moment; every request has a connection of its own. */
export class DurableClient {
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  async alive(): Promise<void> {
    await until('alive', async () => (await this.#request('GET', '/alive'))?.status === 200);
  }

  /** @returns undefined when the connection broke before the whole answer was here */
  async send({ action, key, isAsync = false }: Sent): Promise<Answer | undefined> {
    const reply = await this.#request(
      'POST',
      '/execute_action',
      { action },
      {
        ...(key === undefined ? {} : { 'idempotency-key': key }),
        ...(isAsync ? { prefer: 'respond-async' } : {}),
      },
    );
    if (!reply) return undefined;
    if (reply.status !== 200 && reply.status !== 202) throw new Error(`HTTP ${reply.status}: ${reply.text}`);
    const body = JSON.parse(reply.text) as { action_id: string; content?: string };
    return {
      status: reply.status,
      actionId: body.action_id,
      isReplay: reply.headers['idempotent-replay'] === 'true',
      content: body.content ?? '',
      text: reply.text,
    };
  }

  /** Ids of actions that run or wait. */
  async open(): Promise<string[]> {
    const lists = await Promise.all(
      ['queued', 'running'].map((status) =>
        this.#json<{ actions: { action_id: string }[] }>(`/actions?status=${status}`),
      ),
    );
    return lists.flatMap(({ actions }) => actions.map(({ action_id: id }) => id));
  }

  async wholeLog(): Promise<WholeLog> {
    const events: LoggedEvent[] = [];
    for (let after = 0; ;) {
      const page = await this.#json<WholeLog & { next: number }>(`/events?limit=1000&after=${after}`);
      events.push(...page.events);
      if (page.next >= page.latest) return { ...page, events };
      after = page.next;
    }
  }

  async #json<T>(path: string): Promise<T> {
    const reply = await this.#request('GET', path);
    if (reply?.status !== 200) throw new Error(`${path}: HTTP ${reply?.status}: ${reply?.text}`);
    return JSON.parse(reply.text) as T;
  }

  async #request(
    method: string,
    path: string,
    body?: object,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<RawReply | undefined> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    try {
      return await rawRequest(this.#url, {
        method,
        path,
        headers:
          text === undefined
            ? headers
            : { ...headers, 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) },
        ...(text === undefined ? {} : { body: text }),
      });
    } catch {
      return undefined;
    }
  }
}
