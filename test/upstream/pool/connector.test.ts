import type { Socket } from 'node:net'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Connected, connectToUpstream, UpstreamAddresses } from '../../../src/upstream/pool/connector.ts'

const TIMEOUT_MS = 1000

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** An attempt to connect whose connections the test makes. */
function start(hosts: readonly string[], resolve = () => Promise.resolve<readonly string[]>([])) {
  const nowMs = () => 0
  const failures = { failed: () => {}, succeeded: () => {} }
  const addresses = new UpstreamAddresses(
    hosts.map(host => ({ host, port: 8080 })),
    { nowMs, resolve, failures },
  )
  const tried = new Map<string, (error: Error | null) => void>()
  const destroyed: string[] = []
  const socketOf = (host: string) => ({ host, destroy: () => destroyed.push(host) }) as unknown as Socket
  const outcomes: Parameters<Connected>[] = []
  connectToUpstream(
    {
      addresses,
      connectTimeoutMs: TIMEOUT_MS,
      nowMs,
      connector: ({ hostname, port }, connected) =>
        void tried.set(`${hostname}:${port}`, error =>
          // The two forms of undici's callback.
          error === null ? connected(null, socketOf(hostname)) : connected(error, null),
        ),
    },
    { hostname: 'files.test', protocol: 'http:', port: '80', accepts: () => true },
    (...outcome) => void outcomes.push(outcome),
  )
  const finish = (host: string, error: Error | null = null) => tried.get(`${host}:8080`)?.(error)
  return {
    finish,
    outcomes,
    destroyed,
    avoid: (host: string) => addresses.book.failed({ host, port: 8080 }, 0),
    tried: () => [...tried.keys()],
    stats: () => addresses.book.stats(0),
    connectedTo: () => outcomes.map(([error, , address]) => error?.message ?? address?.host),
  }
}
const turns = () => vi.advanceTimersByTimeAsync(0)
const refused = (host: string) => new Error(`${host} refuses`)

test('the first address is connected, with its own port, and nothing else runs on', async () => {
  const attempt = start(['10.0.0.1', '10.0.0.2'])
  await turns()
  expect(attempt.tried()).toEqual(['10.0.0.1:8080'])
  attempt.finish('10.0.0.1')
  expect(attempt.outcomes).toEqual([
    [null, expect.objectContaining({ host: '10.0.0.1' }), { host: '10.0.0.1', port: 8080 }],
  ])
  expect(vi.getTimerCount()).toBe(0)
})

test('an address that refuses is followed by the next at once, and avoided from then on', async () => {
  const attempt = start(['10.0.0.1', '10.0.0.2'])
  await turns()
  attempt.finish('10.0.0.1', refused('10.0.0.1'))
  expect([attempt.tried().length, attempt.stats()]).toEqual([2, { usable: 1, avoided: 1 }])
  expect(attempt.outcomes).toEqual([])
  attempt.finish('10.0.0.2')
  expect(attempt.connectedTo()).toEqual(['10.0.0.2'])
})

test('an address that was avoided and is connected is no longer avoided', async () => {
  const attempt = start(['10.0.0.1'])
  attempt.avoid('10.0.0.1')
  expect(attempt.stats()).toEqual({ usable: 0, avoided: 1 })
  await turns()
  attempt.finish('10.0.0.1')
  expect(attempt.stats()).toEqual({ usable: 1, avoided: 0 })
})

test('if all addresses refuse, the error of the last is reported once', async () => {
  const attempt = start(['10.0.0.1', '10.0.0.2'])
  await turns()
  for (const host of ['10.0.0.1', '10.0.0.2']) attempt.finish(host, refused(host))
  await vi.advanceTimersByTimeAsync(2 * TIMEOUT_MS)
  expect(attempt.connectedTo()).toEqual(['10.0.0.2 refuses'])
  expect(vi.getTimerCount()).toBe(0)
})

test('after half of the timeout a second address is tried beside the first; the first to connect is used', async () => {
  const attempt = start(['10.0.0.1', '10.0.0.2', '10.0.0.3'])
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS / 2 - 1)
  expect(attempt.tried()).toHaveLength(1)
  await vi.advanceTimersByTimeAsync(1)
  expect(attempt.tried()).toHaveLength(2)
  attempt.finish('10.0.0.2')
  expect(attempt.connectedTo()).toEqual(['10.0.0.2'])
  // The one that comes too late is closed, and one that fails too late is not followed by a third.
  attempt.finish('10.0.0.1')
  expect(attempt.destroyed).toEqual(['10.0.0.1'])
  attempt.finish('10.0.0.1', refused('10.0.0.1'))
  expect(attempt.tried()).toHaveLength(2)
  expect(attempt.connectedTo()).toEqual(['10.0.0.2'])
})

test('one address that fails is not the end while another is being connected', async () => {
  const attempt = start(['10.0.0.1', '10.0.0.2'])
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS / 2)
  attempt.finish('10.0.0.2', refused('10.0.0.2'))
  expect(attempt.outcomes).toEqual([])
  attempt.finish('10.0.0.1')
  expect(attempt.connectedTo()).toEqual(['10.0.0.1'])
  expect(attempt.stats()).toEqual({ usable: 1, avoided: 1 })
})

test('if nothing is connected at the timeout, all addresses that were tried are avoided', async () => {
  const attempt = start(['10.0.0.1', '10.0.0.2', '10.0.0.3'])
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS - 1)
  expect(attempt.outcomes).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  expect(attempt.outcomes).toMatchObject([[{ code: 'UND_ERR_CONNECT_TIMEOUT' }, null, null]])
  expect(attempt.stats()).toEqual({ usable: 1, avoided: 2 })
})

test('a name that is not resolved within the timeout is a failure of the resolver', async () => {
  const attempt = start(['files.test'], () => new Promise(() => {}))
  await vi.advanceTimersByTimeAsync(TIMEOUT_MS)
  expect(attempt.outcomes).toMatchObject([
    [{ code: 'EAI_AGAIN', message: expect.stringContaining('was not resolved before') }, null, null],
  ])
})

test('an error of the resolver is the outcome', async () => {
  const attempt = start(['files.test'], () => Promise.reject(new Error('no such name')))
  await turns()
  expect(attempt.connectedTo()).toEqual(['no such name'])
  expect(vi.getTimerCount()).toBe(0)
})
