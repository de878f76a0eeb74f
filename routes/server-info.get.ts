import type { FastifyInstance } from 'fastify';
import type { ServerInfoReply } from '../src/protocol/http.ts';

/** `GET /server_info`: uptime, idle time, resources, what the sandbox has (V0 §2.3). */
export function serverInfoRoute(describe: () => Promise<ServerInfoReply>) {
  return (app: FastifyInstance): void => {
    app.get('/server_info', describe);
  };
}
