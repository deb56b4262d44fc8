import { expect, test } from 'vitest'
import { compileRequestHeaders, identityHeaders } from '../../src/upstream/request-headers.ts'
import { exampleGrant } from '../domain/examples.ts'

const grant = exampleGrant({
  id: 'key_01',
  workspaceId: 'ws_1',
  scopes: ['files:read', 'workspace:read'],
  hint: 'wsk_…abcd',
  expiresAtMs: 1,
})
const own = {
  requestId: 'req-1',
  forwarded: { for: '192.0.2.1', proto: 'https', host: 'api.example' },
} as const
const ownHeaders = {
  'x-postern-workspace-id': 'ws_1',
  'x-postern-key-id': 'key_01',
  'x-postern-scopes': 'files:read workspace:read',
  'x-request-id': 'req-1',
  'x-forwarded-for': '192.0.2.1',
  'x-forwarded-proto': 'https',
  'x-forwarded-host': 'api.example',
}

test('only allowed headers are forwarded, and never the key', () => {
  const build = compileRequestHeaders(['Accept', 'User-Agent'], {})
  const client = {
    accept: '*/*',
    authorization: 'Bearer wsk_x',
    cookie: 'a=b',
    'x-postern-key-id': 'key_forged',
  }
  expect(build(client, grant, own)).toEqual({ accept: '*/*', ...ownHeaders })
})

test('fixed headers replace the client’s, and may hold a token of the operator', () => {
  const build = compileRequestHeaders(['Accept', 'user-agent'], {
    'User-Agent': 'postern',
    Authorization: 'Bearer s',
  })
  expect(build({ 'user-agent': 'curl' }, grant, own)).toEqual({
    'user-agent': 'postern',
    authorization: 'Bearer s',
    ...ownHeaders,
  })
})

test('a Connection header of the client removes no header', () => {
  const build = compileRequestHeaders(['Accept'], {})
  expect(build({ accept: 'text/plain', connection: 'accept, x-postern-key-id' }, grant, own)).toMatchObject({
    accept: 'text/plain',
    ...ownHeaders,
  })
})

test('each request gets its own object', () => {
  const build = compileRequestHeaders(['Accept'], { 'X-Tenant': 't' })
  expect(build({}, grant, own)).not.toBe(build({}, grant, own))
})

test('a field with several values that the client may not repeat is left out, and so is an unknown host', () => {
  const build = compileRequestHeaders(['X-List'], {})
  const client = { 'x-list': ['a', 'b'] }
  const { 'x-forwarded-host': _host, ...others } = ownHeaders
  expect(build(client, grant, { ...own, forwarded: { ...own.forwarded, host: '' } })).toEqual(others)
})

/** Of one connection, of its framing, or set by the gateway. */
const FORBIDDEN = [
  ...['Connection', 'Keep-Alive', 'Proxy-Connection', 'TE', 'Trailer', 'Transfer-Encoding', 'Upgrade'],
  ...['Expect', 'Content-Length', 'Host', 'X-Request-Id', 'X-Postern-Workspace-Id', 'X-Postern-Key-Id'],
  ...['X-Postern-Scopes', 'X-Postern-Assertion', 'X-Forwarded-For', 'X-Forwarded-Proto'],
  ...['X-Forwarded-Host', 'X_Postern_Key.Id', 'x.forwarded_for'],
]

test.each([...FORBIDDEN, 'Authorization', 'Proxy-Authorization'])(
  'allowing %s from clients throws at start',
  name => expect(() => compileRequestHeaders([name], {})).toThrow(`The header ${name.toLowerCase()} cannot`),
)

test.each(FORBIDDEN)('a fixed header %s throws at start', name =>
  expect(() => compileRequestHeaders([], { [name]: 'x' })).toThrow(`The header ${name.toLowerCase()} cannot`),
)

test('a credential may be fixed, and replaces a name that clients may not send', () => {
  const build = compileRequestHeaders(['Authorization'], { 'Proxy-Authorization': 'a', Authorization: 'b' })
  expect(build({ authorization: 'c' }, grant, own)).toEqual({
    'proxy-authorization': 'a',
    authorization: 'b',
    ...ownHeaders,
  })
})

const identity = {
  'x-postern-workspace-id': 'ws_1',
  'x-postern-key-id': 'key_01',
  'x-postern-scopes': 'files:read workspace:read',
}

test('the headers of a proxy name the key, its workspace and its scopes, and hold an assertion if there is one', () => {
  expect(identityHeaders(grant, null)).toEqual(identity)
  expect(identityHeaders(grant, 'signed')).toEqual({ ...identity, 'x-postern-assertion': 'signed' })
})
