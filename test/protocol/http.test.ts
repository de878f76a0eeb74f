import { expect, test } from 'vitest';
import {
  ActionEnvelope,
  ErrorBody,
  ListFilesRequest,
  ServerInfoReply,
  SessionsReply,
} from '../../src/protocol/http.ts';

/** V0 §2.3, with what we add. */
const SERVER_INFO = {
  uptime: 1.66,
  idle_time: 1.66,
  resources: {
    cpu_percent: 0,
    memory: { rss: 130932736, vms: 448286720, percent: 0.518 },
    disk: { total: 0, used: 0, free: 0, percent: 26.7 },
    io: { read_bytes: 0, write_bytes: 0 },
  },
  version: '0.1.0',
  protocol: 'openhands-v0',
  capabilities: ['run'],
  sandbox: { os: 'Debian GNU/Linux 12', arch: 'x64', tools: { git: '2.39.5', docker: null } },
  running_actions: 0,
};

test('server_info has all of V0 and more', () => {
  expect(ServerInfoReply.parse(SERVER_INFO)).toEqual(SERVER_INFO);
});

test('a session says everything about itself', () => {
  const session = {
    name: 'default',
    lane: 'bash:default',
    kind: 'bash',
    state: 'idle',
    cwd: '/',
    pid: 7,
    created: 'a',
    last_used: 'b',
  };
  expect(SessionsReply.parse({ sessions: [session] })).toEqual({ sessions: [session] });
  expect(SessionsReply.safeParse({ sessions: [{ ...session, state: 'odd' }] }).success).toBe(false);
});

test.each([[{}], [{ path: null }], [{ path: 'a' }]])('list_files takes %j', (body) => {
  expect(ListFilesRequest.parse(body)).toEqual(body);
});

test.each([[null], [[]], [{ path: 1 }]])('list_files refuses %j', (body) => {
  expect(ListFilesRequest.safeParse(body).success).toBe(false);
});

test('the envelope leaves the action itself alone', () => {
  expect(ActionEnvelope.safeParse({ action: { action: 'bogus' } }).success).toBe(true);
  expect(ActionEnvelope.safeParse({ action: 'run' }).success).toBe(false);
});

test('an error body has a detail', () => {
  expect(ErrorBody.parse({ detail: 'Not Found' })).toEqual({ detail: 'Not Found' });
  expect(ErrorBody.safeParse({}).success).toBe(false);
});
