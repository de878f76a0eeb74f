import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { WebSocket } from 'ws';

const TOKEN = 'bench';

export function kernelPython(root) {
  return process.env.ACTIOND_JUPYTER_PYTHON ?? path.join(root, '.venv/bin/python');
}

export function hasKernelPython(root) {
  return existsSync(kernelPython(root));
}

/** A kernel gateway as the daemon starts one, for the daemon and for bare sockets alike. */
export async function startGateway(context) {
  const startedAt = performance.now();
  const program = path.join(context.root, 'executors/jupyter/python/gateway.py');
  const child = spawn(kernelPython(context.root), ['-u', program], { cwd: '/', stdio: ['pipe', 'pipe', 'ignore'] });
  const exited = once(child, 'exit');
  const stop = async () => {
    child.stdin.end();
    await exited;
  };
  context.defer(stop);
  child.stdin.write(`${JSON.stringify({ token: TOKEN, runtime_dir: context.makeDirectory('jupyter') })}\n`);
  const [line] = await once(createInterface(child.stdout), 'line');
  const url = `http://127.0.0.1:${JSON.parse(line).port}`;
  return { url, token: TOKEN, stop, readyMs: performance.now() - startedAt };
}

/** A kernel and nothing between: one socket, one frame out, done when the reply and the idle state are in. */
export async function startBareKernel(context, { url, token }) {
  const headers = { authorization: `token ${token}`, 'content-type': 'application/json' };
  const started = await fetch(`${url}/api/kernels`, { method: 'POST', headers, body: '{"name":"python3"}' });
  const { id } = await started.json();
  const socket = new WebSocket(`${url.replace('http', 'ws')}/api/kernels/${id}/channels?session_id=${randomUUID()}`, {
    headers,
    perMessageDeflate: false,
  });
  await once(socket, 'open');
  context.defer(() => socket.terminate());
  return (code) => runCell(socket, code);
}

function runCell(socket, code) {
  const id = randomUUID();
  const content = { code, silent: false, store_history: false, user_expressions: {}, allow_stdin: false };
  const header = { msg_id: id, msg_type: 'execute_request', session: 'bench', username: '', version: '5.3' };
  return new Promise((resolve) => {
    const outputs = [];
    let isReplied = false;
    let isIdle = false;
    const onMessage = (data) => {
      const message = JSON.parse(data);
      if (message.parent_header.msg_id !== id) return;
      if (message.msg_type === 'execute_reply') isReplied = true;
      else if (message.msg_type === 'status') isIdle ||= message.content.execution_state === 'idle';
      else outputs.push(message);
      if (!isReplied || !isIdle) return;
      socket.off('message', onMessage);
      resolve(outputs);
    };
    socket.on('message', onMessage);
    socket.send(JSON.stringify({ channel: 'shell', header, parent_header: {}, metadata: {}, content }));
  });
}
