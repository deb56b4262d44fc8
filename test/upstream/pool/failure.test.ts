import { errors } from 'undici'
import { expect, test } from 'vitest'
import { UPSTREAM_ERROR_KINDS } from '../../../src/observability/metrics/metrics.ts'
import {
  type FailurePhase,
  isConnectionLoss,
  isUnreachable,
  toDenialReason,
  toUpstreamFailure,
  UpstreamFailure,
} from '../../../src/upstream/pool/failure.ts'

const coded = (code: string) => Object.assign(new Error('10.0.0.1 is down'), { code })
const resolving = (code: string) => Object.assign(coded(code), { syscall: 'getaddrinfo' })
const mismatch = new errors.ResponseContentLengthMismatchError()

test.each<[string, FailurePhase, Error, string]>([
  ['an unknown name', 'connecting', coded('ENOTFOUND'), 'dns'],
  ['a failing resolver', 'connecting', coded('EAI_AGAIN'), 'dns'],
  ['a refused connection', 'connecting', coded('ECONNREFUSED'), 'refused'],
  ['an unreachable host', 'connecting', coded('EHOSTUNREACH'), 'refused'],
  ['a network without a route', 'connecting', coded('ENETUNREACH'), 'refused'],
  ['a resolver that is out of memory', 'connecting', resolving('EMFILE'), 'dns'],
  ['no free socket', 'connecting', Object.assign(coded('EMFILE'), { syscall: 'connect' }), 'refused'],
  ['a slow connection', 'connecting', new errors.ConnectTimeoutError(), 'connect_timeout'],
  ['a timeout of the kernel', 'connecting', coded('ETIMEDOUT'), 'connect_timeout'],
  ['an unknown authority', 'connecting', coded('UNABLE_TO_VERIFY_LEAF_SIGNATURE'), 'tls'],
  ['a certificate of another name', 'connecting', coded('ERR_TLS_CERT_ALTNAME_INVALID'), 'tls'],
  ['a certificate without a code', 'connecting', Object.assign(new Error('?'), { code: 7 }), 'reset'],
  ['a reset handshake', 'connecting', coded('ECONNRESET'), 'reset'],
  ['a pipe that broke in the handshake', 'connecting', coded('EPIPE'), 'reset'],
  ['an aborted handshake', 'connecting', coded('ECONNABORTED'), 'reset'],
  ['a reset', 'waiting', coded('ECONNRESET'), 'reset'],
  ['a close before the head', 'waiting', new errors.SocketError('other side closed'), 'reset'],
  ['a close within the body', 'streaming', new errors.SocketError('other side closed'), 'truncated'],
  ['fewer bytes than declared', 'streaming', mismatch, 'truncated'],
  ['invalid bytes within a head that has a length', 'waiting', mismatch, 'protocol'],
  ['invalid bytes within a body', 'streaming', new errors.HTTPParserError('?'), 'protocol'],
  ['a long head', 'waiting', new errors.HeadersOverflowError(), 'protocol'],
  ['a response that is not HTTP', 'waiting', new errors.HTTPParserError('?'), 'protocol'],
  ['our own shutdown', 'connecting', new errors.ClientDestroyedError(), 'reset'],
  ['an error without a code', 'waiting', new Error('?'), 'reset'],
  ['an error without a code', 'connecting', new Error('?'), 'reset'],
])('%s (%s) is classified by class and code', (_name, phase, error, kind) => {
  expect(toUpstreamFailure(error, phase)).toMatchObject({ kind, cause: error })
})

test('an UpstreamFailure is returned unchanged', () => {
  const failure = new UpstreamFailure('body_timeout')
  expect(toUpstreamFailure(failure, 'streaming')).toBe(failure)
})

test('it names its kind, and has a cause only if there is one', () => {
  const failure = new UpstreamFailure('body_timeout')
  expect([failure.name, failure.message]).toEqual(['UpstreamFailure', 'Upstream failed: body_timeout'])
  expect(Object.hasOwn(failure, 'cause')).toBe(false)
})

test.each([
  [new errors.SocketError('other side closed'), true],
  [coded('ECONNRESET'), true],
  [coded('EPIPE'), true],
  [coded('ECONNABORTED'), true],
  [new errors.HTTPParserError('?'), false],
  [coded('ECONNREFUSED'), false],
  [new Error('?'), false],
  ['ECONNRESET', false],
])('an error %j is the loss of an open connection: %s', (error, isLoss) => {
  expect(isConnectionLoss(error)).toBe(isLoss)
})

test('only an upstream that cannot be reached or does not respond opens the circuit', () => {
  expect(UPSTREAM_ERROR_KINDS.filter(isUnreachable).sort()).toEqual(
    ['dns', 'refused', 'connect_timeout', 'tls', 'headers_timeout', 'total_timeout'].sort(),
  )
})

test('an assertion that cannot be signed is an error of the gateway', () => {
  expect(toDenialReason('assertion')).toBe('internal_error')
})

test('its message does not hold the message of the cause', () => {
  expect(toUpstreamFailure(coded('ECONNREFUSED'), 'connecting').message).not.toContain('10.0.0.1')
})

test('only timeouts are a 504; other failures are a 502 or, if no request was sent, a 503', () => {
  const reasons = Object.fromEntries(UPSTREAM_ERROR_KINDS.map(kind => [kind, toDenialReason(kind)]))
  expect(reasons).toEqual({
    dns: 'upstream_error',
    refused: 'upstream_error',
    connect_timeout: 'upstream_timeout',
    tls: 'upstream_error',
    headers_timeout: 'upstream_timeout',
    body_timeout: 'upstream_error',
    total_timeout: 'upstream_timeout',
    reset: 'upstream_error',
    truncated: 'upstream_error',
    protocol: 'upstream_error',
    queue_full: 'upstream_queue_full',
    preempted: 'workspace_overloaded',
    circuit_open: 'upstream_unavailable',
  })
})
