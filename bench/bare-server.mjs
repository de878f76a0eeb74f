// The baseline of a server: `node bench/bare-server.mjs PORT`.

import Fastify from 'fastify';

const app = Fastify();
app.get('/', async () => ({}));
app.post('/', async () => ({}));
await app.listen({ port: Number(process.argv[2]), host: '127.0.0.1' });
