import fc from 'fast-check'
import pino from 'pino'
import { expect, test } from 'vitest'
import { AccessLog, lineOf, type RequestEnd } from '../../src/observability/access-log.ts'
import type { RequestObservation } from '../../src/observability/request-observer.ts'

const END: RequestEnd = { status: 200, durationMs: 1.23456, aborted: false }

function seenWith(changes: Partial<RequestObservation>): RequestObservation {
  return {
    method: 'GET',
    startedAtMs: 0,
    askedAtMs: 0,
    requestId: 'id-1',
    route: 'files',
    phase: 'streaming',
    reason: null,
    keyId: null,
    workspaceId: null,
    tier: null,
    source: 'gateway',
    upstreamWaitMs: 0.98765,
    responseBytes: 3,
    isInFlight: false,
    fault: null,
    truncated: false,
    shared: null,
    traceId: null,
    trace: null,
    ...changes,
  }
}

test('a line on a request is what the logger itself would have written', () => {
  const lines: string[] = []
  const stream = { write: (line: string) => lines.push(line) }
  const logger = pino({ base: null, timestamp: pino.stdTimeFunctions.isoTime }, stream)
  const known = { keyId: 'key_1', workspaceId: 'ws_1', tier: 'memory' } as const
  new AccessLog(logger).ended(seenWith({ ...known, reason: 'scope_missing', fault: 'a "fault"' }), END)
  const fields = {
    requestId: 'id-1',
    method: 'GET',
    route: 'files',
    status: 200,
    source: 'gateway',
    reason: 'scope_missing',
    ...known,
  }
  const times = { durationMs: 1.235, upstreamMs: 0.988 }
  const order = {
    ...fields,
    keyId: 'key_1',
    workspaceId: 'ws_1',
    tier: 'memory',
    fault: 'a "fault"',
    ...times,
  }
  logger.info(order, 'request')
  const [own = '', library = ''] = lines
  const withoutTime = (line: string) => line.replace(/"time":"[^"]*Z"/, '')
  expect(withoutTime(own)).toBe(withoutTime(library))
})

test('times are numbers of milliseconds, to the microsecond', () => {
  const aDay = 86_400_000
  const time = fc.oneof(
    fc.double({ min: 0, max: 2, noNaN: true }),
    fc.double({ min: 0, max: aDay, noNaN: true }),
  )
  fc.assert(
    fc.property(time, time, (durationMs, upstreamWaitMs) => {
      const line = lineOf('2026-11-21T00:00:00.000Z', seenWith({ upstreamWaitMs }), { ...END, durationMs })
      const rounded = (ms: number) => String(Math.round(ms * 1000) / 1000)
      expect(line).toContain(`,"durationMs":${rounded(durationMs)},"upstreamMs":${rounded(upstreamWaitMs)},`)
    }),
    {
      numRuns: 2000,
      examples: [
        [0, 0.0004],
        [1, 0.9996],
        [1.05, 59_999.9995],
      ],
    },
  )
})

test('nothing that a client, a key service or an upstream chose breaks out of its field', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), fc.string(), fc.string(), (keyId, workspaceId, fault, route) => {
      const line = lineOf('2026-11-21T00:00:00.000Z', seenWith({ keyId, workspaceId, fault, route }), END)
      expect(line.trimEnd()).not.toContain('\n')
      expect(JSON.parse(line)).toMatchObject({
        keyId,
        workspaceId,
        fault,
        route,
        msg: 'request',
        status: 200,
      })
    }),
  )
})

test('a request that its client left has no status; one that broke off at the upstream says so', () => {
  const line = (seen: RequestObservation, aborted: boolean) =>
    JSON.parse(lineOf('', seen, { ...END, aborted })) as Record<string, unknown>
  const left = line(seenWith({ phase: 'waiting' }), true)
  expect([left['aborted'], 'status' in left]).toEqual(['waiting', false])
  expect(line(seenWith({ truncated: true }), false)).toMatchObject({ status: 200, truncated: true })
})

test('a level above info writes no line on requests, as long as it is set', () => {
  const lines: string[] = []
  const logger = pino({ level: 'warn' }, { write: (line: string) => lines.push(line) })
  const log = new AccessLog(logger)
  log.ended(seenWith({}), END)
  expect(lines).toEqual([])
  logger.level = 'info'
  log.ended(seenWith({}), END)
  expect(lines).toHaveLength(1)
})
