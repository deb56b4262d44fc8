import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { withoutBrackets } from '../../../src/domain/form/address.ts'
import { resolveName, UpstreamAddresses } from '../../../src/upstream/pool/connector.ts'

/** Addresses of an upstream whose names the test resolves. */
function start(...hosts: string[]) {
  const state = { nowMs: 10_000 }
  const asked: { name: string; resolve(hosts: readonly string[]): void; reject(error: Error): void }[] = []
  const reports: string[] = []
  const addresses = new UpstreamAddresses(
    hosts.map((host, index) => ({ host, port: 80 + index })),
    {
      nowMs: () => state.nowMs,
      resolve: name => {
        const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>()
        asked.push({ name, resolve, reject })
        return promise
      },
      failures: {
        failed: error => void reports.push(error.message),
        succeeded: () => void reports.push('succeeded'),
      },
    },
  )
  const candidates = async () =>
    (await addresses.candidates()).map(({ host, port }) => `${host}:${port}`).sort()
  return { state, asked, reports, addresses, candidates }
}

/** An upstream whose name was resolved at 10,000 ms. */
async function resolved() {
  const world = start('files.test')
  const waiting = world.candidates()
  world.asked[0]?.resolve(['10.0.0.1'])
  expect(await waiting).toEqual(['10.0.0.1:80'])
  return world
}

test('IP addresses need no resolver', async () => {
  const { candidates, asked } = start('10.0.0.1', '::1')
  expect(await candidates()).toEqual(['10.0.0.1:80', '::1:81'])
  expect(asked).toEqual([])
})

test('beside an IP address a name is resolved as well', async () => {
  const { candidates, asked } = start('10.0.0.1', 'files.test')
  const waiting = candidates()
  asked[0]?.resolve(['10.0.0.2'])
  expect(await waiting).toEqual(['10.0.0.1:80', '10.0.0.2:81'])
})

test('the first connection waits for the first name that resolves, and for no other', async () => {
  const { candidates, asked, reports } = start('a.test', 'b.test', 'c.test')
  const waiting = candidates()
  expect(asked.map(({ name }) => name)).toEqual(['a.test', 'b.test', 'c.test'])
  asked[0]?.reject(new Error('no a'))
  asked[1]?.resolve(['10.0.0.2', '10.0.0.3'])
  expect(await waiting).toEqual(['10.0.0.2:81', '10.0.0.3:81'])
  expect(reports.sort()).toEqual(['no a', 'succeeded'])
})

test('if no name resolves, the error is that of the first', async () => {
  const { candidates, asked } = start('a.test', 'b.test')
  const waiting = candidates()
  asked[1]?.reject(new Error('no b'))
  asked[0]?.reject(new Error('no a'))
  await expect(waiting).rejects.toThrow('no a')
})

test('a name without an address is an unknown name', async () => {
  const { candidates, asked, reports } = start('a.test')
  const waiting = candidates()
  asked[0]?.resolve([])
  await expect(waiting).rejects.toMatchObject({ code: 'ENOTFOUND' })
  expect(reports).toEqual(['The upstream’s host name has no address'])
})

describe('with known addresses', () => {
  test('a name is resolved again after five seconds, and not before', async () => {
    const { state, candidates, asked } = await resolved()
    state.nowMs = 14_999
    expect(await candidates()).toEqual(['10.0.0.1:80'])
    expect(asked).toHaveLength(1)
    state.nowMs = 15_000
    const waiting = candidates()
    expect(asked).toHaveLength(2)
    asked[1]?.resolve(['10.0.0.9'])
    expect(await waiting).toEqual(['10.0.0.9:80'])
    state.nowMs = 19_999
    expect(await candidates()).toEqual(['10.0.0.9:80'])
    expect(asked).toHaveLength(2)
  })

  test('a connection waits for fresh ones', async () => {
    const { state, candidates, asked } = await resolved()
    state.nowMs = 20_000
    const waiting = [candidates(), candidates()]
    asked[1]?.resolve(['10.0.0.9'])
    expect(await Promise.all(waiting)).toEqual([['10.0.0.9:80'], ['10.0.0.9:80']])
    expect(asked).toHaveLength(2)
  })

  test.each([199, 200, 100_000])(
    'a lookup that has not ended after %i ms is waited for at most until 200 ms, and not asked for twice',
    async ms => {
      const { state, candidates, asked } = await resolved()
      state.nowMs = 20_000
      const first = candidates()
      state.nowMs += ms
      expect(await candidates()).toEqual(['10.0.0.1:80'])
      expect(asked).toHaveLength(2)
      asked[1]?.resolve(['10.0.0.9'])
      expect(await first).toEqual(['10.0.0.9:80'])
    },
  )

  test('they stay in use while the resolver fails', async () => {
    const { state, candidates, asked, reports } = await resolved()
    const unhandled: unknown[] = []
    const note = (error: unknown) => void unhandled.push(error)
    process.on('unhandledRejection', note)
    state.nowMs = 20_000
    const waiting = candidates()
    asked[1]?.reject(new Error('down'))
    expect(await waiting).toEqual(['10.0.0.1:80'])
    expect(reports).toEqual(['succeeded', 'down'])
    await nextTurn()
    process.off('unhandledRejection', note)
    expect(unhandled).toEqual([])
  })
})

test('a resolver that failed before any address was known is asked again at once', async () => {
  const { candidates, asked } = start('a.test')
  const waiting = candidates()
  asked[0]?.reject(new Error('down'))
  await expect(waiting).rejects.toThrow('down')
  const again = candidates()
  asked[1]?.resolve(['10.0.0.1'])
  expect(await again).toEqual(['10.0.0.1:80'])
})

test('the system’s resolver reads the hosts file', async () => {
  expect(await resolveName('localhost')).toContain('127.0.0.1')
})

test.each([
  ['[::1]', '::1'],
  ['files.test', 'files.test'],
  ['a[b]c', 'a[b]c'],
])('the host %s of a URL is %s to a socket', (host, plain) => {
  expect(withoutBrackets(host)).toBe(plain)
})
