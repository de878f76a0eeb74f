import type { FastifyInstance } from 'fastify';

/** `GET /vscode/connection_token`: for the address of VS Code; null without a VS Code that runs (V0 §2.10). */
export function vscodeTokenRoute(token: () => Promise<string | null>) {
  return (app: FastifyInstance): void => {
    app.get('/vscode/connection_token', async () => ({ token: await token() }));
  };
}
