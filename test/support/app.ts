import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { pino } from 'pino';
import { healthRoute } from '../../routes/health.get.ts';
import { type AppOptions, buildApp } from '../../src/app.ts';
import { Guard } from '../../src/guard.ts';

/** The application with nothing but `/health` and `POST /echo`, on a port of its own, for limits that no flag sets; `await using` closes it. */
export class TestApp implements AsyncDisposable {
  readonly #app: FastifyInstance;

  private constructor(app: FastifyInstance) {
    this.#app = app;
  }

  static async start(options: Partial<AppOptions> = {}): Promise<TestApp> {
    const app = buildApp({
      guard: new Guard({ apiKeys: [], allowOrigins: [], isLoopback: true }),
      log: pino({ level: 'silent' }),
      maxBodyBytes: 1024,
      keepAliveMs: 60_000,
      bodyIdleMs: 60_000,
      maxConnections: 1000,
      plugins: [healthRoute, (scope) => scope.post('/echo', (request) => ({ got: request.body }))],
      ...options,
    });
    await app.listen({ port: 0, host: '127.0.0.1' });
    return new TestApp(app);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#app.server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#app.server.closeAllConnections();
    await this.#app.close();
  }
}
