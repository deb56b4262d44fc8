import { expect, test } from 'vitest'
import { startConsole } from '../support/console.ts'
import { ManualClock } from '../support/manual-clock.ts'

const DIGEST = 'a'.repeat(64)
const [LOOKUPS, CONFIRMATIONS] = ['/internal/v1/lookups', '/internal/v1/confirmations']
const REPORT = { gateway: { id: 'g-1', name: 'gateway-1' }, connected: true, leaving: false, confirmed: [] }
const CHANGE = { digest: DIGEST, version: 1 }

const DIGESTS_EXPECTED = 'a list of 1 to 256 digests, each of 64 lower-case hexadecimal digits'
const GATEWAY_EXPECTED =
  'an object with id and name, each of A-Z, a-z, 0-9 and "-", ".", "_", and region, if any, of a-z, 0-9 and "-"'
const CONFIRMED_EXPECTED = 'a list of at most 1000 objects, each with digest and version'

const digests = (count: number) =>
  Array.from({ length: count }, (_, index) => String(index).padStart(64, '0'))

test('a lookup of several keys says what its digests must be', async () => {
  const { send } = await startConsole()
  const wrong = [
    undefined,
    [],
    digests(257),
    [DIGEST.slice(1)],
    [`${DIGEST}a`],
    [DIGEST.toUpperCase()],
    DIGEST,
  ]
  for (const value of wrong) {
    const { status, body } = await send('POST', LOOKUPS, { digests: value })
    const error = `digests must be ${DIGESTS_EXPECTED}`
    expect([value, status, body]).toEqual([value, 400, { code: 'invalid_request', error, field: 'digests' }])
  }
})

test('a lookup of 256 keys is answered, each digest once', async () => {
  const { send } = await startConsole()
  const { status, body } = await send('POST', LOOKUPS, { digests: [...digests(255), digests(1)[0]] })
  expect([status, Object.keys(body.records)]).toEqual([200, digests(255)])
  expect((await send('POST', LOOKUPS, { digests: digests(1), more: 1 })).status).toBe(400)
})

const WRONG: readonly (readonly [change: object, field: string, expected: string])[] = [
  [{ gateway: undefined }, 'gateway', GATEWAY_EXPECTED],
  [{ gateway: { id: 'g'.repeat(65), name: 'g' } }, 'gateway', GATEWAY_EXPECTED],
  [{ gateway: { id: 'g', name: 'g'.repeat(254) } }, 'gateway', GATEWAY_EXPECTED],
  [{ gateway: { id: 'a b', name: 'g' } }, 'gateway', GATEWAY_EXPECTED],
  [{ gateway: { id: 'g', name: '' } }, 'gateway', GATEWAY_EXPECTED],
  [{ gateway: { id: 'g', name: 'g', region: 'EU' } }, 'gateway', GATEWAY_EXPECTED],
  [{ connected: 'yes' }, 'connected', 'true or false'],
  [{ connected: undefined }, 'connected', 'true or false'],
  [{ leaving: 1 }, 'leaving', 'true or false'],
  [{ leaving: undefined }, 'leaving', 'true or false'],
  [{ drain: 'soon' }, 'drain', 'completed or timed_out'],
  [{ confirmed: undefined }, 'confirmed', CONFIRMED_EXPECTED],
  [{ confirmed: Array.from({ length: 1001 }, () => CHANGE) }, 'confirmed', CONFIRMED_EXPECTED],
  [{ confirmed: [{ ...CHANGE, version: 0 }] }, 'confirmed', CONFIRMED_EXPECTED],
  [{ confirmed: [{ ...CHANGE, version: 1.5 }] }, 'confirmed', CONFIRMED_EXPECTED],
]

test('a confirmation says of each field what it must be', async () => {
  const { send } = await startConsole()
  for (const [change, field, expected] of WRONG) {
    const { status, body } = await send('POST', CONFIRMATIONS, { ...REPORT, ...change })
    const error = `${field} must be ${expected}`
    expect([change, status, body]).toEqual([change, 400, { code: 'invalid_request', error, field }])
  }
})

test('a confirmation that has too little or too much is refused as a whole', async () => {
  const { send } = await startConsole()
  for (const change of [
    { gateway: { name: 'g' } },
    { gateway: { id: 'g' } },
    { gateway: { id: 'g', name: 'g', more: 1 } },
    { confirmed: [{ digest: DIGEST }] },
    { confirmed: [{ version: 1 }] },
    { confirmed: [{ ...CHANGE, more: 1 }] },
    { more: 1 },
  ]) {
    const { status, body } = await send('POST', CONFIRMATIONS, { ...REPORT, ...change })
    expect([change, status, body.code]).toEqual([change, 400, 'invalid_request'])
  }
})

test('a confirmation at its bounds is taken, and answered with what a gateway compares', async () => {
  const { send } = await startConsole()
  const gateway = { id: 'A-z0.9_'.padEnd(64, 'x'), name: 'g'.repeat(253), region: 'default' }
  const confirmed = digests(1000).map(digest => ({ ...CHANGE, digest }))
  const { status, body } = await send('POST', CONFIRMATIONS, { ...REPORT, gateway, confirmed })
  expect([status, body]).toEqual([
    200,
    {
      signingSecrets: [expect.stringMatching(/^[0-9a-f]+$/)],
      regions: ['default'],
      gateways: 1,
      at: expect.any(Number),
    },
  ])
})

test('gateways are counted once a second at most, since they report more often during changes', async () => {
  const clock = new ManualClock()
  const { send } = await startConsole({ parts: { clock } })
  const reportOf = async (name: string) =>
    JSON.parse((await send('POST', CONFIRMATIONS, { ...REPORT, gateway: { id: name, name } })).text).gateways
  expect(await reportOf('a')).toBe(1)
  clock.advance(999)
  expect(await reportOf('b')).toBe(1)
  clock.advance(1)
  expect(await reportOf('c')).toBe(3)
})

test.each(['completed', 'timed_out'] as const)(
  'the end of a drain is counted once the gateway leaves: %s',
  async drain => {
    const { send, metrics } = await startConsole()
    const counted = async () =>
      Object.fromEntries(
        (await metrics.gatewayDrains.get()).values.map(({ labels, value }) => [labels['outcome'], value]),
      )
    expect(await counted()).toEqual({ completed: 0, timed_out: 0 })
    await send('POST', CONFIRMATIONS, { ...REPORT, drain })
    await send('POST', CONFIRMATIONS, { ...REPORT, leaving: true })
    expect(await counted()).toEqual({ completed: 0, timed_out: 0 })
    await send('POST', CONFIRMATIONS, { ...REPORT, leaving: true, drain })
    expect(await counted()).toEqual({ completed: 0, timed_out: 0, [drain]: 1 })
  },
)
