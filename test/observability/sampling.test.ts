import { Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import type { Config } from '../../src/config/schema/schema.ts'
import { OpenTelemetryTracing } from '../../src/observability/open-telemetry.ts'
import type { TracedRequest } from '../../src/observability/request-observation.ts'
import { parentTrust } from '../../src/run/run-gateway.ts'

const PROXY = '10.1.2.3'
const STRANGER = '203.0.113.9'
const TRACE_ID = '0af7651916cd43dd8448eb211c80319c'
/** Its four parts cancel out, so the SDK's ratio sampler records it at every ratio above 0. */
const ALWAYS_BELOW_THE_RATIO = '11111111111111111111111111111111'
const parent = (flags: string, traceId = TRACE_ID) => `00-${traceId}-b7ad6b7169203331-${flags}`

const made: OpenTelemetryTracing[] = []
afterEach(async () => {
  await Promise.all(made.splice(0).map(tracing => tracing.stop()))
})

interface Settings {
  readonly trustParent?: Config['tracing']['trustParent']
  readonly sampleRatio?: number
  readonly drawn?: number
}

function begin(traceparent: string, address: string, settings: Settings = {}) {
  const { trustParent = 'trusted-proxies', sampleRatio = 0.5, drawn = 0.9 } = settings
  const config = { gateway: { trustedProxies: ['10.0.0.0/8'] }, tracing: { trustParent } }
  const tracing = new OpenTelemetryTracing({
    proxies: { noProxy: [] },
    failures: { failed: () => {}, succeeded: () => {} },
    endpoint: 'http://127.0.0.1:1',
    sampleRatio,
    version: '0',
    // The two sections of the settings that tracing reads.
    trustsParent: parentTrust(config as Pick<Config, 'gateway' | 'tracing'>),
    random: () => drawn,
  })
  made.push(tracing)
  const socket = Object.defineProperty(new Socket(), 'remoteAddress', { value: address })
  const request: TracedRequest = { headers: { traceparent }, socket }
  const { traceId, recorded } = tracing.begin(request)
  return { traceId, recorded }
}

describe('an untrusted client does not decide whether its trace is recorded', () => {
  test.each([
    ['its sampled flag', parent('01')],
    ['a trace id of its choosing', parent('01', ALWAYS_BELOW_THE_RATIO)],
    ['a trace id without the flag', parent('00', ALWAYS_BELOW_THE_RATIO)],
  ])('by %s', (_, traceparent) => {
    expect(begin(traceparent, STRANGER).recorded).toBe(false)
    expect(begin(traceparent, STRANGER, { drawn: 0.4 }).recorded).toBe(true)
    expect(begin(traceparent, STRANGER, { sampleRatio: 0, drawn: 0 }).recorded).toBe(false)
    expect(begin(traceparent, STRANGER, { sampleRatio: 1, drawn: 0.999 }).recorded).toBe(true)
  })

  test('but its trace id is continued', () => {
    expect(begin(parent('01'), STRANGER).traceId).toBe(TRACE_ID)
    expect(begin(parent('00'), STRANGER, { drawn: 0 }).traceId).toBe(TRACE_ID)
  })
})

describe('the sampled flag decides', () => {
  test.each(['01', '00'])('of a trusted proxy: %s', flags => {
    const recorded = flags === '01'
    for (const drawn of [0, 0.9]) {
      expect(begin(parent(flags), PROXY, { drawn })).toEqual({ traceId: TRACE_ID, recorded })
      expect(begin(parent(flags), `::ffff:${PROXY}`, { drawn }).recorded).toBe(recorded)
    }
  })

  test('for every client with tracing.trustParent: always, and for none with never', () => {
    expect(begin(parent('01'), STRANGER, { trustParent: 'always' }).recorded).toBe(true)
    expect(begin(parent('01'), PROXY, { trustParent: 'never' }).recorded).toBe(false)
  })
})

test.each([
  ['no header of this form', 'sampled'],
  ['an invalid version', `ff-${TRACE_ID}-b7ad6b7169203331-01`],
  ['a trace id of zeros', parent('01', '0'.repeat(32))],
  ['a span id of zeros', `00-${TRACE_ID}-${'0'.repeat(16)}-01`],
  ['two parents in one header', `${parent('01')}, ${parent('01')}`],
])('a parent that is garbage is ignored, also from a trusted proxy: %s', (_, traceparent) => {
  const { traceId, recorded } = begin(traceparent, PROXY, { sampleRatio: 0 })
  expect([traceId === TRACE_ID, recorded]).toEqual([false, false])
})
